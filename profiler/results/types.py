"""The types of results.json, the one description of it. Tables and charts are views of them."""

from __future__ import annotations

import statistics
from math import inf
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, field_validator
from pydantic_core import CoreSchema

from profiler.results.statistics import cut, percentiles, relative_half_width
from profiler.results.untrusted import LONGEST_TEXT, MOST_CELLS, FileName, InnerPath, bounded
from profiler.units import place_text

SCHEMA = 2  # 2: the figure of a cell is the median of its rounds' medians, its interval is taken over rounds
FILE = "results.json"
JOURNAL = "results.journal"  # cells that are finished and not yet in results.json, one per line
PHASES = ("forward", "loss", "backward", "optimizer")  # of a training step
LOOP_PHASES = ("data", "compute")  # of a step of one's own loop: waiting for the data loader, and all else
MOST_PLANNED = 200  # rows or columns of a grid that tables leave room for
SPOKEN = ("speech", "mel spectrogram")  # outputs of models that speak, whose input is text
WIDTH = 0.03  # wanted half-width of the 95 % CI, where a recipe does not say


class Record(BaseModel):
    """Common to all parts: unknown keys of newer versions are kept, not refused. This version writes none of them."""

    model_config = ConfigDict(
        extra="allow",
        defer_build=True,
        json_schema_extra={"additionalProperties": False},
        str_max_length=LONGEST_TEXT,
        allow_inf_nan=False,  # JSON has no such numbers
    )

    @classmethod
    def __get_pydantic_core_schema__(cls, source: type[BaseModel], handler: GetCoreSchemaHandler) -> CoreSchema:
        """The first wrong entry of a list is enough to refuse it: a million of them would be a million messages."""
        schema = handler(source)
        bounded(schema)
        return schema


# -- models


class Run(Record):
    """One execution of a recipe."""

    id: FileName
    recipe: str
    recipe_sha256: str
    command: str
    started: str
    finished: str | None = None
    status: Literal["running", "complete", "finished with failures", "interrupted"] = "running"
    profiler_version: str = ""
    resolved: dict[str, Any] = Field(default_factory=dict)
    loading_s: float = 0.0  # importing libraries and loading models, of all variants
    stopped_by: Literal["width", "budget", "rounds", "decided"] | None = None  # why no more rounds were made
    rounds: int = 0  # made
    sides: Sides | None = None  # of an A/B run
    notes: list[str] = Field(default_factory=list)

    @field_validator("resolved")
    @classmethod
    def _check_settings(cls, resolved: dict[str, Any]) -> dict[str, Any]:
        """The recipe is the user's own, but reports write some of its settings out."""
        measure = resolved.get("measure", {})
        numbers = ("rounds", "warmup", "min_calls", "width", "budget")
        if not isinstance(measure, dict) or not all(isinstance(measure.get(name, 0), int | float) for name in numbers):
            raise ValueError("its section `measure` is not one of a recipe")
        return resolved

    @property
    def is_finished(self) -> bool:
        """Every cell was measured, skipped or tried."""
        return self.status in ("complete", "finished with failures")

    def planned(self, key: Literal["audio_mockup_secs", "batch_sizes"]) -> list[float]:
        """The rows or columns of the grid that the recipe asked for: a run that was cut short has not all of them."""
        grid = self.resolved.get("profiling_dimensions")
        values = grid.get(key) if isinstance(grid, dict) else None
        numbers = [value for value in values if isinstance(value, int | float)] if isinstance(values, list) else []
        return [float(value) for value in numbers if 0 < value < inf][:MOST_PLANNED]


class Sides(Record):
    """What an A/B run compares: variants that took turns."""

    about: dict[str, str]  # A and B, as they were given
    pairs: list[tuple[FileName, FileName]]  # variants of A and of B
    threshold: float = Field(ge=0)  # smaller changes are of no interest


class ComponentCounts(Record):
    """Of one component."""

    trainable: int = 0
    buffers: int = 0


