"""`python -m benchmarks.on_gpu` against a stand-in: what holds is said to hold, and what does not is found."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from benchmarks import on_gpu
from profiler.device import Device
from profiler.measure import latency
from tests.helpers.accelerator import FakeAccelerator

DEVICE = Device("cuda:0")


class Block:
    """Bytes of the device, for as long as it is held."""

    def __init__(self, fake: FakeAccelerator, size: int) -> None:
        self._fake, self._size = fake, 0
        fake.allocate(size)
        self._size = size

    def __del__(self) -> None:
        self._fake.free(self._size)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeAccelerator:
    found = FakeAccelerator(total=4 * on_gpu.BLOCK).install(monkeypatch)
    monkeypatch.setattr(latency, "time", found.clock)
    monkeypatch.setattr(on_gpu, "time", found.clock)
    found.allocate(1000)
    return found


def check_all(fake: FakeAccelerator) -> dict[str, bool]:
    def hold(size: int) -> Any:
        return Block(fake, size)

    found = [
        *on_gpu.check_clock(DEVICE, lambda value: fake.compute(0.05)),
        *on_gpu.check_memory(DEVICE, hold),
        *on_gpu.check_out_of_memory(DEVICE, hold),
    ]
    return {what: holds for what, _, holds in found}


def test_a_device_that_does_as_claimed_passes(fake: FakeAccelerator) -> None:
    found = check_all(fake)
    assert len(found) == 8
    assert [what for what, holds in found.items() if not holds] == []


def test_what_does_not_hold_is_found(fake: FakeAccelerator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Device, "synchronize", lambda self: None)
    monkeypatch.setattr(Device, "event", lambda self: None)
    monkeypatch.setattr(Device, "start_clean", lambda self: None)
    found = check_all(fake)
    assert [what for what, holds in found.items() if not holds] == [
        "a call is waited for",
        "the next cell starts without it",
        "its memory is given back",
    ]


class Value(float):
    """An input and an output of a call."""

    def __eq__(self, other: object) -> Any:
        return SimpleNamespace(all=lambda: float(self) == float(other))  # type: ignore[arg-type]

    __hash__ = float.__hash__


def test_a_replayed_call_is_compared_with_the_call(fake: FakeAccelerator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "Stream", lambda device: contextlib.nullcontext())

    def run(value: Any) -> Value:
        for _ in range(20):
            fake.compute(1e-5)
        return Value(value)

    found = on_gpu.check_graph(DEVICE, run, [1.0, 2.0])
    assert [holds for *_, holds in found] == [True, True]
    monkeypatch.setattr("profiler.variants.graphed.Graphed.__call__", lambda self, value: Value(value + 1))
    assert not on_gpu.check_graph(DEVICE, run, [1.0])[0][2]


def test_without_a_device_it_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    FakeAccelerator(devices=0).install(monkeypatch)
    monkeypatch.setattr("sys.argv", ["on_gpu"])
    with pytest.raises(SystemExit) as ended:
        on_gpu.main()
    assert ended.value.code == 2
    assert "sees no accelerator here" in capsys.readouterr().err
