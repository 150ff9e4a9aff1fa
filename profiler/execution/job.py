"""One piece of work for a worker: the passes on one cell in one round. Runs inside the process that is measured.

The order keeps instruments from disturbing one another: time comes first, with nothing switched on; then memory; then
the trace, whose profiler would raise both.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from profiler.device import Device
from profiler.measure.latency import VARIED_INPUTS, StopRule, Timing, time_calls
from profiler.measure.memory import measure_memory
from profiler.measure.trace import record_trace
from profiler.recipe.schema import Trace

if TYPE_CHECKING:
    from profiler.audio import Speech
    from profiler.models.model import Model

Pass = Literal["time", "memory", "trace"]
ORDER: tuple[Pass, ...] = ("time", "memory", "trace")
Emit = Callable[[dict[str, Any]], None]
Run = Callable[[Any], Any]

PROGRESS_SECONDS = 0.5  # at most this often does a worker report how far it is


@dataclass(frozen=True)
class Job:
    """All that a worker needs to know, as plain values that travel as JSON."""

    threads: int
    passes: tuple[Pass, ...] = ()  # none: the reference workload
    device: str = "cpu"
    seconds: float = 0.0
    batch_size: int = 0
    seed: int = 0
    padding: float = 0.0
    warmup: int = 2
    min_calls: int = 5
    max_calls: int = 100
    width: float = 0.03
    budget: float = 10.0
    earlier: tuple[float, ...] = ()
    trace: dict[str, Any] | None = None
    folder: str = ""

    @classmethod
    def from_message(cls, message: dict[str, Any]) -> Job:
        return cls(**{**message, "earlier": tuple(message["earlier"]), "passes": tuple(message["passes"])})

    def to_message(self) -> dict[str, Any]:
        return asdict(self)


def run_job(job: Job, model: Model | None, speech: Speech | None, emit: Emit) -> None:
    """Do the passes; each is announced, and its {figures, input, work_s} sent as soon as it is done."""
    import torch

    torch.set_num_threads(job.threads)
    if not job.passes:
        from profiler.measure.reference import measure_reference

        emit({"event": "result", "pass": "reference", "result": measure_reference()})
        return
    assert model is not None
    assert speech is not None
    torch.manual_seed(job.seed)
    batches = [
        speech.batch(job.seconds, job.batch_size, job.seed + number, job.padding) for number in range(VARIED_INPUTS)
    ]
    inputs = [model.prepare(batch) for batch in batches]
    facts = {
        "seconds_of_audio": statistics.fmean(batch.seconds_of_audio for batch in batches),
        "share_of_padding": statistics.fmean(batch.share_of_padding for batch in batches),
    }
    do_pass = {"time": _time, "memory": _memory, "trace": _trace}
    for name in sorted(job.passes, key=ORDER.index):
        emit({"event": "pass", "pass": name})
        start = time.perf_counter()
        with torch.no_grad():
            figures = do_pass[name](job, model.run, inputs, emit)
        result = {"figures": figures, "input": facts, "work_s": time.perf_counter() - start}
        emit({"event": "result", "pass": name, "result": result})


def _time(job: Job, run: Run, inputs: list[Any], emit: Emit) -> dict[str, Any]:
    last_report = 0.0

    def report(timing: Timing) -> None:
        nonlocal last_report
        now = time.monotonic()
        if now - last_report >= PROGRESS_SECONDS:
            last_report = now
            seen = timing.samples or timing.warmup
            emit({"event": "progress", "calls": len(timing.samples), "latency": seen[len(seen) // 2]})

    rule = StopRule(job.min_calls, job.width, job.budget, job.earlier, job.max_calls)
    return asdict(time_calls(run, inputs, Device(job.device), rule, job.warmup, report))


def _memory(job: Job, run: Run, inputs: list[Any], emit: Emit) -> dict[str, Any]:
    return asdict(measure_memory(run, inputs[0], Device(job.device)))


def _trace(job: Job, run: Run, inputs: list[Any], emit: Emit) -> dict[str, Any]:
    settings = Trace.model_validate(job.trace or {})
    name = f"{job.seconds:g}s_x{job.batch_size}"
    files = record_trace(run, inputs[0], Device(job.device), settings, Path(job.folder), name)
    return {"files": [file.name for file in files]}
