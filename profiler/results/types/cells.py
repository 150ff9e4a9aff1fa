"""The cells in results.json: what each pass found for one (variant, seconds, batch size).

`CellResult` has a field for the result of each pass; the classes of these results stand above it. What is null was not
measured: `reason`, `energy_reason` and the like say why.
"""

from __future__ import annotations

import statistics
from typing import Any, Literal

from pydantic import Field, field_validator

from profiler.results.statistics import cut, relative_half_width
from profiler.results.types.machine import Condition
from profiler.results.types.record import Record
from profiler.results.untrusted import FileName, InnerPath
from profiler.units import place_text

PHASES = ("forward", "loss", "backward", "optimizer")  # of a training step
LOOP_PHASES = ("data", "compute")  # of a step of one's own loop: waiting for the data loader, and all else
WIDTH = 0.03  # wanted half-width of the 95 % CI, where a recipe does not say


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
