"""The timing pass: wall and CPU seconds of a few calls, in every round, with nothing switched on. See latency.py.

A model that takes its audio in chunks has thousands of them per call. Number, maximum and how many were late are exact;
of the latencies themselves each round keeps a random choice, so that messages and files stay small.
"""

from __future__ import annotations

import random
import statistics
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from profiler import messages
from profiler.measure.afford import LONG_SECONDS
from profiler.measure.latency import (
    CLOCK_DIGITS,
    Timing,
    input_of,
    no_garbage_collection,
    take_turns,
    time_calls,
    timed,
)
from profiler.measure.passes.base import Pass, Work
from profiler.measure.passes.memory import peaks_of_timed_calls
from profiler.measure.phases import TRAINING, TrainingSteps, training_round
from profiler.measure.reference import measure_handoff
from profiler.measure.verdict import judge
from profiler.results.metric import Interval, Metric, detail, follow, of
from profiler.results.statistics import Estimate, cut, estimate, percentiles
from profiler.results.types import CellResult, ChunkLatency, DeviceTime, Latency

if TYPE_CHECKING:
    from profiler.measure.latency import OnSample
    from profiler.models.model import Chunks
    from profiler.recipe.schema import Recipe


KEPT_IN_ROUND = 1000  # enough for the 99th percentile in every round
BELOW_1 = "below 1 is faster than real time"


_chunk = partial(of, "chunks")
CHUNKS = (
    detail("chunk", "chunk", "s", "chunk_s", _chunk("seconds")),
    detail("lookahead", "lookahead", "s", "", _chunk("lookahead_s")),
    detail("chunk_median", "median", "s", "chunk_latency_median_s", _chunk("median")),
    detail("chunk_p90", "p90", "s", "", _chunk("percentiles", "p90")),
    detail("chunk_p99", "p99", "s", "", _chunk("percentiles", "p99")),
    detail("chunk_max", "max", "s", "chunk_latency_max_s", _chunk("max")),
    detail("chunk_rtf", "RTF of a chunk", "", "", lambda cell: cell.chunks and cell.chunks.rtf, time=True),
    detail("chunks_late", "late", "share", "chunks_late_fraction", _chunk("over")),
    detail("chunk_delay", "delay", "s", "", lambda cell: cell.chunks and cell.chunks.delay),
)


@dataclass
class ChunkRound:
    """What one round saw."""

    seconds: float
    lookahead_s: float
    n: int
    late: int
    max: float
    samples: list[float]


def chunk_round(chunks: Chunks, seed: int) -> ChunkRound:
    """The chunks of the round's timed calls."""
    times = chunks.times
    kept = times if len(times) <= KEPT_IN_ROUND else random.Random(seed).sample(times, KEPT_IN_ROUND)
    return ChunkRound(
        seconds=chunks.seconds,
        lookahead_s=chunks.lookahead,
        n=len(times),
        late=sum(seconds > chunks.seconds for seconds in times),
        max=round(max(times, default=0.0), CLOCK_DIGITS),
        samples=[round(seconds, CLOCK_DIGITS) for seconds in kept],
    )


def add_round(earlier: ChunkLatency | None, new: ChunkRound) -> ChunkLatency | None:
    """The figures of all rounds so far; None where nothing was processed."""
    if not new.n:
        return earlier
    samples = [*(earlier.samples if earlier else []), *new.samples]
    n = new.n + (earlier.n if earlier else 0)
    late = new.late + (earlier.late if earlier else 0)
    return ChunkLatency(
        seconds=new.seconds,
        lookahead_s=new.lookahead_s,
        n=n,
        median=statistics.median(samples),
        percentiles=percentiles(samples),
        max=max(new.max, earlier.max if earlier else 0.0),
        late=late,
        over=late / n,
        samples=samples,
    )


def _rtf_ci95(cell: CellResult) -> Interval | None:
    ends = follow(cell, "latency_s", "ci95")
    if ends is None or not cell.rtf or cell.latency_s is None:
        return None
    audio = cell.latency_s.median / cell.rtf  # seconds of real audio in the batch
    return ends[0] / audio, ends[1] / audio


