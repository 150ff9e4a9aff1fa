"""A stand-in for torch.accelerator: a device that counts calls, time and bytes. There is no real one in tests.

Work is given to it by `compute` and done later, as on a real device: only a synchronise waits for it. `clock` takes the
place of the module `time` where calls are timed; `log` has what was called, in order.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from profiler.device import GRAPHS

LAUNCH_S = 0.001  # of the CPU, for each piece of work


class FakeAccelerator:
    def __init__(self, kind: str = "cuda", devices: int = 1, total: int = 1000) -> None:
        self.kind, self.devices, self.total = kind, devices, total
        self.log: list[str] = []
        self.now = 100.0  # seconds
        self.busy_until = 0.0
        self.cpu = 0.0  # of the process
        self.allocated = self.peak = self.reserved = self.peak_reserved = 0

        self.recording: list[float] | None = None

    def install(self, patch: pytest.MonkeyPatch) -> FakeAccelerator:
        functions = {
            "current_accelerator": lambda check_available=False: torch.device(self.kind) if self.devices else None,
            "device_count": lambda: self.devices,
            "set_device_index": lambda index: self.log.append(f"set_device_index {index}"),
            "synchronize": self.synchronize,
            "empty_cache": self.empty_cache,
            "reset_peak_memory_stats": self.reset_peak,
            "max_memory_allocated": lambda device: self.peak,
            "max_memory_reserved": lambda device: self.peak_reserved,
            "get_memory_info": lambda device: (self.total - self.reserved, self.total),
        }
        for name, function in functions.items():
            patch.setattr(torch.accelerator, name, function, raising=False)
        patch.setattr(torch.mps, "empty_cache", self.empty_cache)
        for kind, name in GRAPHS.items():
            patch.setattr(getattr(torch, kind), name, lambda: _Graph(self), raising=False)
        patch.setattr(torch, "Stream", lambda device: _Stream(self))
        patch.setattr(torch, "Event", lambda device, enable_timing: _Event(self, device, enable_timing))
        return self

    @property
    def clock(self) -> Any:
        """For a module that reads the clock as `time.perf_counter()`."""
        return SimpleNamespace(perf_counter=self._read, process_time=lambda: self.cpu)

    def _read(self) -> float:
        self.log.append("clock")
        return self.now

    def compute(self, seconds: float) -> None:
        """One kernel; while calls are recorded it is kept instead of done."""
        if self.recording is not None:
            self.recording.append(seconds)
            return
        self.log.append("compute")
        self.now += LAUNCH_S
        self.cpu += LAUNCH_S
        self.busy_until = max(self.busy_until, self.now) + seconds

    def synchronize(self, device: str) -> None:
        if self.recording is not None:
            raise RuntimeError("operation not permitted when stream is capturing")
        self.log.append(f"synchronize {device}")
        self.now = max(self.now, self.busy_until)

    def allocate(self, size: int) -> None:
        """From what is kept, then from the device; raises as torch does where that is too small."""
        more = max(0, self.allocated + size - self.reserved)
        if self.reserved + more > self.total:
            free = self.total - self.reserved
            raise torch.OutOfMemoryError(
                f"CUDA out of memory. Tried to allocate {size} B. GPU 0 has a total capacity of {self.total} B of "
                f"which {free} B is free.\nIf reserved memory is large try expandable_segments."
            )
        self.allocated += size
        self.reserved += more
        self.peak, self.peak_reserved = max(self.peak, self.allocated), max(self.peak_reserved, self.reserved)

    def free(self, size: int) -> None:
        self.allocated -= size

    def empty_cache(self) -> None:
        self.log.append("empty_cache")
        self.reserved = self.allocated

    def reset_peak(self, device: str) -> None:
        self.log.append("reset_peak")
        self.peak, self.peak_reserved = self.allocated, self.reserved


class _Event:
    def __init__(self, device: FakeAccelerator, name: str, enable_timing: bool) -> None:
        assert enable_timing
        self._device = device
        self.at: float | None = None

    def record(self) -> None:
        self._device.log.append("event")
        self.at = max(self._device.now, self._device.busy_until)

    def elapsed_time(self, later: _Event) -> float:
        """Milliseconds. As on a real device, an error before the later one has happened."""
        assert self.at is not None
        assert later.at is not None
        if self._device.now < later.at:
            raise RuntimeError("device not ready")
        return (later.at - self.at) * 1000


class _Stream:
    def __init__(self, device: FakeAccelerator) -> None:
        self._device = device

    def __enter__(self) -> None:
        self._device.log.append("own stream")

    def __exit__(self, *_: object) -> None:
        self._device.log.append("usual stream")


class _Graph:
    """Its memory is taken while it is recorded and given back with it."""

    def __init__(self, device: FakeAccelerator) -> None:
        self._device = device
        self._kernels: list[float] = []

    def capture_begin(self) -> None:
        self._device.log.append("record")
        self._device.recording = self._kernels

    def capture_end(self) -> None:
        self._device.log.append("recorded")
        self._device.recording = None

    def replay(self) -> None:
        self._device.log.append("replay")
        self._device.compute(sum(self._kernels))
