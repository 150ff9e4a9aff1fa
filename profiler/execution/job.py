"""One piece of work, inside the process that is measured: passes on a cell, batches of a data set, the reference."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from profiler.device import Device
from profiler.execution.channel import (
    AnyJob,
    BeginPass,
    Call,
    Called,
    CellJob,
    DatasetJob,
    Event,
    PassDone,
    PeakReset,
    Progress,
    Ready,
    ReferenceDone,
    ReferenceJob,
    Request,
    ResetPeak,
)
from profiler.measure.latency import INPUTS, Timing
from profiler.measure.passes import PASSES, Absent, Work, memory
from profiler.results.types import CellInput

if TYPE_CHECKING:
    from profiler.audio import Speech
    from profiler.models.model import Model
    from profiler.training.step import TrainingStep

Emit = Callable[[Event], None]
Receive = Callable[[], Request | None]

PROGRESS_SECONDS = 0.5  # at most this often does a worker report how far it is


def run_job(
    job: AnyJob,
    model: Model | None,
    speech: Speech | None,
    emit: Emit,
    receive: Receive,
    step: TrainingStep | None = None,
) -> None:
    """Do the job. With a training step the passes call that, in place of the model.

    Each pass is announced, and what it gives is sent as soon as it is done. `receive` is asked where a job takes turns.
    """
    import torch

    memory.let_parent_reset(partial(_reset_peak, emit, receive))
    if job.cpus:
        os.sched_setaffinity(0, job.cpus)
    torch.set_num_threads(job.threads)
    if isinstance(job, ReferenceJob):
        from profiler.measure.reference import measure_reference

        emit(ReferenceDone(measure_reference()))
        return
    assert model is not None
    assert speech is not None
    if job.device == "cpu":
        torch.default_generator.manual_seed(job.seed)  # torch.manual_seed asks every kind of device that torch knows
    else:
        torch.manual_seed(job.seed)
    with torch.set_grad_enabled(step is not None):
        if isinstance(job, DatasetJob):
            from profiler.execution.batches import time_batches

            time_batches(job, model, speech, emit, step)
        else:
            _do_passes(job, model, speech, emit, receive, step)


def _do_passes(
    job: CellJob, model: Model, speech: Speech, emit: Emit, receive: Receive, step: TrainingStep | None
) -> None:
    batches = [speech.batch(job.seconds, job.batch_size, job.seed + number, job.padding) for number in range(INPUTS)]
    work = Work(
        model=model,
        step=step,
        inputs=[step.prepare(batch, job.seed) if step else model.prepare(batch) for batch in batches],
        seconds_of_audio=batches[0].seconds_of_audio,
        device=Device(job.device),
        size=job.size,
        seed=job.seed,
        trace=job.trace,
        folder=job.folder,
        place=job.place,
        counted="operations" in job.passes,
        handoff=job.handoff,
        turns=_Turns(emit, receive) if job.turns else None,
        progress=_progress(emit),
    )
    given = CellInput(
        seconds_of_audio=statistics.fmean(batch.seconds_of_audio for batch in batches),
        share_of_padding=statistics.fmean(batch.share_of_padding for batch in batches),
    )
    for name in job.passes:
        emit(BeginPass(name))
        start = time.perf_counter()
        found = PASSES[name].measure(work)
        if name == "time" and model.speech_made:  # of a model that speaks, the seconds of speech made are what counts
            made = statistics.fmean(model.speech_made)
            given, work = given.model_copy(update={"seconds_of_audio": made}), replace(work, seconds_of_audio=made)
        done = PassDone(name=name, input=given, work_s=time.perf_counter() - start)
        if isinstance(found, Absent):
            done.reason = found.reason
        else:
            done.result = found
        emit(done)


def _reset_peak(emit: Emit, receive: Receive) -> bool:
    emit(ResetPeak())
    answer = receive()
    return isinstance(answer, PeakReset) and answer.done


class _Turns:
    """Each timed call waits for the parent's word."""

    def __init__(self, emit: Emit, receive: Receive) -> None:
        self._emit, self._receive = emit, receive

    def wait(self, last: float | None) -> bool:
        self._emit(Ready() if last is None else Called(last))
        return isinstance(self._receive(), Call)


def _progress(emit: Emit) -> Callable[[Timing], None]:
    last_report = time.monotonic()

    def report(timing: Timing) -> None:
        nonlocal last_report
        now = time.monotonic()
        if now - last_report >= PROGRESS_SECONDS:
            last_report = now
            seen = timing.samples or timing.warmup
            emit(Progress(len(timing.samples), seen[len(seen) // 2]))

    return report