class Parameters(Record):
    """Each parameter and buffer counts once, in the first component that has it."""

    total: int | None = None  # null: not counted
    trainable: int | None = None
    buffers: int | None = None  # numbers that are not learned by gradients, such as running means
    shared: list[list[str]] = Field(default_factory=list)  # names of one and the same parameter or module
    components: dict[str, int] = Field(default_factory=dict)
    details: dict[str, ComponentCounts] = Field(default_factory=dict)


class Size(Record):
    """Bytes of parameters and buffers as they are saved."""

    total: int | None = None
    components: dict[str, int] = Field(default_factory=dict)


class Distance(Record):
    """Of one output from another: absolute, and relative to the mean size of what was compared. Null: no number."""

    max: float | None = None
    mean: float | None = None
    relative: float | None = None


class OutputDifference(Distance):
    """How far the converted model's output is from the float one's, on the same speech."""

    compared: str | None = None  # the output that the figures are of; null where there is none
    components: dict[str, Distance] = Field(default_factory=dict)
    texts: int = 0  # compared
    texts_changed: float | None = None  # share
    tokens_agree: float | None = None  # share of tokens, or letters, that both have in the same order


class RuntimeUse(Record):
    """What an engine runs of a model, and how it was made. Threads and precision: as the engine itself says."""

    engine: str
    version: str
    parts: list[str]  # modules that the engine runs
    in_torch: list[str] = Field(default_factory=list)  # components that torch runs
    refused: list[str] = Field(default_factory=list)  # modules that the engine could not take, and why
    files: int = 1
    any_shape: bool = True  # a file takes any length and batch; else there is one for each shape
    threads: int | None = None
    precision: str | None = None
    spinning: bool | None = None  # whether waiting threads keep a CPU busy, by its setting or as measured
    waiting_cpus: float | None = None  # CPUs that they kept busy in the 20 ms after a call; null: not measured
    export_s: float
    export_peak_bytes: int  # of the process that exported
    cached: bool = False  # exported by an earlier run, with the figures of then
    file_bytes: int
    load_s: float  # opening all files


class Conversion(Record):
    """What a variant did to a model. Null: not a matter of layers (attention alone)."""

    kind: str
    engine: str | None = None
    layers_converted: int | None = None
    layers_total: int
    share_of_layers: float | None = None
    share_of_parameters: float | None = None
    bytes_before: Size
    bytes_after: Size
    graphs: int | None = None
    graph_breaks: int | None = None
    notes: list[str] = Field(default_factory=list)
    difference: OutputDifference | None = None
    runtime: RuntimeUse | None = None  # of a variant that an engine other than torch runs


class ModelOperations(Record):
    """What the model computes for a second of audio, by the first cell that tells."""

    macs_per_second_of_audio: float | None = None
    uncounted: list[str] = Field(default_factory=list)


class TrainingSetup(Record):
    """How the model is trained, with mode: training."""

    loss: str
    loss_library: str
    optimizer: str
    learning_rate: float
    clip_norm: float | None = None
    precision: str
    trained_parameters: int
    added: list[str] = Field(default_factory=list)  # output layers that are there for training


class DeviceFacts(Record):
    """An accelerator, as torch names it."""

    model_config = ConfigDict(frozen=True)

    place: str  # cuda:0
    name: str | None = None
    memory_bytes: int | None = None
    uuid: str | None = None
    compute: str | None = None  # capability of a CUDA device, such as 8.0


class ModelResult(Record):
    """The model of one variant."""

    variant: FileName
    baseline: FileName | None = None  # the variant that it is compared with; null: the first one
    source: str
    type: str
    weights: Literal["pretrained", "as constructed", "random", "no"] | None = None
    output: str | None = None
    sample_rate: int | None = None
    window_s: float | None = None  # seconds to which shorter audio is padded
    parameters: Parameters = Field(default_factory=Parameters)
    size_bytes: Size = Field(default_factory=Size)
    conversion: Conversion | None = None
    operations: ModelOperations = Field(default_factory=ModelOperations)
    training: TrainingSetup | None = None
    versions: dict[str, str] = Field(default_factory=dict)  # of Python and the libraries, in the variant's worker
    flags: dict[str, str] = Field(default_factory=dict)  # of torch, on a GPU: cuDNN, TF32
    device: DeviceFacts | None = None  # that the variant's worker used; null: a CPU
    copy_to_device: Literal["included", "excluded"] | None = (
        None  # in the timed region; null where there is none: a CPU
    )
    notes: list[str] = Field(default_factory=list)