def _rtfx_ci95(cell: CellResult) -> Interval | None:
    """The ends change places."""
    ends = _rtf_ci95(cell)
    return (1 / ends[1], 1 / ends[0]) if ends and ends[0] > 0 else None


_time = partial(of, "latency_s")
_median, _ci95 = _time("median"), _time("ci95")
RTF = Metric("rtf", "Real-time factor", "RTF", "", "rtf", of("rtf"), ci95=_rtf_ci95, time=True, hint=BELOW_1)
RTFX = Metric("rtfx", "Seconds of audio per second", "RTFx", "", "rtfx", of("rtfx"), None, _rtfx_ci95, "higher", True)
LATENCY = Metric("latency", "Latency of one call", "latency", "s", "latency_median_s", _median, ci95=_ci95, time=True)
DEVICE_RTF = detail("device_rtf", "RTF, device time", "", "rtf_device", of("device_time_s", "rtf"), time=True)
CPU_RTF = detail("cpu_rtf", "RTF, CPU time", "", "rtf_cpu", of("device_time_s", "cpu_rtf"), time=True)
# Over all timed calls of a cell. None of them is its latency, which is the median of the rounds' medians.
CALLS = (
    detail("mean", "mean of calls", "s", "latency_mean_s", _time("mean")),
    detail("std", "standard deviation of calls", "s", "latency_std_s", _time("std")),
    detail("min", "shortest call", "s", "latency_min_s", _time("min")),
    *(detail(p, f"{p} of calls", "s", f"latency_{p}_s", _time("percentiles", p)) for p in ("p90", "p95", "p99")),
    detail("calls", "timed calls", "count", "calls", _time("n")),
    detail("rounds", "rounds", "count", "rounds", lambda cell: len(cell.latency_s.rounds) if cell.latency_s else None),
    detail("cpu_time", "CPU time of a call", "s", "cpu_time_median_s", _time("cpu_median")),
    detail("padding", "padding", "share", "padding_fraction", lambda cell: cell.input.padding),
)


@dataclass
class Round:
    """What one round gives."""

    timing: Timing
    handoff_s: float | None = None
    chunks: ChunkRound | None = None  # of a model that takes its audio piece by piece
    training: TrainingSteps | None = None


@dataclass
class Rounds:
    """What is known of all rounds: the calls of each one. Arrays take a fourth of a list's memory."""

    wall: list[array[float]] = field(default_factory=list)
    cpu: list[array[float]] = field(default_factory=list)
    device: list[array[float]] = field(default_factory=list)
    warmup: array[float] = field(default_factory=lambda: array("d"))
    chunks: ChunkLatency | None = None
    training: TrainingSteps | None = None
    left_out: int = 0
    _estimate: Estimate | None = None

    @property
    def estimate(self) -> Estimate:
        """The figure so far."""
        if self._estimate is None:
            self._estimate = estimate(self.wall)
        return self._estimate

    def add(self, new: Round) -> None:
        timing = new.timing
        self._estimate = None
        self.wall.append(array("d", timing.samples))
        self.cpu.append(array("d", timing.cpu))
        self.device.append(array("d", timing.device_samples))
        self.warmup.extend(timing.warmup)
        self.left_out += timing.left_out
        if new.training is not None:
            self.training = self.training.joined(new.training) if self.training else new.training
        if new.chunks is not None:
            self.chunks = add_round(self.chunks, new.chunks)


