"""The types of results.json, the one description of it. Tables and charts are views of them."""

from __future__ import annotations

import statistics
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from profiler.results.statistics import cut, relative_half_width
from profiler.units import place_text

SCHEMA = 2  # 2: the figure of a cell is the median of its rounds' medians, its interval is taken over rounds
FILE = "results.json"
JOURNAL = "results.journal"  # cells that are finished and not yet in results.json, one per line
WIDTH = 0.03  # wanted half-width of the 95 % CI, where a recipe does not say


class Record(BaseModel):
    """Common to all parts: unknown keys of newer versions are kept, not refused."""

    model_config = ConfigDict(extra="allow")


class Run(Record):
    """One execution of a recipe."""

    id: str
    recipe: str
    recipe_sha256: str
    command: str
    started: str
    finished: str | None = None
    status: Literal["running", "complete", "interrupted"] = "running"
    profiler_version: str = ""
    resolved: dict[str, Any] = Field(default_factory=dict)
    loading_s: float = 0.0  # importing libraries and loading models, of all variants
    stopped_by: Literal["width", "budget", "rounds", "decided"] | None = None  # why no more rounds were made
    rounds: int = 0  # made
    sides: Sides | None = None  # of an A/B run
    notes: list[str] = Field(default_factory=list)


class Sides(Record):
    """What an A/B run compares: variants that took turns."""

    about: dict[str, str]  # A and B, as they were given
    pairs: list[tuple[str, str]]  # variants of A and of B
    threshold: float  # smaller changes are of no interest


class Model(Record):
    """The model of one variant."""

    variant: str
    source: str
    type: str
    weights: Literal["pretrained", "random", "no"] | None = None
    output: str | None = None
    sample_rate: int | None = None
    window_s: float | None = None  # seconds to which shorter audio is padded
    parameters: dict[str, Any] = Field(default_factory=dict)
    size_bytes: dict[str, Any] = Field(default_factory=dict)
    conversion: dict[str, Any] | None = None  # what the variant changed in the model, with the proof
    operations: dict[str, Any] = Field(default_factory=dict)  # macs_per_second_of_audio, uncounted
    training: dict[str, Any] | None = None  # with mode: training, the loss, whose code computes it, the optimizer
    versions: dict[str, str] = Field(default_factory=dict)  # of Python and the libraries, in the variant's worker
    notes: list[str] = Field(default_factory=list)


class Latency(Record):
    """Wall seconds of one call. The figure is `median`: the median over rounds of the rounds' medians."""

    median: float
    ci95: tuple[float, float] | None = None  # of the figure, over rounds; null with too few of them
    mean: float  # this and what follows: of all calls
    std: float
    min: float
    n: int
    samples: list[float]
    cpu: list[float] = Field(default_factory=list)  # CPU seconds of each call, all threads of its process
    rounds: list[int]  # how many of the samples each round gave, in order
    warmup: list[float]
    stopped_by: str  # width: the interval is as narrow as wanted; budget: the time was spent; rounds: too few to tell
    percentiles: dict[str, float] = Field(default_factory=dict)

    @property
    def by_round(self) -> list[list[float]]:
        """The samples of each round."""
        return cut(self.samples, self.rounds)

    @property
    def round_medians(self) -> list[float]:
        return [statistics.median(calls) for calls in self.by_round if calls]

    @property
    def half_width(self) -> float | None:
        """Of the 95 % CI, relative to the figure."""
        return relative_half_width(self.median, self.ci95)


class PeakMemory(Record):
    """Bytes; a figure that cannot be measured here is null."""

    tensors: int | None = None
    process: int | None = None
    above_baseline: int | None = None
    device: int | None = None


class ChunkLatency(Record):
    """Wall seconds of single chunks, for a model that takes its audio piece by piece."""

    seconds: float  # of audio in a chunk
    lookahead_s: float  # of audio after it that is waited for
    n: int  # chunks of all timed calls
    median: float
    percentiles: dict[str, float] = Field(default_factory=dict)
    max: float
    late: int  # chunks that took longer than they last
    over: float  # their share
    samples: list[float]  # at most 1000 of each round, chosen at random; median and percentiles are of these