# -- cells


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
    left_out: int = 0  # calls during which the process was stopped or the machine slept; in no other figure

    @property
    def by_round(self) -> list[list[float]]:
        """The samples of each round."""
        return cut(self.samples, self.rounds)

    @property
    def round_medians(self) -> list[float]:
        return [statistics.median(calls) for calls in self.by_round if calls]

    @property
    def cpu_median(self) -> float | None:
        return statistics.median(self.cpu) if self.cpu else None

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
    device_reserved: int | None = None  # what torch's allocator took from the device


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

    @property
    def rtf(self) -> float:
        return self.median / self.seconds

    @property
    def delay(self) -> float:
        """From the first sound of a chunk to its result."""
        return self.seconds + self.lookahead_s + self.median


class DeviceTime(Record):
    """Seconds of one call by the device's own clock."""

    median: float
    ci95: tuple[float, float] | None = None
    n: int
    samples: list[float]
    rtf: float
    cpu_rtf: float | None = None  # of the CPU time of the same calls, up to where they return


class CellInput(Record):
    """What the calls of a cell were given."""

    audio: str | None = None
    seconds_of_audio: float | None = None  # of a call, padding not counted
    share_of_padding: float = 0.0

    @property
    def padding(self) -> float | None:
        """The share, where anything was given."""
        return self.share_of_padding if self.audio is not None else None


class GpuCondition(Record):
    """How the GPU was in one round, by NVML's counters; null: it does not tell."""

    held_back: float | None = None  # share of the round in which heat or the power limit lowered its clock
    other_processes: int | None = None  # that compute on it
    other_use: float | None = None  # share of its time that the busiest of them had
    clock_mhz: int | None = None  # of its SMs, right after the round
    temperature_c: int | None = None
    slowdown_c: int | None = None  # the temperature at which it lowers its clock


class Condition(Record):
    """How the machine was in one round. CPUs: 1.0 is one CPU all the time."""

    round: int | None = None
    wall_s: float | None = None
    other_cpus: float = 0.0  # taken by other processes
    stolen_cpus: float = 0.0  # by the hypervisor
    throttled: int = 0
    handoff_s: float | None = None  # that one thread takes to hand work to another
    gpu: GpuCondition | None = None


class Energy(Record):
    """Joules. Raw is all that was drawn meanwhile; above idle is that less what the idle machine would have drawn."""

    per_call: float
    per_call_above_idle: float | None = None
    above_idle_reason: str | None = None  # why the figures above idle are absent
    mean_power_w: float
    idle_power_w: float | None = None
    kind: Literal["measured", "given"] = "measured"
    sensor: str
    source: str
    covers: str
    per_second_of_audio: float
    per_second_of_audio_above_idle: float | None = None
    # The same number as joules per second of audio: both units are 3600 times larger. Kept, because people ask for it.
    watt_hours_per_hour_of_audio: float
    watt_hours_per_hour_of_audio_above_idle: float | None = None
    calls: int = 0
    windows: list[float] = Field(default_factory=list)  # joules per call in each window, raw
    window_seconds: list[float] = Field(default_factory=list)
    update_seconds: float | None = None  # between two updates of the sensor, where they are far apart
    idle_windows_w: list[float] = Field(default_factory=list)  # before the calls, and after them
    spread: tuple[float, float] | None = None  # lowest and highest of the windows
    notes: list[str] = Field(default_factory=list)


