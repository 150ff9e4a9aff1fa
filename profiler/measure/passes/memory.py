"""The memory pass: what one call takes on top of the loaded model, in a process where earlier calls have paid for what
is done once (kernels chosen, library code paged in).

Two calls, because the instrument for one figure would raise the other:
1. process: the kernel's own high-water mark of resident memory (VmHWM, reset before the call), nothing switched on,
   freed memory handed back to the system before, so that the level below it is what is really in use;
2. tensors: every allocation and free of torch's allocator during the call, from the profiler's memory events, summed in
   order; the highest sum is exact, to the byte. Weights and inputs, which were there before, are not in it.
Where calls are long, these are calls that the timing pass makes anyway: tensors in the one that warms up, the process
in the first timed one, which a mark that the kernel keeps by itself does not slow down.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profiler.device import Device
from profiler.measure.passes.base import Pass, Work
from profiler.results.metric import Metric, of
from profiler.results.types import CellResult, PeakMemory

if TYPE_CHECKING:
    from profiler.recipe.schema import Recipe

STATUS = Path("/proc/self/status")
CLEAR_REFS = Path("/proc/self/clear_refs")
_parent: list[Callable[[], bool]] = []  # who is asked in a sandbox, where nothing in /proc can be written


def _peak(key: str, title: str, short: str, part: str, detail: bool = False) -> Metric:
    of_cell = of("peak_memory_bytes", part)
    return Metric(key, title, short, "bytes", f"peak_memory_{part}_bytes", of_cell, detail=detail)


PEAK = _peak("memory", "Peak memory of the process", "peak memory", "process")
MEMORY = (
    PEAK,
    _peak("tensors", "Peak memory of the call's tensors", "peak of tensors", "tensors"),
    _peak("above_baseline", "Peak memory above baseline", "peak above baseline", "above_baseline", detail=True),
    _peak("device", "Peak memory on the device", "peak on device", "device"),
    _peak("device_reserved", "Peak memory reserved on the device", "peak reserved on device", "device_reserved"),
)


@dataclass(frozen=True)
class MemoryPeaks:
    """Of a call; and of each phase of a training step."""

    whole: PeakMemory
    phases: dict[str, PeakMemory] | None = None


class MemoryPass(Pass[MemoryPeaks, MemoryPeaks]):
    name = "memory"
    result = MemoryPeaks
    essential = True
    metrics = MEMORY

    def calls(self, recipe: Recipe) -> int:
        return 2

    def fewest(self, recipe: Recipe) -> int:
        return 0

    def measure(self, work: Work) -> MemoryPeaks:
        if self.name in work.taken:
            taken: MemoryPeaks = work.taken[self.name]
            return MemoryPeaks(self._of_torch(work, taken.whole), taken.phases)
        value = work.inputs[0]
        if work.step is None:
            return MemoryPeaks(self._of_torch(work, measure_memory(work.run, value, work.device)))
        from profiler.measure.phases import memory_by_phase

        return MemoryPeaks(*memory_by_phase(work.step, Calls(work.run, value, work.run, value), work.device))

    def _of_torch(self, work: Work, peaks: PeakMemory) -> PeakMemory:
        """Without the tensors, where an engine has its own: torch's allocator knows nothing of them."""
        return peaks if work.model.runtime is None else peaks.model_copy(update={"tensors": None})

    def put(self, cell: CellResult, found: MemoryPeaks, width: float, stopped_by: str) -> None:
        cell.peak_memory_bytes = found.whole
        if cell.training is not None:
            cell.training.peak_memory_bytes = found.phases

    def take_up(self, cell: CellResult) -> MemoryPeaks | None:
        phases = cell.training.peak_memory_bytes if cell.training else None
        return MemoryPeaks(cell.peak_memory_bytes, phases) if cell.peak_memory_bytes else None


PASS = MemoryPass()


@dataclass(frozen=True)
class Calls:
    """The two calls in which memory is measured, each with its input."""

    watched: Callable[[Any], Any]  # of which the system keeps the peak
    watched_value: Any
    recorded: Callable[[Any], Any]  # under torch's profiler
    recorded_value: Any
    recorded_first: bool = False  # it warms up


