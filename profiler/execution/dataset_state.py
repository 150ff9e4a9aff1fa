"""What is known of a variant's pass over the data set so far, and the result made of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import fmean, median

from profiler import messages
from profiler.accuracy.transcripts import Transcript
from profiler.dataset.batching import Batch, padded_seconds, real_seconds
from profiler.dataset.items import Utterance
from profiler.dataset.plan import DatasetPlan
from profiler.execution.channel import BatchDone
from profiler.measure.phases import training_over
from profiler.results.statistics import percentiles
from profiler.results.types import BatchLatency, BatchSample, BatchWithout, DatasetResult, LengthGroup

QUARTERS = ("shortest quarter", "second quarter", "third quarter", "longest quarter")


def _longest(batch: Batch) -> Utterance:
    return max(batch, key=lambda utterance: utterance.seconds)


@dataclass
class DatasetState:
    """The batches of one variant."""

    variant: str
    plan: DatasetPlan
    batches: list[BatchSample]
    failure: str | None = None
    skip: str | None = None
    unreadable: dict[str, str] = field(default_factory=dict)
    left_out: int = 0  # calls

    @classmethod
    def of(cls, variant: str, plan: DatasetPlan, earlier: DatasetResult | None = None) -> DatasetState:
        """Takes up an earlier run. Batches that failed or were skipped are tried again."""
        kept = [one.model_copy(update={"failed": None, "skipped": None}) for one in earlier.samples] if earlier else []
        new = [
            BatchSample(
                ids=[utterance.id for utterance in batch],
                longest_s=_longest(batch).seconds,
                seconds_of_audio=0.0,
                padded_seconds=0.0,
            )
            for batch in plan.batches[len(kept) :]
        ]
        state = cls(variant, plan, [*kept, *new])
        if earlier:
            state.unreadable, state.left_out = dict(earlier.unreadable), earlier.left_out
        return state

    def recover(self, transcripts: dict[str, Transcript]) -> None:
        """Times of calls whose texts were kept, where the program was killed before it wrote the results."""
        for number, (batch, utterances) in enumerate(zip(self.batches, self.plan.batches, strict=True)):
            kept = [transcripts.get(name) for name in batch.ids]
            whole = [found for found in kept if found and (found.batch, found.batch_size) == (number, len(kept))]
            if not batch.latency_s and len(whole) == len(kept):
                batch.latency_s = [whole[0].latency_s]
                batch.seconds_of_audio, batch.padded_seconds = real_seconds(utterances), padded_seconds(utterances)

    def to_do(self, number: int) -> list[int]:
        """The batches that lack a time in a round."""
        if self.failure is not None or self.skip is not None:
            return []
        return [
            index
            for index, batch in enumerate(self.batches)
            if batch.failed is None and batch.skipped is None and len(batch.latency_s) <= number
        ]

    def add(self, done: BatchDone) -> None:
        """What a worker says of a batch."""
        batch = self.batches[done.number]
        self.unreadable |= done.unreadable
        self.left_out += done.left_out
        batch.failed, batch.skipped = done.failed, done.skipped
        if done.latency is not None:
            batch.latency_s.append(done.latency)
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
        made.samples = self.batches
        made.failed = self._without([batch.failed for batch in self.batches])
        made.skipped = self._without([batch.skipped for batch in self.batches])
        made.unreadable, made.left_out = self.unreadable, self.left_out
        if self.left_out:
            made.notes.append(messages.sentence("paused", self.left_out))
        if self.unreadable:
            names = "; ".join(f"{name} ({reason})" for name, reason in list(self.unreadable.items())[:3])
            made.notes.append(f"Skipped {len(self.unreadable)} utterances that could not be read: {names}.")
        measured = [batch for batch in self.batches if batch.latency_s]
        if measured:
            _put_figures(made, measured)
            made.by_length = self._by_length(measured)
        elif made.failed:
            made.status, made.reason = "failed", f"every batch failed, the first one: {made.failed[0].reason}"
        return made

    def _by_length(self, measured: list[BatchSample]) -> list[LengthGroup]:
        """The same figures for each quarter of the batches, from the shortest to the longest."""
        if len(measured) < len(QUARTERS):
            return []
        ordered = sorted(measured, key=lambda batch: batch.longest_s)
        shortest = {batch[0].id: min(utterance.seconds for utterance in batch) for batch in self.plan.batches}
        rows = []
        for part, name in enumerate(QUARTERS):
            batches = ordered[part * len(ordered) // 4 : (part + 1) * len(ordered) // 4]
            audio = sum(batch.seconds_of_audio for batch in batches)
            times = [median(batch.latency_s) for batch in batches]
            rows.append(
                LengthGroup(
                    batches_of=name,
                    batches=len(batches),
                    seconds=(min(shortest[batch.ids[0]] for batch in batches), batches[-1].longest_s),
                    seconds_of_audio=audio,
                    share_of_padding=1.0 - audio / sum(batch.padded_seconds for batch in batches),
                    rtf=sum(times) / audio,
                    latency_s=median(times),
                )
            )
        return rows

    def _without(self, reasons: list[str | None]) -> list[BatchWithout]:
        """The batches without a figure: which one, its longest utterance, and why."""
        return [
            BatchWithout(
                batch=number,
                utterances=len(batch),
                longest=_longest(batch).id,
                longest_s=_longest(batch).seconds,
                reason=reason,
            )
            for number, (batch, reason) in enumerate(zip(self.plan.batches, reasons, strict=True), 1)
            if reason is not None
        ]


def _put_figures(made: DatasetResult, measured: list[BatchSample]) -> None:
    times = [median(batch.latency_s) for batch in measured]
    audio = sum(batch.seconds_of_audio for batch in measured)
    padded = sum(batch.padded_seconds for batch in measured)
    made.batches = len(measured)
    made.utterances = sum(name not in made.unreadable for batch in measured for name in batch.ids)
    made.seconds_of_audio = audio
    made.share_of_padding = 1.0 - audio / padded
    made.rtf = sum(times) / audio
    made.rtfx = audio / sum(times) if sum(times) > 0 else None
    made.rtf_padded = sum(times) / padded
    made.latency_s = BatchLatency(
        median=median(times),
        mean=fmean(times),
        min=min(times),
        max=max(times),
        n=len(times),
        percentiles=percentiles(times),
    )
    rounds = min(len(batch.latency_s) for batch in measured)
    made.rounds = [sum(batch.latency_s[number] for batch in measured) / audio for number in range(rounds)]
    if rounds > 1:
        made.spread = max(abs(value / made.rtf - 1.0) for value in made.rounds)
    if all(len(batch.ids) == 1 for batch in measured):
        made.rtf_percentiles = percentiles([median(batch.latency_s) / batch.seconds_of_audio for batch in measured])
    if all(batch.tokens is not None for batch in measured):
        made.training = training_over(
            [(median(batch.latency_s), batch.tokens or 0, batch.frames or 0, batch.phases) for batch in measured], audio
        )
