"""Measures steps of one's own code while it runs: begin, end, begin, end ... -> what is known of all steps.

    step 0           step 1     2            3 ... 12          13         14 15 16     17 ...
    recorded         warm-up    memory       timed             warm-up    recorded     timed

A step is timed with nothing switched on. Instruments are on in the steps that the schedule names, and a step that any
of them touched is in no figure of time. Without a schedule the first step is recorded, for it may be the only one;
where more follow, some are timed, and then three are recorded again, when all is warm: those replace the first. Of
calls of a function only the last step of a recording is recorded, for nothing may be on between them.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from profiler.device import Device
from profiler.measure.latency import CLOCK_DIGITS
from profiler.results.types import PeakMemory
from profiler.steps.waiting import WaitClock

if TYPE_CHECKING:
    from profiler.measure.breakdown.labels import Chains
    from profiler.measure.breakdown.recorded import Recorded

    Schedule = Callable[[int], Any]  # as torch.profiler.schedule gives it

Kind = Literal["warm-up", "memory", "timed", "warming", "recorded"]
TIMED_FIRST = 10  # steps between the first recording and the next, without a schedule
WARM_AT = 3 + TIMED_FIRST  # the first step of the next recording
RECORDED = 3


@dataclass(frozen=True)
class Instruments:
    """What is switched on in recorded steps."""

    shapes: bool = False
    memory: bool = True
    stacks: bool = False
    labels: bool = True
    modules: bool = False  # a span for each call of each module


@dataclass
class Steps:
    """What is known of the steps so far; times are in the order in which they were taken."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    waited: list[float] = field(default_factory=list)  # of each timed step, for the data loader
    warmup: list[float] = field(default_factory=list)
    seen: int = 0  # whole steps of any kind
    raised: int = 0
    disturbed: int = 0  # steps in which another profiler was at work
    memory: PeakMemory = field(default_factory=PeakMemory)
    recorded: Recorded | None = None
    trace: str | None = None
    trace_reason: str | None = None


_recordings = [0, 0]  # on now, started so far: in this process


def default_schedule() -> Schedule:
    """What is recorded where nothing was asked for."""
    from torch.profiler import ProfilerAction as Action

    def action(step: int) -> Any:
        if step == 0 or step == WARM_AT + RECORDED:
            return Action.RECORD_AND_SAVE
        if step == WARM_AT:
            return Action.WARMUP
        return Action.RECORD if WARM_AT < step < WARM_AT + RECORDED else Action.NONE

    return action


def nothing_recorded() -> Schedule:
    """A schedule that switches nothing on."""
    from torch.profiler import ProfilerAction as Action

    return lambda step: Action.NONE


