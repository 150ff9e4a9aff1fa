"""How an NVIDIA GPU was while a job ran: held back by heat or power, used by others, its clock and temperature.

NVML's counters and samples, read before and after a job by the parent, which has no context on the GPU. Other vendors'
tools count none of this, so there is no figure for theirs. nvidia-ml-py, of the extra `energy`, is NVML for Python.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from profiler.results.types import DeviceFacts, GpuCondition

NS = 1e-9
US = 1e6
INSTALL = "pip install 'speech-profiler[energy]'"


@dataclass(frozen=True)
class GpuReading:
    """Seconds since some start; None: this GPU does not count it."""

    clock: float
    held_back: float | None
    sampled_after: int  # µs since 1970, by which NVML marks its samples


@functools.cache
def nvml() -> Any | str:
    """NVML, ready to be asked; or why it cannot be."""
    try:
        import pynvml
    except ImportError:
        return f"nvidia-ml-py is not installed ({INSTALL})"
    try:
        pynvml.nvmlInit()
    except Exception as problem:  # no driver, or not NVIDIA's
        return f"NVML cannot be read ({problem})"
    return pynvml


def read_gpu(device: DeviceFacts | None) -> GpuReading | None:
    """Before and after a job. None where NVML does not know the device."""
    handle = _handle(device)
    if handle is None:
        return None
    library: Any = nvml()
    policies = (library.NVML_PERF_POLICY_POWER, library.NVML_PERF_POLICY_THERMAL)
    spans = [_ask(library, "nvmlDeviceGetViolationStatus", handle, policy) for policy in policies]
    counted = [span.violationTime * NS for span in spans if span is not None]
    return GpuReading(time.monotonic(), sum(counted) if counted else None, int(time.time() * US))


def gpu_between(device: DeviceFacts | None, before: GpuReading | None, ours: Collection[int]) -> GpuCondition | None:
    """What happened since a reading. `ours`: the process ids of the run's workers, which may use the GPU."""
    after, handle = read_gpu(device), _handle(device)
    if before is None or after is None:
        return None
    library: Any = nvml()
    held_back = None
    if before.held_back is not None and after.held_back is not None:
        span = max(after.clock - before.clock, 1e-6)
        held_back = round(min(1.0, max(0.0, after.held_back - before.held_back) / span), 3)
    processes, use = _others(library, handle, before.sampled_after, ours)
    return GpuCondition(
        held_back=held_back,
        other_processes=processes,
        other_use=use,
        clock_mhz=_ask(library, "nvmlDeviceGetClockInfo", handle, library.NVML_CLOCK_SM),
        temperature_c=_ask(library, "nvmlDeviceGetTemperature", handle, library.NVML_TEMPERATURE_GPU),
    )


def _others(library: Any, handle: Any, since: int, ours: Collection[int]) -> tuple[int | None, float | None]:
    """How many other processes compute on it, and the share of its time that the busiest of them had.

    Where our own process is not among those that NVML names (a container has other numbers), nobody can be told apart.
    """
    running = _ask(library, "nvmlDeviceGetComputeRunningProcesses", handle)
    if running is None or not any(each.pid in ours for each in running):
        return None, None
    others = {each.pid for each in running} - set(ours)
    samples = _ask(library, "nvmlDeviceGetProcessUtilization", handle, since)
    if samples is None:
        return len(others), 0.0 if not others else None
    return len(others), max((each.smUtil / 100 for each in samples if each.pid not in ours), default=0.0)


@functools.cache
def _handle(device: DeviceFacts | None) -> Any | None:
    """By its identity: torch numbers those that it may use, NVML all that there are."""
    library = nvml()
    if device is None or device.uuid is None or isinstance(library, str):
        return None
    return _ask(library, "nvmlDeviceGetHandleByUUID", device.uuid)


def _ask(library: Any, function: str, *arguments: Any) -> Any | None:
    """None where this GPU, its driver or this version of NVML does not tell."""
    with contextlib.suppress(Exception):
        return getattr(library, function)(*arguments)
    return None
