"""Data sets in results.json: the speed of each variant over their batches, and how well it transcribed them.

The batches are `DatasetResult`, the transcripts `Accuracy`: error rates, their intervals, and what has no score.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from profiler.results.types.record import Record
from profiler.results.untrusted import FileName, InnerPath


class Drawn(Record):
    """How much of the set is measured."""

    utterances: int
    batches: int
    of_utterances: int
    of_batches: int


class Spread(Record):
    """Of lengths over all utterances of the set."""

    min: float
    p10: float | None = None
    median: float
    mean: float
    p90: float | None = None
    max: float


class BatchLatency(Record):
    """Wall seconds of batches, each the median of its rounds."""

    median: float
    mean: float
    min: float
    max: float
    n: int
    percentiles: dict[str, float] = Field(default_factory=dict)


class LengthGroup(Record):
    """A quarter of the batches, by length."""

    batches_of: str
    batches: int
    seconds: tuple[float, float]
    seconds_of_audio: float
    share_of_padding: float
    rtf: float
    latency_s: float


class PhaseTotal(Record):
    total_s: float
    share: float


class StepTotals(Record):
    """Training steps over all batches."""

    phases: dict[str, PhaseTotal] = Field(default_factory=dict)
    tokens: int
    seconds_of_audio_per_second: float | None = None
    frames_per_second: float | None = None
    tokens_per_second: float | None = None


class BatchWithout(Record):
    """A batch that has no figure, and why."""

    batch: int
    utterances: int
    longest: str
    longest_s: float
    reason: str


class BatchSample(Record):
    """One batch: its times, one per round, or why it has none."""

    ids: list[str]
    longest_s: float
    seconds_of_audio: float
    padded_seconds: float
    latency_s: list[float] = Field(default_factory=list)
    failed: str | None = None
    skipped: str | None = None
    tokens: int | None = None  # of the targets, in training
    frames: int | None = None
    phases: list[list[float]] = Field(default_factory=list)  # seconds of each phase of a training step, one per round


class DatasetResult(Record):
    """One variant over the batches of a data set."""

    variant: FileName
    dataset: str
    status: Literal["ok", "skipped", "failed"] = "ok"
    reason: str | None = None
    format: str
    order: str
    batching: str
    drawn: Drawn
    seconds: Spread
    targets: Spread | None = None
    expected_share_of_padding: float  # of the batches that are drawn
    share_of_padding_in_set: float
    utterances: int = 0  # measured, as all that follows
    batches: int = 0
    seconds_of_audio: float | None = None  # without padding
    share_of_padding: float | None = None
    rtf: float | None = None  # all time over all audio, padding not counted as audio
    rtfx: float | None = None
    rtf_padded: float | None = None
    rounds: list[float] = Field(default_factory=list)  # the RTF of each whole round
    spread: float | None = None  # how far the farthest round lies from the RTF, relative to it
    latency_s: BatchLatency | None = None
    rtf_percentiles: dict[str, float] = Field(default_factory=dict)  # over utterances, where each is a call of its own
    training: StepTotals | None = None
    by_length: list[LengthGroup] = Field(default_factory=list)
    scored: bool = False  # whether there are transcripts to compare the model's texts with
    failed: list[BatchWithout] = Field(default_factory=list)
    skipped: list[BatchWithout] = Field(default_factory=list)
    unreadable: dict[str, str] = Field(default_factory=dict)  # utterances left out of their batches
    left_out: int = 0  # calls during which the process was stopped or the machine slept; each was made again
    audio: str | None = None
    timed_region: str | None = None
    fingerprint: str = ""  # of the batches
    notes: list[str] = Field(default_factory=list)
    samples: list[BatchSample] = Field(default_factory=list)


class ErrorRate(Record):
    """Of words or of characters, as a fraction of those in the references."""

    value: float
    ci95: tuple[float, float] | None = None  # from drawing utterances anew; null with too few of them
    substitutions: int
    insertions: int
    deletions: int
    units: int  # words or characters of the references


class RateDifference(Record):
    """Of the word error rate to that of another variant, on what both transcribed."""

    to: str
    value: float
    ci95: tuple[float, float] | None = None
    utterances: int


class Bootstrap(Record):
    resamples: int = 0
    seed: int = 0


class LeftOut(Record):
    """Utterances without a score, for one reason."""

    reason: str
    utterances: int
    ids: list[str] = Field(default_factory=list)  # of the first


class Accuracy(Record):
    """How well one variant transcribed a data set; `reason` says why there is no error rate."""

    variant: FileName
    dataset: str
    reason: str | None = None
    utterances: int = 0  # scored, of those that were drawn
    of_utterances: int
    wer: ErrorRate | None = None
    cer: ErrorRate | None = None
    difference: RateDifference | None = None
    rtf: float | None = None  # over the data set, as in `datasets`
    rtf_percentiles: dict[str, float] = Field(default_factory=dict)
    normalisation: str
    normaliser: str | None = None
    scorer: str | None = None
    bootstrap: Bootstrap = Field(default_factory=Bootstrap)
    left_out: list[LeftOut] = Field(default_factory=list)
    changed_texts: int = 0  # utterances that got another text in a later round
    transcripts: InnerPath | None = None  # the file with what the model wrote
    references: str | None = None  # fingerprint of the utterances and their references
