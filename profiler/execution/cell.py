"""What is known of a cell so far, and the result made of it. Each round adds samples to those before."""

from __future__ import annotations

import statistics
from array import array
from dataclasses import dataclass, field
from typing import Any

from profiler import messages
from profiler.measure.chunks import add_round
from profiler.measure.phases import TrainingState
from profiler.measure.verdict import judge
from profiler.plan import Cell
from profiler.results.statistics import Estimate, cut, estimate, percentiles
from profiler.results.types import CellResult, ChunkLatency, Latency, PeakMemory


@dataclass
class CellState:
    """Raw material of one cell."""

    cell: Cell
    rounds: list[array[float]] = field(default_factory=list)  # arrays: a fourth of a list's memory
    cpu: list[array[float]] = field(default_factory=list)
    device_rounds: list[array[float]] = field(default_factory=list)
    warmup: array[float] = field(default_factory=lambda: array("d"))
    chunks: ChunkLatency | None = None
    conditions: list[dict[str, Any]] = field(default_factory=list)
    seconds_of_audio: float = 0.0
    share_of_padding: float = 0.0
    memory: PeakMemory | None = None
    training: TrainingState = field(default_factory=TrainingState)
    energy: dict[str, Any] | None = None
    energy_reason: str | None = None
    operations: dict[str, Any] | None = None
    operations_reason: str | None = None
    breakdown: dict[str, Any] | None = None
    breakdown_reason: str | None = None
    trace: str | None = None
    trace_reason: str | None = None
    failure: str | None = None
    skip: str | None = None
    work: dict[str, float] = field(default_factory=dict)
    _estimate: Estimate | None = None

    @property
    def open(self) -> bool:
        """Whether there is anything left to measure of it."""
        return self.failure is None and self.skip is None

    @property
    def samples(self) -> list[float]:
        return [sample for values in self.rounds for sample in values]

    @property
    def estimate(self) -> Estimate | None:
        """The figure so far."""
        if self._estimate is None and self.rounds:
            self._estimate = estimate(self.rounds)
        return self._estimate

    @property
    def median(self) -> float | None:
        return self.estimate.value if self.estimate else None

    def stable(self, width: float) -> bool:
        half = self.estimate.half_width if self.estimate else None
        return half is not None and half <= width

    def add_passes(self, results: dict[str, dict[str, Any]], condition: dict[str, Any]) -> None:
        """What the passes of a job gave, and how the machine was meanwhile."""
        for name, result in results.items():
            self.work[name] = self.work.get(name, 0.0) + result["work_s"]
        if "time" in results:
            self.add_timing(results["time"], condition)
        if "memory" in results:
            self.add_memory(results["memory"]["figures"])
        if "energy" in results:
            self.add_energy(results["energy"]["figures"])
        if "operations" in results:
            self.add_operations(results["operations"]["figures"])
        if "breakdown" in results:
            self.add_breakdown(results["breakdown"]["figures"])
        if "trace" in results:
            self.trace = f"{self.cell.folder}/{results['trace']['figures']['files'][-1]}"

    def add_failure(self, during: str, reason: str, number: int) -> None:
        """A pass that failed: without its time or memory a cell has failed, without the others it lacks them."""
        if during == "trace":
            self.trace_reason = reason
        elif during == "operations":
            self.operations_reason = reason
        elif during == "breakdown":
            self.breakdown_reason = reason
        elif during == "energy":
            self.energy_reason = reason
        else:
            place = f"in round {number + 1}: " if number else ""
            place += f"in the {during} pass: " if during == "memory" else ""
            self.failure = f"{place}{reason}"

    def add_timing(self, result: dict[str, Any], condition: dict[str, Any]) -> None:
        figures = result["figures"]
        self.rounds.append(array("d", figures["samples"]))
        self._estimate = None
        self.cpu.append(array("d", figures["cpu"]))
        self.device_rounds.append(array("d", figures["device_samples"]))
        self.warmup.extend(figures["warmup"])
        if "training" in figures:
            self.training.add_round(figures["training"])
        if "chunks" in figures:
            self.chunks = add_round(self.chunks, figures["chunks"])
        self.seconds_of_audio = result["input"]["seconds_of_audio"]
        self.share_of_padding = result["input"]["share_of_padding"]
        self.conditions.append(condition)

    def add_memory(self, figures: dict[str, Any]) -> None:
        self.training.memory = figures.pop("phases", None)
        self.memory = PeakMemory(**figures)

    def add_energy(self, figures: dict[str, Any]) -> None:
        self.energy, self.energy_reason = figures.get("energy"), figures.get("reason")

    def add_operations(self, figures: dict[str, Any]) -> None:
        self.operations, self.operations_reason = figures.get("operations"), figures.get("reason")

    def add_breakdown(self, figures: dict[str, Any]) -> None:
        self.breakdown, self.breakdown_reason = figures.get("breakdown"), figures.get("reason")
        if self.breakdown is not None:
            self.breakdown["file"] = f"{self.cell.folder}/{self.breakdown['file']}"

    @classmethod
    def from_result(cls, cell: Cell, result: CellResult) -> CellState:
        """Take up a cell of an earlier, interrupted run. A failed cell starts anew."""
        state = cls(cell)
        latency = result.latency_s
        if result.status == "ok" and latency is not None:
            state.rounds = [array("d", calls) for calls in latency.by_round]
            if latency.cpu:
                state.cpu = [array("d", calls) for calls in cut(latency.cpu, latency.rounds)]
            state.chunks = result.chunks
            state.work = dict(result.work_s)
            state.warmup = array("d", latency.warmup)
            state.conditions = list(result.conditions)
            state.seconds_of_audio = result.input.get("seconds_of_audio", cell.audio_seconds)
            state.share_of_padding = result.input.get("share_of_padding", 0.0)
            state.memory, state.trace, state.trace_reason = (
                result.peak_memory_bytes,
                result.trace,
                result.trace_reason,
            )
            state.energy, state.energy_reason = result.energy_j, result.energy_reason
            state.operations, state.operations_reason = result.operations, result.operations_reason
            state.breakdown, state.breakdown_reason = result.breakdown, result.breakdown_reason
            state.training = TrainingState.from_result(result.training)
            if result.device_time_s:
                state.device_rounds = [
                    array("d", calls) for calls in cut(result.device_time_s["samples"], latency.rounds)
                ]
        return state

    def result(self, width: float, timed_region: str, input_name: str, stopped_by: str = "") -> CellResult:
        cell = self.cell
        made = CellResult(
            variant=cell.variant, seconds=cell.seconds, batch_size=cell.batch_size, status="ok", reason=None
        )
        if self.skip is not None:
            made.status, made.reason = "skipped", self.skip
            return made
        if self.failure is not None:
            made.status, made.reason = "failed", self.failure
        made.peak_memory_bytes = self.memory
        made.energy_j, made.energy_reason = self.energy, self.energy_reason
        made.operations, made.operations_reason = self.operations, self.operations_reason
        made.breakdown, made.breakdown_reason = self.breakdown, self.breakdown_reason
        made.trace, made.trace_reason = self.trace, self.trace_reason
        made.work_s = self.work
        if self.samples:
            self._put_timing(made, width, stopped_by)
            made.timed_region = timed_region
            made.input = {
                "audio": input_name,
                "seconds_of_audio": self.seconds_of_audio,
                "share_of_padding": self.share_of_padding,
            }
        return made

    def _put_timing(self, made: CellResult, width: float, stopped_by: str) -> None:
        samples = self.samples
        found, made.verdict, made.disturbances = judge(self.rounds, self.cpu, self.conditions, width)
        made.verdict_reasons = [messages.sentence(*each) for each in made.disturbances.items()]
        made.latency_s = Latency(
            median=found.value,
            ci95=found.ci95,
            mean=statistics.fmean(samples),
            std=statistics.stdev(samples) if len(samples) > 1 else 0.0,
            min=min(samples),
            n=len(samples),
            samples=samples,
            cpu=[sample for values in self.cpu for sample in values],
            rounds=[len(values) for values in self.rounds],
            warmup=list(self.warmup),
            stopped_by="width" if made.verdict == "stable" else stopped_by,
            percentiles=percentiles(samples),
        )
        made.chunks = self.chunks
        made.rtf = found.value / self.seconds_of_audio
        made.rtfx = 1.0 / made.rtf if made.rtf > 0 else None
        made.training = self.training.result(found.value, self.seconds_of_audio)
        made.conditions = self.conditions
        if any(self.device_rounds):
            device = estimate(self.device_rounds)
            made.device_time_s = {
                "median": device.value,
                "ci95": device.ci95,
                "n": sum(map(len, self.device_rounds)),
                "samples": [sample for values in self.device_rounds for sample in values],
                "rtf": device.value / self.seconds_of_audio,
            }