class Operations(Record):
    """What one call computes. `uncounted` says by name what the figures leave out; no zero is left unexplained."""

    macs: int
    flops: int | None = None  # two for each MAC
    components: dict[str, int] = Field(default_factory=dict)  # that were called; `other`: what belongs to none
    per_second: float  # MACs for each second of audio
    uncounted: list[str] = Field(default_factory=list)
    by_operator: dict[str, int] = Field(default_factory=dict)
    bytes_moved: int = 0  # inputs and outputs of every operator once: an estimate
    convention: str = ""
    achieved_gflops: float | None = None
    intensity: float | None = None  # FLOPs for each byte moved
    share_of_peak: float | None = None  # this and what follows: where the reference workload was measured
    bound: Literal["compute", "memory", "overhead"] | None = None
    peak_gflops: float | None = None
    peak_gb_per_s: float | None = None

    @field_validator("bound", mode="before")
    @classmethod
    def _as_it_is_called_today(cls, bound: Any) -> Any:
        return "compute" if bound == "arithmetic" else bound  # of version 0.1


class Phase(Record):
    """One phase of a training step, over all calls."""

    median_s: float
    mean_s: float | None = None
    share: float = 0.0  # of the mean step: shares add up to 1
    samples: list[float] = Field(default_factory=list)


class Loss(Record):
    """Of the first and the last step of the first round; null where it was no number."""

    first: float | None = None
    last: float | None = None


class StepFigures(Record):
    """A training step by phase: time, memory, speed."""

    phases: dict[str, Phase] | None = None
    phases_reason: str | None = None
    peak_memory_bytes: dict[str, PeakMemory] | None = None  # of each phase
    state_bytes: dict[str, int] = Field(default_factory=dict)
    seconds_of_audio_per_second: float | None = None
    frames_per_second: float | None = None
    frames_per_second_of_audio: float = 0.0
    tokens: float = 0.0
    loss: Loss | None = Field(default_factory=Loss)  # null: steps of one's own code, whose loss is not known


class Part(Record):
    """Figures of one call for a label, a module, or what is left. Total is with all that is inside, own without."""

    name: str
    phase: str = "forward"
    calls: float | None = None
    total_s: float
    own_s: float
    share: float
    own_share: float
    s_per_second_of_audio: float | None = None
    memory_bytes: int | None = None
    macs: int | None = None
    own_macs: int | None = None
    macs_per_second_of_audio: float | None = None
    modules: int = 1  # how many modules it begins at
    matched: list[str] = Field(default_factory=list)  # the first of them by name


class OperatorPart(Part):
    """The same for an operator, under the profiler."""

    device_s: float | None = None


class BreakdownFile(Record):
    """What the file beside results.json holds, which is long."""

    seconds_of_audio: float | None = None
    calls: int
    profiled_calls: int
    modules: list[Part]  # numbered layers are one
    modules_unfolded: list[Part]
    operators: list[OperatorPart]

    def all_modules(self, unfolded: bool) -> list[Part]:
        return self.modules_unfolded if unfolded else self.modules


class LabelOverhead(Record):
    """What the labels cost, by labelled calls and bare ones in turns."""

    measured: float | None  # share of a call, in turns with calls without labels; null where calls were too long
    known: float  # share of a call, by the cost of a hook
    hook_s: float
    labelled_s: list[float] = Field(default_factory=list)
    bare_s: list[float] = Field(default_factory=list)
    module_calls: float = 0
    backward_steps: float | None = None
    backward_hook_s: float | None = None


class Breakdown(Record):
    """Where the time, the memory and the operations of a call go. Modules and operators are in `file`."""

    labels: list[Part]
    automatic: bool = True  # the parts that the model says it has, not those that the recipe names
    calls: int
    profiled_calls: int
    call_s: float | None = None
    seconds_of_audio: float | None = None
    overhead: LabelOverhead | None = None  # null: labels were timed in the recording of one's own code
    file: InnerPath
    notes: list[str] = Field(default_factory=list)


class KernelTime(Record):
    """One kernel in a trace."""

    name: str  # shortened
    calls: int
    total_s: float
    share: float  # of the time of all kernels


class GpuUse(Record):
    """What the GPU did in the trace of a cell: shares of a call under the profiler, synchronisation included."""

    utilisation: float | None = None  # a kernel runs
    idle: float  # no kernel, copy or fill
    copying: float  # a copy, and no kernel
    launch_bound: bool
    copies_s: float  # of all copies in the trace, hidden behind kernels or not
    kernels: list[KernelTime] = Field(default_factory=list)  # the first few, most time first
    advice: list[str] = Field(default_factory=list)


