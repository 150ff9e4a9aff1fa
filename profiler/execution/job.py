"""One piece of work for a worker: one pass on one cell, in one round. Runs inside the process that is measured."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from profiler.device import Device
from profiler.recipe.schema import Trace

if TYPE_CHECKING:
    from profiler.audio import Speech
    from profiler.models.model import Model

Pass = Literal["time", "memory", "trace", "reference"]
Emit = Callable[[dict[str, Any]], None]

PROGRESS_SECONDS = 0.5  # at most this often does a worker report how far it is


@dataclass(frozen=True)
class Job:
    """All that a worker needs to know, as plain values that travel as JSON."""

    kind: Pass
    threads: int
    device: str = "cpu"
    seconds: float = 0.0
    batch_size: int = 0
    seed: int = 0
    padding: float = 0.0
    warmup: int = 2
    min_calls: int = 5
    width: float = 0.03
    budget: float = 10.0
    earlier: tuple[float, ...] = ()
    trace: dict[str, Any] | None = None
    folder: str = ""

    @classmethod
    def from_message(cls, message: dict[str, Any]) -> Job:
        return cls(**{**message, "earlier": tuple(message["earlier"])})

    def to_message(self) -> dict[str, Any]:
        return asdict(self)


def run_job(job: Job, model: Model | None, speech: Speech | None, emit: Emit) -> dict[str, Any]:
    """Do one pass and give its figures as plain values."""
    import torch

    torch.set_num_threads(job.threads)
    if job.kind == "reference":
        from profiler.measure.reference import measure_reference

        return measure_reference()
    assert model is not None
    assert speech is not None
    torch.manual_seed(job.seed)
    with torch.no_grad():
        if job.kind == "time":
            return _time(job, model, speech, emit)
        value, facts = _input(job, model, speech)
        if job.kind == "memory":
            from profiler.measure.memory import measure_memory

            return asdict(measure_memory(model.run, value, Device(job.device)))
        return _trace(job, model, value) | facts


def _input(job: Job, model: Model, speech: Speech, number: int = 0) -> tuple[Any, dict[str, Any]]:
    batch = speech.batch(job.seconds, job.batch_size, job.seed + number, job.padding)
    facts = {"seconds_of_audio": batch.seconds_of_audio, "share_of_padding": batch.share_of_padding}
    return model.prepare(batch), facts


def _time(job: Job, model: Model, speech: Speech, emit: Emit) -> dict[str, Any]:
    from profiler.measure.latency import VARIED_INPUTS, StopRule, Timing, time_calls

    made = [_input(job, model, speech, number) for number in range(VARIED_INPUTS)]
    last_report = 0.0

    def report(timing: Timing) -> None:
        nonlocal last_report
        now = time.monotonic()
        if now - last_report >= PROGRESS_SECONDS:
            last_report = now
            seen = timing.samples or timing.warmup
            emit({"event": "progress", "calls": len(timing.samples), "latency": seen[len(seen) // 2]})

    timing = time_calls(
        model.run,
        [value for value, _ in made],
        Device(job.device),
        StopRule(job.min_calls, job.width, job.budget, job.earlier),
        job.warmup,
        report,
    )
    facts = [facts for _, facts in made]
    return asdict(timing) | {
        name: sum(fact[name] for fact in facts) / len(facts) for name in ("seconds_of_audio", "share_of_padding")
    }


def _trace(job: Job, model: Model, value: Any) -> dict[str, Any]:
    from profiler.measure.trace import record_trace

    settings = Trace.model_validate(job.trace or {})
    name = f"{job.seconds:g}s_x{job.batch_size}"
    files = record_trace(model.run, value, Device(job.device), settings, Path(job.folder), name)
    return {"files": [file.name for file in files]}
