"""A call that is recorded on the device and replayed: in which order, and what cannot be. Against a stand-in for
torch.accelerator (tests/helpers/accelerator.py): there is no GPU here, and no graph was ever recorded on a real one.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from profiler.device import Device
from profiler.errors import NotSupported
from profiler.measure import latency
from profiler.recipe.schema import Variant
from profiler.variants.convert import changes_model, convert
from profiler.variants.graphed import Graphed, record_calls, shape_of
from tests.helpers.accelerator import LAUNCH_S, FakeAccelerator

KERNELS = 50


class Tensor:
    """As much of a tensor as inputs need: where it is, its shape, and what was copied into it."""

    dtype = "float32"

    def __init__(self, value: int, place: str = "cpu", samples: int = 16) -> None:
        self.value, self.place, self.shape = value, place, (1, samples)

    def to(self, place: str, copy: bool = False) -> Tensor:
        return Tensor(self.value, place, self.shape[1])

    def copy_(self, other: Tensor) -> None:
        self.value = other.value


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeAccelerator:
    monkeypatch.setattr(torch, "Tensor", Tensor)
    made = FakeAccelerator().install(monkeypatch)
    monkeypatch.setattr(latency, "time", made.clock)
    return made


def graphed(fake: FakeAccelerator, seen: list[Any]) -> Graphed:
    """Of a model with many small kernels, each of which takes the CPU longer to launch than the device to do."""

    def run(value: tuple[Tensor, None]) -> Tensor:
        seen.append(value[0])
        for _ in range(KERNELS):
            fake.compute(LAUNCH_S / 10)
        return value[0]

    return Graphed(run, Device("cuda:0"))


def test_a_call_is_warmed_up_on_a_stream_of_its_own_recorded_once_and_replayed(fake: FakeAccelerator) -> None:
    seen: list[Any] = []
    run = graphed(fake, seen)
    run.prepare([(Tensor(1), None), (Tensor(2), None)])
    order = [each for each in fake.log if each != "compute"]
    wait = "synchronize cuda:0"
    assert order == [wait, "own stream", "usual stream", wait, "own stream", "record", "recorded", "usual stream", wait]
    assert len(seen) == 4  # three to warm up, one to record
    fake.log.clear()
    outputs = [run((Tensor(value), None)).value for value in (7, 8)]
    assert outputs == [7, 8], "each call has its own input"
    assert len(seen) == 4
    assert fake.log == ["replay", "compute"] * 2
    assert {tensor.place for tensor in seen} == {"cuda:0"}


def test_one_launch_for_all_kernels_is_what_it_saves(fake: FakeAccelerator) -> None:
    run = graphed(fake, [])
    inputs = [(Tensor(value), None) for value in range(3)]
    run.prepare(inputs)
    size = latency.RoundSize(warmup=1, min_calls=3, max_calls=3)
    plain = latency.time_calls(run.run, inputs, Device("cuda:0"), size)
    replayed = latency.time_calls(run, inputs, Device("cuda:0"), size)
    assert min(plain.cpu) == pytest.approx(KERNELS * LAUNCH_S)
    assert max(replayed.cpu) == pytest.approx(LAUNCH_S)
    assert max(replayed.samples) < 0.2 * min(plain.samples)


def test_every_shape_has_its_recording_and_a_new_cell_begins_without_any(fake: FakeAccelerator) -> None:
    run = graphed(fake, [])
    run.prepare([(Tensor(1, samples=16), None), (Tensor(1, samples=32), None), (Tensor(2, samples=16), None)])
    assert fake.log.count("record") == 2
    run.forget()
    run.prepare([(Tensor(1, samples=16), None)])
    assert fake.log.count("record") == 3


def test_a_call_that_waits_for_the_device_is_not_supported(fake: FakeAccelerator, monkeypatch: Any) -> None:
    """As one that decodes does."""
    monkeypatch.setattr("profiler.variants.graphed.device_of", lambda model: "cuda")
    monkeypatch.setattr("profiler.processes.device_of", lambda model: "cuda")
    model: Any = SimpleNamespace(run=lambda value: Device("cuda").synchronize(), graph=None)
    with pytest.raises(NotSupported, match=r"cannot be recorded .*decodes waits for the device.*not permitted"):
        record_calls(model, [(Tensor(1), None)])
    assert fake.recording is None, "what comes after is not recorded"


def test_a_model_whose_features_the_cpu_computes_is_not_supported(fake: FakeAccelerator) -> None:
    with pytest.raises(NotSupported, match=r"first step .* runs on the CPU"):
        shape_of([memoryview(b"samples")])


def test_on_a_cpu_it_is_not_supported_and_says_why() -> None:
    variant = Variant(name="graph", cuda_graph=True)
    assert changes_model(variant)
    module = torch.nn.Linear(4, 4)
    model: Any = SimpleNamespace(module=module, components={"linear": module}, run=module, beside={}, file_bytes=None)
    with pytest.raises(NotSupported, match=r"needs a device that records its work .* the model is on cpu$"):
        convert(model, variant, lambda: [torch.ones(1, 4)])
