"""The timing pass: wall and CPU seconds of a few calls, in every round, with nothing switched on. See latency.py."""

from __future__ import annotations

import statistics
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

from profiler import messages
from profiler.measure.chunks import ChunkRound, add_round, chunk_round
from profiler.measure.handoff import measure_handoff
from profiler.measure.latency import Timing, time_calls
from profiler.measure.passes.base import Pass, Work
from profiler.measure.phases import StepRound, TrainingState, training_round
from profiler.measure.turns import take_turns
from profiler.measure.verdict import judge
from profiler.recipe.schema import Recipe
from profiler.results.statistics import Estimate, cut, estimate, percentiles
from profiler.results.types import CellResult, ChunkLatency, DeviceTime, Latency


@dataclass
class Round:
    """What one round gives."""

    timing: Timing
    handoff_s: float | None = None
    chunks: ChunkRound | None = None  # of a model that takes its audio piece by piece
    training: StepRound | None = None


@dataclass
class Rounds:
    """What is known of all rounds: the calls of each one. Arrays take a fourth of a list's memory."""

    wall: list[array[float]] = field(default_factory=list)
    cpu: list[array[float]] = field(default_factory=list)
    device: list[array[float]] = field(default_factory=list)
    warmup: array[float] = field(default_factory=lambda: array("d"))
    chunks: ChunkLatency | None = None
    training: TrainingState = field(default_factory=TrainingState)
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
        if new.training is not None:
            self.training.add_round(new.training)
        if new.chunks is not None:
            self.chunks = add_round(self.chunks, new.chunks)


class TimePass(Pass[Round, Rounds]):
    name = "time"
    result = Round
    essential = True
    every_round = True

    def calls(self, recipe: Recipe) -> int:
        return 1 + recipe.measure.min_calls

    def measure(self, work: Work) -> Round:
        chunks, step = work.model.chunks, work.step

        def report(timing: Timing) -> None:
            if not timing.samples:  # still warming up
                if chunks is not None:
                    chunks.times.clear()
                if step is not None:
                    step.forget()
            work.progress(timing)

        if work.turns is not None:
            timing = take_turns(work.run, work.inputs, work.device, work.size, work.turns.wait, report)
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
        )
        cell.chunks = found.chunks
        cell.rtf = figure.value / audio
        cell.rtfx = 1.0 / cell.rtf if cell.rtf > 0 else None
        cell.training = found.training.result(figure.value, audio)
        if any(found.device):
            device, all_of_them = estimate(found.device), _flat(found.device)
            cell.device_time_s = DeviceTime(
                median=device.value,
                ci95=device.ci95,
                n=len(all_of_them),
                samples=all_of_them,
                rtf=device.value / audio,
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
            TrainingState.from_result(cell.training),
        )


def _flat(rounds: list[array[float]]) -> list[float]:
    return [sample for values in rounds for sample in values]


def _arrays(rounds: Sequence[Sequence[float]]) -> list[array[float]]:
    return [array("d", calls) for calls in rounds]