class CellResult(Record):
    """One (variant, seconds, batch size)."""

    variant: FileName
    seconds: float = Field(ge=0)  # 0: a call or a step of one's own code, which says no length of audio
    batch_size: int = Field(gt=0)
    status: Literal["ok", "skipped", "failed"]
    reason: str | None = None
    device: str | None = None  # that it was measured on, where that is no CPU: all rounds on the same one
    timed_region: str | None = None
    latency_s: Latency | None = None
    chunks: ChunkLatency | None = None
    device_time_s: DeviceTime | None = None
    rtf: float | None = None
    rtfx: float | None = None
    verdict: Literal["stable", "unstable"] | None = None  # unstable: the 95 % CI is wider than the recipe wants
    disturbances: dict[str, float] = Field(default_factory=dict)  # kind -> the figure that shows it
    verdict_reasons: list[str] = Field(default_factory=list)  # the same in words
    peak_memory_bytes: PeakMemory | None = None
    input: CellInput = Field(default_factory=CellInput)
    conditions: list[Condition] = Field(default_factory=list)  # of the machine, in each round
    energy_j: Energy | None = None
    energy_reason: str | None = None
    operations: Operations | None = None
    operations_reason: str | None = None
    training: StepFigures | None = None
    breakdown: Breakdown | None = None
    breakdown_reason: str | None = None
    trace: InnerPath | None = None
    gpu: GpuUse | None = None  # where there is a trace, made on a GPU
    trace_reason: str | None = None
    figures: dict[str, dict[str, float]] = Field(default_factory=dict)  # of further passes, by name
    figures_reasons: dict[str, str] = Field(default_factory=dict)  # why a further pass has none
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


# -- data sets


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


# -- load


class Times(Record):
    """Seconds, over the requests of a step; percentiles that so many requests support."""

    median: float
    mean: float
    max: float
    percentiles: dict[str, float] = Field(default_factory=dict)

    @classmethod
    def of(cls, samples: list[float]) -> Times | None:
        if not samples:
            return None
        return cls(
            median=statistics.median(samples),
            mean=statistics.fmean(samples),
            max=max(samples),
            percentiles=percentiles(samples),
        )


class RequestCounts(Record):
    """What became of the requests of a step: each is counted once."""

    sent: int = 0
    ok: int = 0
    late: int = 0  # beyond the limit: among them all that are not ok
    errors: int = 0
    timeouts: int = 0
    unfinished: int = 0  # without a result when the step ended
    reasons: dict[str, int] = Field(default_factory=dict)  # of errors and time-outs


class ServingStep(Record):
    """One load: what was sent, what came back, and whether the limit held."""

    scenario: Literal["single_stream", "offline", "server", "streams"]
    load: float | None = None  # requests a second, or live streams; null: as many as go
    round: int | None = None  # of an A/B run, in which both sides took turns at this load
    proof: bool = False  # enough requests to prove the limit, and not a look
    status: Literal["measured", "holds", "exceeds", "not proven", "failed", "interrupted"]
    reason: str | None = None
    requests: RequestCounts = Field(default_factory=RequestCounts)
    more_needed: int | None = None  # requests that would prove the limit, if none of them is late
    seconds: float = 0.0  # from the first request to the last result
    latency_s: Times | None = None  # from when a request was due to its result; errors have none
    queueing_s: Times | None = None  # this and the next two: parts of it, on our side
    batching_s: Times | None = None
    computing_s: Times | None = None
    batch_size: float | None = None  # mean
    throughput: float | None = None  # results a second
    rtf: float | None = None  # median over requests of latency / seconds of audio of the request
    rtfx: float | None = None  # of all: seconds of audio with a result for each second of the step
    utilisation: float | None = None  # share of the time that workers computed
    queue: list[tuple[float, int]] = Field(default_factory=list)  # (seconds, most requests without a result)
    rise_s: float | None = None  # how much latency rose from the start of the step to its end: a backlog
    lateness_s: Times | None = None  # of the load generator: sent after it was due
    generator_late: bool = False
    first_token_s: Times | None = (
        None  # from when a request was due; of live audio, from its first sound; null: text comes at once
    )
    memory_bytes: int | None = None  # of all workers, at most
    energy_per_request_j: float | None = None
    energy_reason: str | None = None
    loadgen: str | None = None  # LoadGen's own verdict, on a step of all its requests
    samples: list[float] = Field(default_factory=list)  # latencies in the order of requests, at most 10,000

    @property
    def tail(self) -> dict[str, float]:
        return self.latency_s.percentiles if self.latency_s else {}