class Recorder:
    """One series of steps. Not for several threads at once: who calls it sees to that."""

    def __init__(
        self,
        instruments: Instruments,
        schedule: Schedule | None,
        device: Device,
        folder: Path,
        place: str,
        audio: float | None,
        parts: Callable[[], Chains | None],
    ) -> None:
        self.steps = Steps()
        self.instruments, self.device, self.folder, self.place = instruments, device, folder, place
        self.audio, self.parts = audio, parts
        self.schedule = schedule or default_schedule()
        self.apart = True  # steps are calls or blocks, and what lies between them is not to be recorded: no loop
        self.number = 0
        self._bare = 0  # steps without instruments so far
        self._recording: Any = None
        self._spans = ExitStack()
        self._kind: Kind = "warm-up"
        self._step = ExitStack()  # the span of a recorded step
        self._automatic = True
        self._waits = WaitClock()
        self._level: int | None = None
        self._since = 0
        self._whole = 0  # steps of the recording that is on
        self._start = self._cpu = 0.0

    # -- a step

    def begin(self) -> None:
        """The step starts when this returns."""
        self._kind = self._choose()
        self._waits.start()
        if self._kind == "memory":
            self._read_memory_before()
        self._since = _recordings[1]
        if self._kind == "recorded":
            self._open_span()
        self.again()

    def end(self) -> None:
        """The step is whole."""
        self.device.synchronize()
        self._step.close()
        wall, cpu = time.perf_counter() - self._start, time.process_time() - self._cpu
        waited, steps = self._waits.take(), self.steps
        self._waits.stop()
        steps.seen += 1
        if self._kind == "warm-up":
            steps.warmup.append(wall)
        elif self._kind == "memory":
            self._read_memory_after()
        elif self._kind == "recorded":
            self._whole += 1
        elif self._kind == "timed" and self._is_disturbed():
            steps.disturbed += 1
        elif self._kind == "timed":
            steps.wall.append(round(wall, CLOCK_DIGITS))
            steps.cpu.append(round(cpu, CLOCK_DIGITS))
            steps.waited.append(round(waited, CLOCK_DIGITS))
        self._advance()

    def again(self) -> None:
        """What was done since the step began does not belong to it."""
        self.device.synchronize()
        self._waits.take()
        self._cpu = time.process_time()
        self._start = time.perf_counter()

    def drop(self, raised: bool = False) -> None:
        """What began was no step: it raised, or the loop ended. Whatever was switched on is off when this returns."""
        self._step.close()
        self._waits.stop()
        self.steps.raised += raised
        self._close(keep=not raised)

    # -- instruments

    def _choose(self) -> Kind:
        from torch.profiler import ProfilerAction as Action

        action = self.schedule(self.number)
        if self.apart and action not in (Action.NONE, Action.RECORD_AND_SAVE):
            return "warming"  # a recording of several steps would go on for as long as no other call comes
        if self._recording is None and action != Action.NONE and not self._open():
            action = Action.NONE
        if action == Action.WARMUP:
            return "warming"
        if action != Action.NONE:
            return "recorded"
        self._bare += 1
        return "warm-up" if self._bare == 1 else "memory" if self._bare == 2 else "timed"

    def _open(self) -> bool:
        """Switch instruments on; False, with the reason, where another profiler is on already."""
        import torch
        from torch.profiler import profile

        from profiler.measure.breakdown.recorded import spans_in_recording

        if _recordings[0] or torch.autograd._profiler_enabled():
            self.steps.trace_reason = "another profiler was on in the steps that the schedule names"
            return False
        chains = self.parts() if self.instruments.labels else None
        self._automatic = chains is None or chains.labels.automatic
        first = self.number
        recording = profile(
            activities=self.device.activities(),
            schedule=lambda step: self.schedule(first + step),
            on_trace_ready=self._keep,
            record_shapes=self.instruments.shapes,
            profile_memory=self.instruments.memory,
            with_stack=self.instruments.stacks,
            with_modules=self.instruments.modules,
        )
        with ExitStack() as opening:
            opening.callback(_count_down)
            _recordings[0] += 1
            _recordings[1] += 1
            if self.instruments.labels:
                opening.enter_context(spans_in_recording(chains, self.instruments.modules))
            recording.start()
            self._spans = opening.pop_all()
        self._recording, self._whole = recording, 0
        return True

    def _open_span(self) -> None:
        from torch.profiler import record_function

        from profiler.measure.breakdown.recorded import STEP

        self._step.enter_context(record_function(STEP))

    def _advance(self) -> None:
        from torch.profiler import ProfilerAction as Action

        action = self.schedule(self.number)
        self.number += 1
        if self._recording is None:
            return
        try:
            self._recording.step()
        except BaseException:
            self._close(keep=False)
            raise
        if action == Action.RECORD_AND_SAVE:
            self._close(keep=False)  # it was kept

    def _close(self, keep: bool) -> None:
        """Switch instruments off. `keep`: what was recorded so far counts, if there is a whole step in it."""
        recording, self._recording = self._recording, None
        if recording is None:
            return
        try:
            if not keep:
                recording.on_trace_ready = None
            recording.stop()
        finally:
            self._spans.close()

    def _keep(self, recording: Any) -> None:
        """A cycle of the schedule is over."""
        from profiler.measure.breakdown.recorded import read_recording
        from profiler.measure.passes.trace import write_trace

        try:
            folder = self.folder / self.place
            folder.mkdir(parents=True, exist_ok=True)
            found = read_recording(recording, self._whole, self.device, self.audio, folder, self.place, self._automatic)
            if found is None:
                return
            earlier = self.steps.trace
            self.steps.trace = f"{self.place}/{write_trace(recording, folder, folder.name).name}"
        except OSError as error:  # the user's own work goes on
            self.steps.trace_reason = f"the trace could not be written: {error.strerror}"
            return
        self.steps.recorded, self.steps.trace_reason = found, None
        self.steps.memory.tensors = found.tensors
        if earlier is not None:
            with contextlib.suppress(OSError):
                (self.folder / earlier).unlink()

    # -- one step for the memory of the process

    def _read_memory_before(self) -> None:
        from profiler.measure.passes.memory import level_before

        self.device.reset_peak()
        with contextlib.suppress(OSError):  # a system without /proc
            self._level = level_before()

    def _read_memory_after(self) -> None:
        from profiler.measure.passes.memory import peak_since

        memory = self.steps.memory
        with contextlib.suppress(OSError):
            memory.process, memory.above_baseline = peak_since(self._level)
        memory.device, memory.device_reserved = self.device.peak_bytes(), self.device.peak_reserved_bytes()

    def _is_disturbed(self) -> bool:
        import torch

        return _recordings[0] > 0 or _recordings[1] != self._since or torch.autograd._profiler_enabled()


def _count_down() -> None:
    _recordings[0] -= 1
