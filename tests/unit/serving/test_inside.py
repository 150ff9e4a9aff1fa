"""One step inside: what is counted as the load's energy and memory, with a stand-in for the sensor of the processor."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from profiler.audio import Batch, Speech
from profiler.device import Device
from profiler.measure.energy.rapl import find_rapl
from profiler.models.model import Model
from profiler.serving import inside
from profiler.serving.figures import step_of
from profiler.serving.records import Load, Request
from tests.unit.measure.powercap import PACKAGE, Machine

JOULES = 2.0  # of a call


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Each call of the model, in whichever process, draws so much from a stand-in for RAPL."""
    made = Machine(tmp_path / "powercap", call_j=JOULES).add_zone(PACKAGE, "package-0")
    monkeypatch.setattr(inside, "find_sensor", lambda device: find_rapl(made.folder))
    return made


class Decoder(torch.nn.Module):
    """Three steps, each of which gives its cache."""

    def forward(self, value: object) -> SimpleNamespace:
        time.sleep(0.01)
        return SimpleNamespace(past_key_values=())


def make(
    machine: Machine, folder: Path, module: torch.nn.Module | None = None, **more: Any
) -> tuple[Load, Any, list[Request], int]:
    def prepare(batch: Batch) -> Batch:
        return batch

    def run(value: object) -> None:
        for _ in range(3 if module else 0):
            module(value)  # type: ignore[misc]
        machine.run(value)

    model = Model(module or torch.nn.Identity(), prepare, run, "text", 16000, {})
    speech = Speech(None, 16000)
    load = Load(**{"scenario": "single_stream", "requests": 12, "seconds": 30.0, **more})
    found: list[Request] = []
    sent = 0

    def emit(requests: list[Request], count: int) -> None:
        nonlocal sent
        found.extend(requests)
        sent = count

    rows = inside.sample_utterances(speech, [0.1], 0)
    end = inside.make_step(load, model, rows, speech, Device("cpu"), 1, folder, emit)
    return load, end, found, sent


def test_energy_is_that_of_the_requests_and_not_of_the_warm_up(machine: Machine, tmp_path: Path) -> None:
    load, end, found, sent = make(machine, tmp_path / "loadgen")
    step = step_of(load, 99, found, sent, end)
    assert step.requests.ok == 12
    assert end.sensor is not None
    assert step.energy_per_request_j == pytest.approx(JOULES), "two calls came before"
    assert step.energy_reason is None


def test_memory_is_that_of_all_workers_at_once(machine: Machine, tmp_path: Path) -> None:
    _, one, _, _ = make(machine, tmp_path / "one")
    _, two, _, _ = make(machine, tmp_path / "two", workers=2)
    assert one.memory_bytes is not None
    assert two.memory_bytes is not None
    assert two.memory_bytes > one.memory_bytes > 1e5


def test_of_a_server_elsewhere_neither_is_known(machine: Machine, tmp_path: Path) -> None:
    _, end, _, _ = make(machine, tmp_path / "loadgen", outside=True)
    assert end.joules is end.memory_bytes is None
    assert "where the server runs" in end.energy_reason


def test_of_a_model_that_decodes_the_first_token_is_known(machine: Machine, tmp_path: Path) -> None:
    load, end, found, sent = make(machine, tmp_path / "loadgen", Decoder())
    step = step_of(load, 99, found, sent, end)
    assert step.first_token_s is not None
    assert step.latency_s is not None
    assert 0.01 < step.first_token_s.median < step.latency_s.median - 0.015, "two more steps came after it"