class TimePass(Pass[Round, Rounds]):
    name = "time"
    result = Round
    essential = True
    every_round = True
    metrics = (RTF, RTFX, LATENCY, CPU_RTF, DEVICE_RTF, *CALLS, *CHUNKS, *TRAINING)

    def calls(self, recipe: Recipe) -> int:
        return 1 + recipe.measure.min_calls

    def measure(self, work: Work) -> Round:
        chunks, step = work.model.chunks, work.step
        left_out = chunks_before = 0

        def report(timing: Timing) -> None:
            nonlocal left_out, chunks_before
            if timing.left_out > left_out:
                left_out = timing.left_out
                if chunks is not None:
                    del chunks.times[chunks_before:]
                if step is not None:
                    step.forget_last()
            if not timing.samples:  # still warming up
                if chunks is not None:
                    chunks.times.clear()
                if step is not None:
                    step.forget()
            chunks_before = len(chunks.times) if chunks is not None else 0
            work.progress(timing)

        if work.wait is not None:
            timing = take_turns(work.run, work.inputs, work.device, work.size, work.wait, report)
        elif work.long and "memory" in work.passes:
            timing = _with_memory(work, report)
        else:
            timing = time_calls(work.run, work.inputs, work.device, work.size, report)
        return Round(
            timing,
            measure_handoff() if work.handoff else None,
            chunk_round(chunks, work.seed) if chunks is not None else None,
            training_round(step, work.inputs) if step is not None else None,
        )

    def join(self, earlier: Rounds | None, new: Round) -> Rounds:
        joined = earlier or Rounds()
        joined.add(new)
        return joined

    def put(self, cell: CellResult, found: Rounds, width: float, stopped_by: str) -> None:
        samples = _flat(found.wall)
        if not samples:
            return
        audio = cell.input.seconds_of_audio
        assert audio is not None
        figure, cell.verdict, cell.disturbances = judge(found.wall, found.cpu, cell.conditions, width)
        if "too_few_rounds" in cell.disturbances and figure.value >= LONG_SECONDS and stopped_by == "budget":
            del cell.disturbances["too_few_rounds"]
            cell.disturbances["long_calls"] = figure.value
        if found.left_out:
            cell.disturbances["paused"] = float(found.left_out)
        cell.verdict_reasons = [messages.sentence(*each) for each in cell.disturbances.items()]
        cell.latency_s = Latency(
            median=figure.value,
            ci95=figure.ci95,
            mean=statistics.fmean(samples),
            std=statistics.stdev(samples) if len(samples) > 1 else 0.0,
            min=min(samples),
            n=len(samples),
            samples=samples,
            cpu=_flat(found.cpu),
            rounds=[len(values) for values in found.wall],
            warmup=list(found.warmup),
            stopped_by="width" if cell.verdict == "stable" else stopped_by,
            percentiles=percentiles(samples),
            left_out=found.left_out,
        )
        cell.chunks = found.chunks
        cell.rtf = figure.value / audio
        cell.rtfx = 1.0 / cell.rtf if cell.rtf > 0 else None
        cell.training = found.training.result(figure.value, audio) if found.training else None
        if any(found.device):
            device, all_of_them = estimate(found.device), _flat(found.device)
            cell.device_time_s = DeviceTime(
                median=device.value,
                ci95=device.ci95,
                n=len(all_of_them),
                samples=all_of_them,
                rtf=device.value / audio,
                cpu_rtf=estimate(found.cpu).value / audio if any(found.cpu) else None,
            )

    def take_up(self, cell: CellResult) -> Rounds | None:
        latency = cell.latency_s
        if latency is None:
            return None
        device = cell.device_time_s.samples if cell.device_time_s else []
        return Rounds(
            _arrays(latency.by_round),
            _arrays(cut(latency.cpu, latency.rounds)) if latency.cpu else [],
            _arrays(cut(device, latency.rounds)) if device else [],
            array("d", latency.warmup),
            cell.chunks,
            TrainingSteps.from_result(cell.training) if cell.training else None,
            latency.left_out,
        )


PASS = TimePass()


def _with_memory(work: Work, report: OnSample) -> Timing:
    """Long calls: the one that warms up is recorded for the memory pass, the first timed one is watched for it."""
    timing = Timing()

    def warm_up(value: Any) -> None:
        timing.warmup.append(timed(work.run, value, work.device).wall)
        report(timing)

    def call(value: Any) -> None:
        timing.add(timed(work.run, value, work.device))
        report(timing)

    with no_garbage_collection():
        work.taken["memory"] = peaks_of_timed_calls(work, warm_up, call)
        while not work.size.enough(timing.samples):
            call(input_of(work.inputs, len(timing.samples)))
    return timing


def _flat(rounds: list[array[float]]) -> list[float]:
    return [sample for values in rounds for sample in values]


def _arrays(rounds: Sequence[Sequence[float]]) -> list[array[float]]:
    return [array("d", calls) for calls in rounds]
