"""How an NVIDIA GPU was while a job ran: held back by heat or power, used by others, its clock and temperature.

NVML's counters and samples, read before and after a job by the parent, which has no context on the GPU. Other vendors'
tools count none of this, so there is no figure for theirs. nvidia-ml-py, of the extra `energy`, is NVML for Python.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from profiler.results.types import DeviceFacts, Gpu, GpuCondition

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
    counted = _lowered(library, _board(library, handle))
    return GpuReading(time.monotonic(), sum(counted) * NS if counted else None, int(time.time() * US))


def with_slowdown(gpus: Iterable[Gpu]) -> list[Gpu]:
    """As nvidia-smi tells of them, and the temperature at which each lowers its clock, which it does not."""
    return [
        gpu.model_copy(update={"slowdown_temperature": _slowdown(_handle(DeviceFacts(place="", uuid=gpu.uuid)))})
        for gpu in gpus
    ]


def clock_and_heat(device: DeviceFacts | None) -> dict[str, int | None]:
    """As they are now, for a GpuCondition. Where nothing runs any more, the clock soon falls to that of an idle GPU."""
    handle = _handle(device)
    if handle is None:
        return {}
    library: Any = nvml()
    board = _board(library, handle)
    return {
        "clock_mhz": _ask(library, "nvmlDeviceGetClockInfo", board, library.NVML_CLOCK_SM),
        "temperature_c": _ask(library, "nvmlDeviceGetTemperature", board, library.NVML_TEMPERATURE_GPU),
    }


def gpu_between(
    device: DeviceFacts | None,
    before: GpuReading | None,
    ours: Collection[int],
    after_calls: Mapping[str, int | None] | None = None,
) -> GpuCondition | None:
    """What happened since a reading. `ours`: the process ids of the run's workers. `after_calls`: clock and temperature
    right after the timed calls, where other passes followed them."""
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
        slowdown_c=_slowdown(handle),
        **(after_calls or clock_and_heat(device)),
    )


def _lowered(library: Any, board: Any) -> list[int]:
    """Nanoseconds in which power and heat lowered its clock; what is not counted is left out."""
    policies = (library.NVML_PERF_POLICY_POWER, library.NVML_PERF_POLICY_THERMAL)
    spans = [_ask(library, "nvmlDeviceGetViolationStatus", board, policy) for policy in policies]
    if counted := [span.violationTime for span in spans if span is not None]:
        return counted
    # The way of drivers that come without that function, which NVIDIA will take away.
    fields = ("NVML_FI_DEV_PERF_POLICY_POWER", "NVML_FI_DEV_PERF_POLICY_THERMAL")
    numbers = [getattr(library, name) for name in fields if hasattr(library, name)]
    told = _ask(library, "nvmlDeviceGetFieldValues", board, numbers) if numbers else None
    return [each.value.ullVal for each in told or [] if each.nvmlReturn == 0]


def _slowdown(handle: Any | None) -> int | None:
    library: Any = nvml()
    if handle is None:
        return None
    kind = getattr(library, "NVML_TEMPERATURE_THRESHOLD_SLOWDOWN", None)
    found: int | None = _ask(library, "nvmlDeviceGetTemperatureThreshold", _board(library, handle), kind)
    return found or None


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
    # torch gives the number alone; NVML calls a part of a GPU (MIG) by it and another prefix.
    names = (device.uuid, device.uuid.replace("GPU-", "MIG-", 1))
    found = (_ask(library, "nvmlDeviceGetHandleByUUID", name) for name in names)
    return next((handle for handle in found if handle is not None), None)


def _board(library: Any, handle: Any) -> Any:
    """What has a clock and a temperature: the GPU itself, also of a part of it (MIG)."""
    whole = _ask(library, "nvmlDeviceGetDeviceHandleFromMigDeviceHandle", handle)
    return handle if whole is None else whole


def _ask(library: Any, function: str, *arguments: Any) -> Any | None:
    """None where this GPU, its driver or this version of NVML does not tell."""
    with contextlib.suppress(Exception):
        return getattr(library, function)(*arguments)
    return None
