"""The model of each variant in results.json: where it is from, its parameters, what was converted, how it is trained.

A variant has one `ModelResult` for all its cells.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from profiler.results.types.machine import DeviceFacts
from profiler.results.types.record import Record
from profiler.results.untrusted import FileName


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
