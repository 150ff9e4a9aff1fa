"""The phases of a training step: how long each takes, what memory it needs, and how fast audio goes through the step.

Times come from the timing pass: the step looks at a clock between its phases, and nothing else is switched on. Memory
by phase comes from the calls of the memory pass. Needs no torch but in a worker.
"""

from __future__ import annotations

import gc
import math
import statistics
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from profiler.device import Device
from profiler.results.metric import HIGHER, detail, of
from profiler.results.types import PHASES, Loss, PeakMemory, Phase, PhaseTotal, StepFigures, StepTotals

if TYPE_CHECKING:
    from profiler.measure.passes.memory import Calls
    from profiler.training.step import TrainingStep

SPAN = "phase: "  # before the name of a phase, in a trace
PhaseBytes = dict[str, dict[str, int | None]]  # phase -> what is measured -> bytes
_training = partial(of, "training")
TRAINING = (
    *(detail(p, p, "s", f"{p}_median_s", _training("phases", p, "median_s")) for p in PHASES),
    detail("frames", "frames per s", "", "frames_per_s", _training("frames_per_second"), **HIGHER),
)
NO_CLOCK = "this device does not tell when a phase ends without waiting for it"


# -- in the process that is measured


@dataclass(frozen=True)
class TrainingSteps:
    """What the timing pass knows of its training steps, of one round or of all so far."""

    phases: list[list[float]] | None  # seconds of each phase of each call; None: the device has no clock for it
    losses: list[float | None]  # of the first and the last step of the first round
    frame_rate: float
    tokens: float
    state_bytes: dict[str, int]

    def joined(self, new: TrainingSteps) -> TrainingSteps:
        phases = None if self.phases is None or new.phases is None else [*self.phases, *new.phases]
        return replace(new, phases=phases, losses=self.losses or new.losses)

    @classmethod
    def from_result(cls, result: StepFigures) -> TrainingSteps:
        columns = [result.phases[name].samples for name in PHASES] if result.phases else []
        return cls(
            phases=[list(call) for call in zip(*columns, strict=True)] if columns else None,
            losses=[result.loss.first, result.loss.last],
            frame_rate=result.frames_per_second_of_audio,
            tokens=result.tokens,
            state_bytes=result.state_bytes,
        )

    def result(self, median: float, seconds_of_audio: float) -> StepFigures:
        speed = seconds_of_audio / median if median else None
        return StepFigures(
            phases=phases_of(self.phases) if self.phases else None,
            phases_reason=NO_CLOCK if self.phases is None else None,
            state_bytes=self.state_bytes,
            seconds_of_audio_per_second=speed,
            frames_per_second=speed * self.frame_rate if speed else None,
            frames_per_second_of_audio=self.frame_rate,
            tokens=self.tokens,
            loss=Loss(first=self.losses[0], last=self.losses[-1]) if self.losses else Loss(),
        )


def training_round(step: TrainingStep, inputs: list[Any]) -> TrainingSteps:
    """Of the steps since the warm-up."""
    return TrainingSteps(
        phases=step.times(),
        losses=[loss if math.isfinite(loss) else None for loss in map(float, step.losses)],
        frame_rate=step.frame_rate,
        tokens=statistics.fmean(targets.total for _, targets in inputs),
        state_bytes=step.state_bytes(),
    )


def memory_by_phase(step: TrainingStep, calls: Calls, device: Device) -> tuple[PeakMemory, dict[str, PeakMemory]]:
    """The figures of the memory pass, of the whole step and of each phase."""
    found: PhaseBytes = {name: {} for name in PHASES}
    if calls.recorded_first:
        _tensor_peaks(step, calls, device, found)
    above = _process_peaks(step, calls, device, found)
    if not calls.recorded_first:
        _tensor_peaks(step, calls, device, found)

    def most(kind: str) -> int | None:
        values = [peaks.get(kind) for peaks in found.values()]
        return max((each for each in values if each is not None), default=None)

    whole = PeakMemory(tensors=most("tensors"), process=most("process"), above_baseline=above, device=most("device"))
    return whole, {phase: PeakMemory(**peaks) for phase, peaks in found.items()}