def peaks_of_timed_calls(work: Work, warm_up: Callable[[Any], Any], timed: Callable[[Any], Any]) -> MemoryPeaks:
    """Memory in calls that are made anyway, one to warm up and a timed one, in this order."""
    calls = Calls(timed, work.inputs[1], warm_up, work.inputs[0], recorded_first=True)
    if work.step is None:
        return MemoryPeaks(_measure(calls, work.device))
    from profiler.measure.phases import memory_by_phase

    return MemoryPeaks(*memory_by_phase(work.step, calls, work.device))


def measure_memory(run: Callable[[Any], Any], value: Any, device: Device) -> PeakMemory:
    """Both calls of the pass."""
    return _measure(Calls(run, value, run, value), device)


def _measure(calls: Calls, device: Device) -> PeakMemory:
    tensors = _tensors(calls, device) if calls.recorded_first else None
    device.reset_peak()
    process, above = process_peak(calls.watched, calls.watched_value)
    on_device, reserved = device.peak_bytes(), device.peak_reserved_bytes()
    if not calls.recorded_first:
        tensors = _tensors(calls, device)
    return PeakMemory(
        tensors=tensors, process=process, above_baseline=above, device=on_device, device_reserved=reserved
    )


def _tensors(calls: Calls, device: Device) -> int | None:
    if device.kind == "cpu":
        return tensor_peak(calls.recorded, calls.recorded_value)
    if calls.recorded_first:
        calls.recorded(calls.recorded_value)
    return None


def process_peak(run: Callable[[Any], Any], value: Any) -> tuple[int | None, int | None]:
    """Peak resident bytes during a call, and how far that lies above the level before it."""
    gc.collect()
    hand_back_freed_memory()
    if not reset_high_water_mark():
        return None, None
    before = status_bytes("VmRSS")
    run(value)
    peak = status_bytes("VmHWM")
    return peak, max(0, peak - before)


def hand_back_freed_memory() -> None:
    """glibc keeps what was freed; still resident, it would hide as much of the next call's need."""
    # Another C library may have no such call.
    with contextlib.suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def let_parent_reset(ask: Callable[[], bool]) -> None:
    """From here on, what this process may not do itself, another one is asked to do."""
    _parent[:] = [ask]


def reset_high_water_mark() -> bool:
    try:
        CLEAR_REFS.write_text("5")  # no root needed; see proc(5)
    except OSError:
        return any(ask() for ask in _parent)
    return True


def status_bytes(name: str) -> int:
    for line in STATUS.read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"{STATUS} has no {name}")


def tensor_peak(run: Callable[[Any], Any], value: Any) -> int:
    """Highest sum of bytes that torch's CPU allocator held for this call at one time."""
    from torch.autograd.profiler import profile  # torch.profiler's own engine, without its second of imports

    gc.collect()
    with profile(profile_memory=True) as recording, new_threads_recorded():
        run(value)
    return max([0, *(level for _, level in levels(recording))])


def levels(recording: Any) -> list[tuple[int, int]]:
    """When torch's allocator held how many bytes more than at the start of a recording: after each change of it."""
    events = [event for event in recording.kineto_results.events() if event.name() == "[memory]"]
    ordered = sorted(events, key=lambda event: event.start_ns())
    held = accumulate(event.nbytes() for event in ordered)
    return [(event.start_ns(), level) for event, level in zip(ordered, held, strict=True)]


@contextmanager
def new_threads_recorded() -> Iterator[None]:
    """Let Python threads that start meanwhile report their allocations too.

    torch's profiler sees memory events of its own thread only. It has a function by which another thread joins the
    recording; that one is exported by torch's library but has no Python name, so it is called by its symbol, first
    thing in each new thread. Not through threading.setprofile: since Python 3.12 that rewrites code which other threads
    are running.
    """
    join = _join_recording()
    thread: Any = threading.Thread
    begin = getattr(thread, "_bootstrap_inner", None)
    if join is None or begin is None:
        yield
        return

    def joined(started: Any) -> None:
        join()
        begin(started)

    thread._bootstrap_inner = joined
    try:
        yield
    finally:
        thread._bootstrap_inner = begin


def _join_recording() -> Callable[[], None] | None:
    import torch

    try:
        # With the interpreter's lock held: threads that join at once would change the recording's state together.
        library = ctypes.PyDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
        function = library._ZN5torch8autograd8profiler27enableProfilerInChildThreadEv
    except (OSError, AttributeError):  # another system, or another version of torch
        return None
    function.restype = None
    function.argtypes = []
    return lambda: function()
