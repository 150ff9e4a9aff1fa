"""What is known of a cell so far, and the result made of it. Each round adds samples to those before."""

from __future__ import annotations

import statistics
from array import array
from dataclasses import dataclass, field
from typing import Any

from profiler.measure.chunks import add_round
from profiler.measure.phases import TrainingState
from profiler.measure.statistics import percentiles, summarize
from profiler.measure.verdict import judge, reach
from profiler.plan import Cell
from profiler.results import CellResult, ChunkLatency, Latency, PeakMemory


@dataclass
class CellState:
    """Raw material of one cell."""

    cell: Cell
    rounds: list[array[float]] = field(default_factory=list)  # arrays: a fourth of a list's memory
    device_rounds: list[list[float]] = field(default_factory=list)
    warmup: list[float] = field(default_factory=list)
    chunks: ChunkLatency | None = None
    conditions: list[dict[str, Any]] = field(default_factory=list)
    stopped_by: str = ""
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
    median: float | None = None
    work: dict[str, float] = field(default_factory=dict)

    @property
    def samples(self) -> list[float]:
        return [sample for values in self.rounds for sample in values]

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
        self.median = statistics.median(self.samples)
        self.device_rounds.append(figures["device_samples"])
        self.warmup += figures["warmup"]
        if "training" in figures:
            self.training.add_round(figures["training"])
        if "chunks" in figures:
            self.chunks = add_round(self.chunks, figures["chunks"])
        self.stopped_by = figures["stopped_by"]
        self.seconds_of_audio = result["input"]["seconds_of_audio"]
        self.share_of_padding = result["input"]["share_of_padding"]
        self.conditions.append(condition | {name: figures[name] for name in ("handoff_s",) if name in figures})

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
            left = list(latency.samples)
            for count in latency.rounds:
                state.rounds.append(array("d", left[:count]))
                left = left[count:]
            state.median = latency.median
            state.chunks = result.chunks
            state.work = dict(result.work_s)
            state.warmup, state.stopped_by = list(latency.warmup), latency.stopped_by
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
                state.device_rounds = [result.device_time_s["samples"]]
        return state

    def result(self, width: float, timed_region: str, input_name: str) -> CellResult:
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
            self._put_timing(made, width)
            made.timed_region = timed_region
            made.input = {
                "audio": input_name,
                "seconds_of_audio": self.seconds_of_audio,
                "share_of_padding": self.share_of_padding,
            }
        return made

    def _put_timing(self, made: CellResult, width: float) -> None:
        summary = summarize(self.samples)
        made.latency_s = Latency(
            median=summary.median,
            mean=summary.mean,
            std=summary.std,
            min=summary.min,
            ci95=summary.ci95,
            n=summary.n,
            samples=self.samples,
            rounds=[len(values) for values in self.rounds],
            warmup=self.warmup,
            stopped_by=self.stopped_by,
            percentiles=percentiles(self.samples),
        )
        made.chunks = self.chunks
        made.rtf = summary.median / self.seconds_of_audio
        made.rtfx = 1.0 / made.rtf if made.rtf > 0 else None
        made.training = self.training.result(summary.median, self.seconds_of_audio)
        made.verdict, made.verdict_reasons = judge(self.rounds, self.conditions, width)
        made.spread = reach(self.rounds)
        made.conditions = self.conditions
        on_device = [sample for values in self.device_rounds for sample in values]
        if on_device:
            device = summarize(on_device)
            made.device_time_s = {
                "median": device.median,
                "ci95": list(device.ci95),
                "n": device.n,
                "samples": on_device,
                "rtf": device.median / self.seconds_of_audio,
            }
