"""What is known of a variant's pass over the data set so far, and the result made of it."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import Any

from profiler import messages
from profiler.accuracy.transcripts import Transcript
from profiler.dataset.batching import Batch, padded_seconds, real_seconds
from profiler.dataset.plan import DatasetPlan
from profiler.execution.channel import BatchDone
from profiler.measure.phases import training_over
from profiler.results.statistics import percentiles
from profiler.results.types import BatchLatency, BatchSample, BatchWithout, DatasetResult, LengthGroup

QUARTERS = ("shortest quarter", "second quarter", "third quarter", "longest quarter")


@dataclass
class BatchState:
    """One batch: its times, a round each, or why it has none."""

    utterances: Batch
    times: list[float] = field(default_factory=list)
    seconds_of_audio: float = 0.0
    padded_seconds: float = 0.0
    tokens: int | None = None  # of the targets, in training
    frames: int | None = None
    phases: list[list[float]] = field(default_factory=list)  # seconds of each phase of a training step, a round each
    failure: str | None = None
    skip: str | None = None

    @property
    def longest(self) -> Any:
        return max(self.utterances, key=lambda utterance: utterance.seconds)

    @property
    def median(self) -> float:
        return statistics.median(self.times)

    def sample(self) -> BatchSample:
        return BatchSample(
            ids=[utterance.id for utterance in self.utterances],
            longest_s=self.longest.seconds,
            seconds_of_audio=self.seconds_of_audio,
            padded_seconds=self.padded_seconds,
            latency_s=self.times,
            failed=self.failure,
            skipped=self.skip,
            tokens=self.tokens,
            frames=self.frames,
            phases=self.phases,
        )


@dataclass
class DatasetState:
    """The batches of one variant."""

    variant: str
    plan: DatasetPlan
    batches: list[BatchState]
    failure: str | None = None
    skip: str | None = None
    unreadable: dict[str, str] = field(default_factory=dict)
    left_out: int = 0  # calls

    @classmethod
    def new(cls, variant: str, plan: DatasetPlan) -> DatasetState:
        return cls(variant, plan, [BatchState(batch) for batch in plan.batches])

    @classmethod
    def from_result(cls, variant: str, plan: DatasetPlan, result: DatasetResult) -> DatasetState:
        """Take up an earlier run. Batches that failed or were skipped are tried again."""
        state = cls.new(variant, plan)
        for batch, sample in zip(state.batches, result.samples, strict=False):
            batch.times = list(sample.latency_s)
            batch.seconds_of_audio, batch.padded_seconds = sample.seconds_of_audio, sample.padded_seconds
            batch.tokens, batch.frames = sample.tokens, sample.frames
            batch.phases = list(sample.phases)
        state.unreadable, state.left_out = dict(result.unreadable), result.left_out
        return state

    def recover(self, transcripts: dict[str, Transcript]) -> None:
        """Times of calls whose texts were kept, where the program was killed before it wrote the results."""
        for number, batch in enumerate(self.batches):
            kept = [transcripts.get(utterance.id) for utterance in batch.utterances]
            whole = [found for found in kept if found and (found.batch, found.batch_size) == (number, len(kept))]
            if not batch.times and len(whole) == len(kept):
                batch.times = [whole[0].latency_s]
                batch.seconds_of_audio = real_seconds(batch.utterances)
                batch.padded_seconds = padded_seconds(batch.utterances)

    def to_do(self, number: int) -> list[int]:
        """The batches that lack a time in a round."""
        if self.failure is not None or self.skip is not None:
            return []
        return [
            index
            for index, batch in enumerate(self.batches)
            if batch.failure is None and batch.skip is None and len(batch.times) <= number
        ]

    def add(self, done: BatchDone) -> None:
        """What a worker says of a batch."""
        batch = self.batches[done.number]
        self.unreadable |= done.unreadable
        self.left_out += done.left_out
        batch.failure, batch.skip = done.failed, done.skipped
        if done.latency is not None:
            batch.times.append(done.latency)
            batch.seconds_of_audio, batch.padded_seconds = done.seconds_of_audio, done.padded_seconds
            batch.tokens, batch.frames = done.tokens, done.frames
            if done.phases:
                batch.phases.append(done.phases)

    def result(self, timed_region: str, audio: str) -> DatasetResult:
        made = DatasetResult(variant=self.variant, **self.plan.summary(), fingerprint=self.plan.fingerprint)
        made.timed_region, made.audio = timed_region, audio
        made.notes = list(self.plan.notes)
        if self.failure is not None or self.skip is not None:
            made.status, made.reason = ("failed", self.failure) if self.failure is not None else ("skipped", self.skip)
            return made
        measured = [batch for batch in self.batches if batch.times]
        made.samples = [batch.sample() for batch in self.batches]
        made.failed = _named(self.batches, "failure")
        made.skipped = _named(self.batches, "skip")
        made.unreadable, made.left_out = self.unreadable, self.left_out
        if self.left_out:
            made.notes.append(messages.sentence("paused", self.left_out))
        if self.unreadable:
            names = "; ".join(f"{name} ({reason})" for name, reason in list(self.unreadable.items())[:3])
            made.notes.append(f"Skipped {len(self.unreadable)} utterances that could not be read: {names}.")
        if measured:
            _put_figures(made, measured)
        elif made.failed:
            made.status, made.reason = "failed", f"every batch failed, the first one: {made.failed[0].reason}"
        return made


def _put_figures(made: DatasetResult, measured: list[BatchState]) -> None:
    times = [batch.median for batch in measured]
    audio = sum(batch.seconds_of_audio for batch in measured)
    padded = sum(batch.padded_seconds for batch in measured)
    made.batches = len(measured)
    made.utterances = sum(utterance.id not in made.unreadable for batch in measured for utterance in batch.utterances)
    made.seconds_of_audio = audio
    made.share_of_padding = 1.0 - audio / padded
    made.rtf = sum(times) / audio
    made.rtfx = audio / sum(times) if sum(times) > 0 else None
    made.rtf_padded = sum(times) / padded
    made.latency_s = BatchLatency(
        median=statistics.median(times),
        mean=statistics.fmean(times),
        min=min(times),
        max=max(times),
        n=len(times),
        percentiles=percentiles(times),
    )
    rounds = min(len(batch.times) for batch in measured)
    made.rounds = [sum(batch.times[number] for batch in measured) / audio for number in range(rounds)]
    if rounds > 1:
        made.spread = max(abs(value / made.rtf - 1.0) for value in made.rounds)
    if all(len(batch.utterances) == 1 for batch in measured):
        made.rtf_percentiles = percentiles([batch.median / batch.seconds_of_audio for batch in measured])
    made.by_length = _by_length(measured)
    if all(batch.tokens is not None for batch in measured):
        made.training = training_over(
            [(batch.median, batch.tokens or 0, batch.frames or 0, batch.phases) for batch in measured], audio
        )


def _by_length(measured: list[BatchState]) -> list[LengthGroup]:
    """The same figures for each quarter of the batches, from the shortest to the longest."""
    if len(measured) < len(QUARTERS):
        return []
    ordered = sorted(measured, key=lambda batch: batch.longest.seconds)
    rows = []
    for part, name in enumerate(QUARTERS):
        batches = ordered[part * len(ordered) // 4 : (part + 1) * len(ordered) // 4]
        audio = sum(batch.seconds_of_audio for batch in batches)
        times = [batch.median for batch in batches]
        lengths = [utterance.seconds for batch in batches for utterance in batch.utterances]
        rows.append(
            LengthGroup(
                batches_of=name,
                batches=len(batches),
                seconds=(min(lengths), max(lengths)),
                seconds_of_audio=audio,
                share_of_padding=1.0 - audio / sum(batch.padded_seconds for batch in batches),
                rtf=sum(times) / audio,
                latency_s=statistics.median(times),
            )
        )
    return rows


def _named(batches: list[BatchState], what: str) -> list[BatchWithout]:
    """The batches without a figure: which one, its longest utterance, and why."""
    return [
        BatchWithout(
            batch=index + 1,
            utterances=len(batch.utterances),
            longest=batch.longest.id,
            longest_s=batch.longest.seconds,
            reason=getattr(batch, what),
        )
        for index, batch in enumerate(batches)
        if getattr(batch, what) is not None
    ]