class CellResult(Record):
    """One (variant, seconds, batch size)."""

    variant: str
    seconds: float
    batch_size: int
    status: Literal["ok", "skipped", "failed"]
    reason: str | None = None
    timed_region: str | None = None
    latency_s: Latency | None = None
    chunks: ChunkLatency | None = None
    device_time_s: dict[str, Any] | None = None
    rtf: float | None = None
    rtfx: float | None = None
    verdict: Literal["stable", "unstable"] | None = None  # unstable: the 95 % CI is wider than the recipe wants
    disturbances: dict[str, float] = Field(default_factory=dict)  # kind -> the figure that shows it
    verdict_reasons: list[str] = Field(default_factory=list)  # the same in words
    peak_memory_bytes: PeakMemory | None = None
    input: dict[str, Any] = Field(default_factory=dict)
    conditions: list[dict[str, Any]] = Field(default_factory=list)  # of the machine, in each round
    energy_j: dict[str, Any] | None = None
    energy_reason: str | None = None
    operations: dict[str, Any] | None = None
    operations_reason: str | None = None
    training: dict[str, Any] | None = None  # time and memory by phase, speed, what the loss was
    breakdown: dict[str, Any] | None = None  # labels, what they cost, and the file with modules and operators
    breakdown_reason: str | None = None
    trace: str | None = None
    trace_reason: str | None = None
    work_s: dict[str, float] = Field(default_factory=dict)  # how long each pass was at work

    @property
    def key(self) -> tuple[str, float, int]:
        return self.variant, self.seconds, self.batch_size

    @property
    def label(self) -> str:
        """As its folder is called."""
        return f"{self.seconds:g}s_x{self.batch_size}"

    @property
    def place(self) -> str:
        """As tables name it."""
        return place_text(self.seconds, self.batch_size)


class DatasetResult(Record):
    """One variant over the batches of a data set."""

    variant: str
    dataset: str
    status: Literal["ok", "skipped", "failed"] = "ok"
    reason: str | None = None
    format: str
    order: str
    batching: str
    drawn: dict[str, int]  # utterances and batches, of how many
    seconds: dict[str, float]  # lengths of all utterances of the set
    targets: dict[str, float] | None = None
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
    latency_s: dict[str, Any] | None = None  # of batches, each the median of its rounds
    rtf_percentiles: dict[str, float] = Field(default_factory=dict)  # over utterances, where each is a call of its own
    training: dict[str, Any] | None = None  # time by phase, tokens and frames, over all batches
    by_length: list[dict[str, Any]] = Field(default_factory=list)
    scored: bool = False  # whether there are transcripts to compare the model's texts with
    failed: list[dict[str, Any]] = Field(default_factory=list)  # batches
    skipped: list[dict[str, Any]] = Field(default_factory=list)
    unreadable: dict[str, str] = Field(default_factory=dict)  # utterances left out of their batches
    audio: str | None = None
    timed_region: str | None = None
    fingerprint: str = ""  # of the batches
    notes: list[str] = Field(default_factory=list)
    samples: list[dict[str, Any]] = Field(default_factory=list)  # one a batch


class ErrorRate(Record):
    """Of words or of characters, as a fraction of those in the references."""

    value: float
    ci95: tuple[float, float] | None = None  # from drawing utterances anew; null with too few of them
    substitutions: int
    insertions: int
    deletions: int
    units: int  # words or characters of the references


class Accuracy(Record):
    """How well one variant transcribed a data set; `reason` says why there is no error rate."""

    variant: str
    dataset: str
    reason: str | None = None
    utterances: int = 0  # scored, of those that were drawn
    of_utterances: int
    wer: ErrorRate | None = None
    cer: ErrorRate | None = None
    difference: dict[str, Any] | None = None  # of the word error rate to that of another variant: to, value, ci95
    rtf: float | None = None  # over the data set, as in `datasets`
    rtf_percentiles: dict[str, float] = Field(default_factory=dict)
    normalisation: str
    normaliser: str | None = None
    scorer: str | None = None
    bootstrap: dict[str, int] = Field(default_factory=dict)  # resamples, seed
    left_out: list[dict[str, Any]] = Field(default_factory=list)  # reason, utterances, and the ids of the first
    changed_texts: int = 0  # utterances that got another text in a later round
    transcripts: str | None = None  # the file with what the model wrote
    references: str | None = None  # fingerprint of the utterances and their references


class Results(Record):
    """The whole file."""

    results_schema: int = Field(SCHEMA, alias="schema")
    run: Run
    environment: dict[str, Any] = Field(default_factory=dict)
    models: list[Model] = Field(default_factory=list)
    cells: list[CellResult] = Field(default_factory=list)
    datasets: list[DatasetResult] = Field(default_factory=list)
    accuracy: list[Accuracy] = Field(default_factory=list)

    model_config = ConfigDict(extra="allow", populate_by_name=True)

    def cell(self, variant: str, seconds: float, batch_size: int) -> CellResult | None:
        return next((cell for cell in self.cells if cell.key == (variant, seconds, batch_size)), None)

    def model(self, variant: str) -> Model | None:
        return next((model for model in self.models if model.variant == variant), None)

    @property
    def variants(self) -> list[str]:
        return list(dict.fromkeys(cell.variant for cell in self.cells))

    @property
    def failed(self) -> list[CellResult]:
        return [cell for cell in self.cells if cell.status == "failed"]

    @property
    def has_failures(self) -> bool:
        """A cell, a batch of a data set, or all of one."""
        return bool(self.failed) or any(found.failed or found.status == "failed" for found in self.datasets)