class ServingResult(Record):
    """One variant under load."""

    variant: FileName
    status: Literal["ok", "skipped", "failed", "interrupted"] = "ok"
    reason: str | None = None
    limit_s: float
    percentile: int
    confidence: float
    workers: int | None = None  # null: of a server, which does not say
    threads: int | None = None  # of each
    connections: int | None = None  # to a server, where requests share them
    batch_size: int = 1
    wait_s: float = 0.0
    audio: str | None = None  # what requests are
    chunk_s: float | None = None  # of live streams; null: utterances cut by voice activity
    lookahead_s: float = 0.0
    requests_per_second: float | None = None  # the highest load that was shown to hold the limit
    streams: int | None = None
    steps: list[ServingStep] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)

    def of(self, scenario: str) -> list[ServingStep]:
        return [step for step in self.steps if step.scenario == scenario]


# -- the machine


class Reference(Record):
    """What the reference workload gave: a matrix product bounds arithmetic, a copy bounds memory."""

    gflops: float
    gb_per_s: float
    threads: int | None = None


class NoiseFloor(Record):
    """How far two equal runs on this machine differ by chance, as `doctor` measured it."""

    value: float
    threads: int | None = None
    measured: str | None = None


class Gpu(Record):
    name: str | None = None
    driver: str | None = None
    memory: str | None = None
    uuid: str | None = None
    processes: int = 0  # of others
    clock: str | None = None  # of its SMs, at the start of the run
    highest_clock: str | None = None
    power_limit: str | None = None
    default_power_limit: str | None = None
    temperature: str | None = None
    slowdown_temperature: float | None = None  # °C at which it lowers its clock, as NVML tells
    persistence: str | None = None
    throttle_reasons: str | None = None  # bits, as nvidia-smi gives them
    mig: str | None = None  # whether it is cut into several


class Commit(Record):
    """Of a git repository, and whether files differed from it."""

    version: str | None = None
    commit: str | None = None
    committed: str | None = None
    modified: bool | None = None


class WorkerSettings(Record):
    """How the workers of a variant run."""

    threads: int
    affinity: list[int] = Field(default_factory=list)
    environment: dict[str, str] = Field(default_factory=dict)


class MachineState(Record):
    """What changes while a run goes on. What cannot be read is null."""

    load: tuple[float, float, float] | None = None
    governor: str | None = None
    frequency_mhz: float | None = None
    temperature_c: float | None = None
    steal_s: float | None = None


class SandboxState(Record):
    """What workers were kept from while the run was made: writing outside its folder, connections, signals."""

    in_force: bool
    reason: str | None = None  # why it was not
    landlock: int | None = None  # version of the kernel's interface
    restricts: list[str] = Field(default_factory=list)  # files, network (or TCP alone), signals


