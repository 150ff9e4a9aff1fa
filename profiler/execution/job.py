"""One piece of work for a worker: the passes on one cell in one round. Runs inside the process that is measured.

The order keeps instruments from disturbing one another: time comes first, with nothing switched on; then memory; then
what watches the calls, up to the trace, whose profiler would raise both.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from profiler.device import Device
from profiler.measure.chunks import chunk_figures
from profiler.measure.handoff import measure_handoff
from profiler.measure.latency import INPUTS, RoundSize, Timing, time_calls
from profiler.measure.memory import measure_memory
from profiler.measure.trace import record_trace
from profiler.recipe.schema import Trace

if TYPE_CHECKING:
    from profiler.audio import Speech
    from profiler.models.model import Chunks, Model
    from profiler.training.step import TrainingStep

Pass = Literal["time", "memory", "energy", "operations", "breakdown", "trace", "dataset"]
ORDER: tuple[Pass, ...] = ("time", "memory", "energy", "operations", "breakdown", "trace")
Emit = Callable[[dict[str, Any]], None]
Receive = Callable[[], dict[str, Any] | None]
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
    size: dict[str, Any] | None = None  # of the round: the fields of a RoundSize
    handoff: bool = False  # also time how long one thread takes to hand work to another
    cpus: tuple[int, ...] = ()  # that the process is held to; none: those that the system chooses
    turns: bool = False  # each timed call waits for the parent's word, so that two jobs can take turns
    trace: dict[str, Any] | None = None
    folder: str = ""
    dataset: dict[str, Any] | None = None  # the batches of the pass `dataset`, which stands alone

    @classmethod
    def from_message(cls, message: dict[str, Any]) -> Job:
        return cls(**{**message, "passes": tuple(message["passes"]), "cpus": tuple(message["cpus"])})

    def to_message(self) -> dict[str, Any]:
        return asdict(self)


def run_job(
    job: Job,
    model: Model | None,
    speech: Speech | None,
    emit: Emit,
    receive: Receive,
    step: TrainingStep | None = None,
) -> None:
    """Do the passes; each is announced, and its {figures, input, work_s} sent as soon as it is done.

    With a training step the passes call that, in place of the model. `receive` is asked where a job takes turns.
    """
    import torch

    if job.cpus:
        os.sched_setaffinity(0, job.cpus)
    torch.set_num_threads(job.threads)
    if not job.passes:
        from profiler.measure.reference import measure_reference

        emit({"event": "result", "pass": "reference", "result": measure_reference()})
        return
    assert model is not None
    assert speech is not None
    if job.device == "cpu":
        torch.default_generator.manual_seed(job.seed)  # torch.manual_seed asks every kind of device that torch knows
    else:
        torch.manual_seed(job.seed)
    if job.dataset is not None:
        from profiler.execution.batches import time_batches

        emit({"event": "pass", "pass": "dataset"})
        with torch.set_grad_enabled(step is not None):
            emit({"event": "result", "pass": "dataset", "result": time_batches(job, model, speech, emit, step)})
        return
    batches = [speech.batch(job.seconds, job.batch_size, job.seed + number, job.padding) for number in range(INPUTS)]
    inputs = [step.prepare(batch, job.seed) if step else model.prepare(batch) for batch in batches]
    facts = {
        "seconds_of_audio": statistics.fmean(batch.seconds_of_audio for batch in batches),
        "share_of_padding": statistics.fmean(batch.share_of_padding for batch in batches),
    }
    do_pass: dict[Pass, Callable[[Job, Run, list[Any], Emit], dict[str, Any]]]
    audio = batches[0].seconds_of_audio
    do_pass = {
        "time": partial(_time, chunks=model.chunks, step=step, receive=receive),
        "memory": partial(_memory, step=step),
        "energy": partial(_energy, seconds_of_audio=audio),
        "operations": partial(_operations, components=model.components, seconds_of_audio=audio, step=step),
        "breakdown": partial(_breakdown, model=model, seconds_of_audio=audio, step=step),
        "trace": partial(_trace, model=model, step=step),
    }
    for name in sorted(job.passes, key=ORDER.index):
        emit({"event": "pass", "pass": name})
        start = time.perf_counter()
        with torch.set_grad_enabled(step is not None):
            figures = do_pass[name](job, step or model.run, inputs, emit)
        result = {"figures": figures, "input": facts, "work_s": time.perf_counter() - start}
        emit({"event": "result", "pass": name, "result": result})


def _time(
    job: Job,
    run: Run,
    inputs: list[Any],
    emit: Emit,
    chunks: Chunks | None,
    step: TrainingStep | None,
    receive: Receive,
) -> dict[str, Any]:
    last_report = time.monotonic()

    def report(timing: Timing) -> None:
        nonlocal last_report
        if not timing.samples:  # still warming up
            if chunks is not None:
                chunks.times.clear()
            if step is not None:
                step.forget()
        now = time.monotonic()
        if now - last_report >= PROGRESS_SECONDS:
            last_report = now
            seen = timing.samples or timing.warmup
            emit({"event": "progress", "calls": len(timing.samples), "latency": seen[len(seen) // 2]})

    device, size = Device(job.device), RoundSize(**job.size or {})
    if job.turns:
        from profiler.measure.turns import take_turns

        timing = take_turns(run, inputs, device, size, emit, receive, report)
    else:
        timing = time_calls(run, inputs, device, size, report)
    figures = asdict(timing)
    if job.handoff:
        figures["handoff_s"] = measure_handoff()
    if step is not None:
        from profiler.measure.phases import training_figures

        figures |= {"training": training_figures(step, inputs)}
    return figures if chunks is None else figures | {"chunks": chunk_figures(chunks, job.seed)}


def _memory(job: Job, run: Run, inputs: list[Any], emit: Emit, step: TrainingStep | None) -> dict[str, Any]:
    if step is None:
        return asdict(measure_memory(run, inputs[0], Device(job.device)))
    from profiler.measure.phases import memory_by_phase

    whole, phases = memory_by_phase(step, inputs[0], Device(job.device))
    return asdict(whole) | {"phases": phases}


def _energy(job: Job, run: Run, inputs: list[Any], emit: Emit, seconds_of_audio: float) -> dict[str, Any]:
    """{energy}, or {reason} where there is nothing to measure with."""
    from profiler.measure.energy import GivenPower, Unavailable, find_sensor, measure_energy

    device = Device(job.device)
    sensor = find_sensor(job.device)
    if isinstance(sensor, Unavailable):
        return {"reason": str(sensor)}
    assert not isinstance(sensor, GivenPower)  # a power that the recipe gives needs no pass
    with contextlib.closing(sensor):
        energy = measure_energy(run, inputs[0], device, sensor, seconds_of_audio)
    return {"reason": str(energy)} if isinstance(energy, Unavailable) else {"energy": asdict(energy)}


def _operations(
    job: Job,
    run: Run,
    inputs: list[Any],
    emit: Emit,
    components: dict[str, Any],
    seconds_of_audio: float,
    step: TrainingStep | None,
) -> dict[str, Any]:
    """{operations}, or {reason} where the model does not run under the counter."""
    from profiler.measure.operations import CONVENTION, count_operations

    try:
        counted = count_operations(run, inputs[0], components, seconds_of_audio, step)
    except (MemoryError, KeyboardInterrupt):
        raise
    except Exception as error:  # whatever a model does that the counter cannot follow; the other passes go on
        return {"reason": f"the model does not run under the counter ({type(error).__name__}: {error})"}
    return {"operations": asdict(counted) | {"flops": counted.flops, "convention": CONVENTION}}


def _breakdown(
    job: Job,
    run: Run,
    inputs: list[Any],
    emit: Emit,
    model: Model,
    seconds_of_audio: float,
    step: TrainingStep | None,
) -> dict[str, Any]:
    """{breakdown}, or {reason} where the parts cannot be told apart."""
    from profiler.measure.breakdown import COMPILED, find_parts, measure_breakdown

    settings = Trace.model_validate(job.trace or {})
    parts = find_parts(model, settings.labels)
    if parts is None:
        return {"reason": COMPILED}
    folder, count = Path(job.folder), "operations" in job.passes
    device = Device(job.device)
    steps = settings.schedule.active * settings.schedule.repeat
    found = measure_breakdown(run, inputs[0], device, parts, seconds_of_audio, folder, count, steps, step)
    return {"breakdown": found}


def _trace(
    job: Job, run: Run, inputs: list[Any], emit: Emit, model: Model, step: TrainingStep | None
) -> dict[str, Any]:
    from profiler.measure.breakdown import spans_in_trace
    from profiler.measure.phases import phase_spans

    settings = Trace.model_validate(job.trace or {})
    name = f"{job.seconds:g}s_x{job.batch_size}"
    with spans_in_trace(model, settings, step), phase_spans(step):
        files = record_trace(run, inputs[0], Device(job.device), settings, Path(job.folder), name)
    return {"files": [file.name for file in files]}