def _process_peaks(step: TrainingStep, calls: Calls, device: Device, found: PhaseBytes) -> int | None:
    """The kernel's high-water mark, and the device's, set back at each phase; how far the highest lies above before."""
    from profiler.measure.passes import memory

    gc.collect()
    memory.hand_back_freed_memory()
    resettable = memory.reset_high_water_mark()
    before = memory.status_bytes("VmRSS") if resettable else 0

    @contextmanager
    def watched(phase: str) -> Iterator[None]:
        device.synchronize()
        device.reset_peak()
        if resettable:
            memory.reset_high_water_mark()
        yield
        device.synchronize()
        found[phase]["process"] = memory.status_bytes("VmHWM") if resettable else None
        found[phase]["device"] = device.peak_bytes()

    with step.around(watched):
        calls.watched(calls.watched_value)
    peaks = [peak for each in found.values() if (peak := each["process"]) is not None]
    return max(0, max(peaks) - before) if peaks else None


def _tensor_peaks(step: TrainingStep, calls: Calls, device: Device, found: PhaseBytes) -> None:
    """Exact sums of the allocator's events; the clock of spans and of these events is the same."""
    if device.kind != "cpu":
        if calls.recorded_first:
            calls.recorded(calls.recorded_value)
        return
    from torch.autograd.profiler import profile

    from profiler.measure.passes import memory

    gc.collect()
    with profile(profile_memory=True) as recording, memory.new_threads_recorded(), phase_spans(step):
        calls.recorded(calls.recorded_value)
    levels = memory.levels(recording)
    for event in recording.kineto_results.events():
        if event.name().startswith(SPAN):
            start, end = event.start_ns(), event.start_ns() + event.duration_ns()
            at_start = [level for at, level in levels if at <= start][-1:]
            during = [level for at, level in levels if start <= at <= end]
            found[event.name().removeprefix(SPAN)]["tensors"] = max([0, *at_start, *during])


def phase_spans(step: TrainingStep | None) -> AbstractContextManager[None]:
    """While this lasts, each phase is a span of its name in what is recorded."""
    from torch.autograd.profiler import record_function

    return step.around(lambda phase: record_function(f"{SPAN}{phase}")) if step is not None else nullcontext()


# -- in the parent


def phases_of(calls: list[list[float]]) -> dict[str, Phase]:
    """Each phase over all calls; shares are of the mean step, so that they add up to 1."""
    columns = dict(zip(PHASES, zip(*calls, strict=True), strict=True))
    whole = sum(statistics.fmean(column) for column in columns.values())
    return {
        name: Phase(
            median_s=statistics.median(column),
            mean_s=statistics.fmean(column),
            share=statistics.fmean(column) / whole if whole else 0.0,
            samples=list(column),
        )
        for name, column in columns.items()
    }


def training_over(batches: list[tuple[float, int, int, list[list[float]]]], audio: float) -> StepTotals:
    """The same over the batches of a data set: (seconds of the step, tokens, frames, phases of each round) of each."""
    total = sum(seconds for seconds, *_ in batches)
    by_phase = [[statistics.fmean(column) for column in zip(*rounds, strict=True)] for *_, rounds in batches if rounds]
    sums = [sum(column) for column in zip(*by_phase, strict=True)]
    tokens = sum(tokens for _, tokens, _, _ in batches)
    return StepTotals(
        phases={
            name: PhaseTotal(total_s=each, share=each / sum(sums)) for name, each in zip(PHASES, sums, strict=False)
        },
        tokens=tokens,
        seconds_of_audio_per_second=audio / total if total else None,
        frames_per_second=sum(frames for _, _, frames, _ in batches) / total if total else None,
        tokens_per_second=tokens / total if total else None,
    )
