"""The pass over a data set, inside the process that is measured: each batch is read, padded, and timed once.

Reading and resampling come before the clock starts. A batch that fails is reported and the next one goes on; one that
ends the process is known by its number, which was reported before it began.
"""

from __future__ import annotations

import gc
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from profiler.audio import Batch, Samples, Speech, pad, read_mono
from profiler.dataset.items import Utterance
from profiler.device import Device
from profiler.errors import AudioError
from profiler.execution.channel import BatchDone, BatchWork, BeginBatch, DatasetJob, Event
from profiler.measure.latency import timed
from profiler.processes import explain

if TYPE_CHECKING:
    from profiler.models.model import Model
    from profiler.training.step import TrainingStep

NO_AUDIO: Samples = np.zeros(1, dtype=np.float32)


def time_batches(
    job: DatasetJob, model: Model, speech: Speech, emit: Callable[[Event], None], step: TrainingStep | None
) -> None:
    """All batches of a job, in order; the first that works is run once more before, to warm up."""
    device, warm = Device(job.device), False
    gc.disable()
    for work in job.batches:
        done = BatchDone(number=work.number)
        emit(BeginBatch(work.number))
        try:
            if model.speech_made is None:
                rows, done.unreadable = read_rows(work.utterances, speech, job.seed, job.skip_unreadable)
            else:  # it takes texts alone
                rows = {utterance.id: NO_AUDIO for _, utterance in work.utterances}
            if not rows:
                done.skipped = "none of its utterances can be read"
                emit(done)
                continue
            texts = tuple(utterance.text or "" for _, utterance in work.utterances)
            batch = replace(pad(list(rows.values()), speech.rate), texts=texts)
            value = (
                model.prepare(batch) if step is None else _with_targets(step, batch, work, done.unreadable, job.seed)
            )
            run = step or model.run
            if model.graph is not None:
                model.graph.forget()
                model.graph.prepare([value])
            if not warm:
                timed(run, value, device)
                warm = True
            gc.collect()
            if step is not None:
                step.forget()
            seconds, output, done.left_out = _timed_output(run, value, device)
            if job.texts:
                done.ids, done.texts = list(rows), texts_of(output, len(rows))
        except Exception as error:
            done.failed = _explain(error)
        else:
            done.latency, done.seconds_of_audio = seconds, batch.seconds_of_audio
            done.padded_seconds = batch.waveforms.size / batch.rate
            if model.speech_made:  # of the call that was timed
                done.seconds_of_audio = done.padded_seconds = model.speech_made[-1]
            if step is not None:
                times = step.times()
                done.tokens, done.frames, done.phases = value[1].total, step.frames, times[-1] if times else None
        emit(done)
        if model.chunks is not None:
            model.chunks.times.clear()


def _timed_output(run: Callable[[Any], Any], value: Any, device: Device) -> tuple[float, Any, int]:
    """Wall seconds of one call, what that very call gave (what is scored is what was timed), and how many calls before
    it were left out."""
    kept: list[Any] = []
    while (call := timed(lambda value: kept.append(run(value)), value, device)).paused:
        continue
    return call.wall, kept[-1], len(kept) - 1


def texts_of(output: Any, rows: int) -> list[str] | None:
    """What an ASR model wrote for each recording, as one text or as a list of words; None where it is no text."""
    texts = [output] if isinstance(output, str) else output
    if not isinstance(texts, (list, tuple)) or len(texts) != rows:
        return None
    if all(isinstance(text, str) for text in texts):
        return list(texts)
    if all(isinstance(text, (list, tuple)) and all(isinstance(word, str) for word in text) for text in texts):
        return [" ".join(text) for text in texts]
    return None


def _with_targets(step: TrainingStep, batch: Batch, work: BatchWork, unreadable: dict[str, str], seed: int) -> Any:
    """Each utterance with a target as long as its own, where the set says how long that is."""
    kept = [utterance for _, utterance in work.utterances if utterance.id not in unreadable]
    lengths = [utterance.target_tokens for utterance in kept]
    return step.prepare(batch, seed + work.number, lengths, [utterance.id for utterance in kept])


def read_rows(
    utterances: list[tuple[int, Utterance]], speech: Speech, seed: int, skip_unreadable: bool
) -> tuple[dict[str, Samples], dict[str, str]]:
    """The rows of a batch by id, and what could not be read for it."""
    rows, unreadable = {}, {}
    for number, utterance in utterances:
        try:
            rows[utterance.id] = row_of(utterance, speech, seed + number)
        except (AudioError, RuntimeError, OSError) as error:  # soundfile's own errors are RuntimeErrors
            if not skip_unreadable:
                raise AudioError(f"{utterance.id} cannot be read: {error}") from None
            unreadable[utterance.id] = str(error)
    return rows, unreadable


def row_of(utterance: Utterance, speech: Speech, seed: int) -> Samples:
    """The utterance's own audio, or the sample speech cut or repeated to its length."""
    if utterance.row is not None:
        from profiler.dataset.tables import audio_of

        embedded = audio_of(utterance.audio or Path(), utterance.row)
        return read_mono(embedded, speech.rate, utterance.offset, utterance.seconds)
    if utterance.audio is not None:
        return read_mono(utterance.audio, speech.rate, utterance.offset, utterance.seconds)
    row: Samples = speech.batch(utterance.seconds, 1, seed).waveforms[0]
    return row


def _explain(error: Exception) -> str:
    if isinstance(error, AudioError):
        return str(error)
    traceback.print_exc()
    return "out of memory" if isinstance(error, MemoryError) else explain(error)