class Environment(MachineState):
    """The machine of a run at its start, what is installed, how workers run, and what the machine can do."""

    host: str | None = None
    cpu: str | None = None
    cores: int | None = None
    physical_cores: int | None = None
    memory_bytes: int | None = None
    memory_available_bytes: int | None = None
    memory_limit_bytes: int | None = None
    gpu: list[Gpu] = Field(default_factory=list)
    os: str | None = None
    python: str | None = None
    packages: dict[str, str] = Field(default_factory=dict)
    profiler: Commit | None = None
    repository: Commit | None = None  # that the recipe lies in
    threads: int | None = None  # of the first variant
    device: str | None = None
    sandbox: SandboxState | None = None
    settings: dict[str, WorkerSettings] = Field(default_factory=dict)  # of each variant
    noise_floor: NoiseFloor | None = None
    reference: Reference | None = None
    reference_at_end: Reference | None = None
    references: dict[str, Reference] = Field(default_factory=dict)  # the best, by number of threads
    at_end: MachineState | None = None

    @property
    def commit(self) -> str | None:
        """Of the repository that the recipe lies in, else of the profiler's own."""
        about = self.repository or self.profiler
        return about.commit if about else None


class RunHead(Record):
    """A run without its cells and data sets, which grow with it: what is held in memory while it goes on."""

    results_schema: int = Field(SCHEMA, alias="schema")
    run: Run
    environment: Environment = Field(default_factory=Environment)
    models: list[ModelResult] = Field(default_factory=list)
    accuracy: list[Accuracy] = Field(default_factory=list)

    model_config = ConfigDict(populate_by_name=True)

    def model(self, variant: str) -> ModelResult | None:
        return next((model for model in self.models if model.variant == variant), None)

    @property
    def hardware(self) -> str | None:
        """What the models ran on: the device where torch named one, else the processor."""
        here = self.environment
        used = [model.device.name for model in self.models if model.device is not None]
        gpus = [gpu.name for gpu in here.gpu] if (here.device or "cpu").startswith("cuda") else []
        return next((name for name in [*used, *gpus] if name), here.cpu)

    def rate(self, variant: str) -> int:
        """Samples per second that the variant's model takes."""
        model = self.model(variant)
        return (model.sample_rate if model else None) or 16000

    def timed_region(self, variant: str) -> str:
        model = self.model(variant)
        output = model.output if model else "the model's final output"
        given = "text" if output in SPOKEN else "waveforms"
        if model is not None and model.copy_to_device == "excluded":
            return f"{given} on the device to {output}, the copy to the device excluded"
        copied = ", the copy to the device included" if model is not None and model.copy_to_device else ""
        return f"{given} in memory to {output}{copied}"

    def threads(self, variant: str) -> int | None:
        """CPU threads of a variant."""
        settings = self.environment.settings.get(variant)
        return settings.threads if settings else self.environment.threads


class Results(RunHead):
    """The whole file."""

    cells: list[CellResult] = Field(default_factory=list, max_length=MOST_CELLS)
    datasets: list[DatasetResult] = Field(default_factory=list)
    serving: list[ServingResult] = Field(default_factory=list)

    def cell(self, variant: str, seconds: float, batch_size: int) -> CellResult | None:
        return next((cell for cell in self.cells if cell.key == (variant, seconds, batch_size)), None)

    @property
    def variants(self) -> list[str]:
        return list(dict.fromkeys([*(cell.variant for cell in self.cells), *(one.variant for one in self.serving)]))

    def under_load(self, variant: str) -> ServingResult:
        return next(result for result in self.serving if result.variant == variant)

    @property
    def places(self) -> list[tuple[float, int]]:
        """(seconds, batch size) of all cells, and of those that the recipe asked for and the run has not measured."""
        found = {(cell.seconds, cell.batch_size) for cell in self.cells}
        if not self.run.is_finished:
            rows, columns = self.run.planned("audio_mockup_secs"), self.run.planned("batch_sizes")
            found |= {(seconds, int(batch)) for seconds in rows for batch in columns}
        return sorted(found)

    def baseline(self, variant: str) -> str:
        """What a variant is compared with: the one that it names, else the first."""
        model = self.model(variant)
        named = model.baseline if model else None
        return named if named in self.variants else next(iter(self.variants), variant)

    @property
    def failed(self) -> list[CellResult]:
        return [cell for cell in self.cells if cell.status == "failed"]

    @property
    def has_failures(self) -> bool:
        """A cell, a batch of a data set, or all of one."""
        data = any(found.failed or found.status == "failed" for found in self.datasets)
        return bool(self.failed) or data or any(found.status == "failed" for found in self.serving)
