"""The keys of a recipe: their names, types, defaults and what each is for.

This file is the one description of the format; checks, help and the reference are made from it. Types are strict, so
that `batch_sizes: ["4"]` or `true` is a mistake and not a guess.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from profiler.units import parse_bytes

PositiveSeconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
PositiveCount = Annotated[int, Field(gt=0, le=1_000_000)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*$")]


class Section(BaseModel):
    """Common to all sections: unknown keys are refused, types are strict."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class PretrainedModel(Section):
    """Which model to profile."""

    source: str = Field(min_length=1, description="hub id, local folder, or a bundle's name")
    type: str = Field(min_length=1, description="the interface class, such as EncoderASR or AutoModelForCTC")
    weights: Literal["auto", "pretrained", "random"] = Field(
        "auto",
        description="auto: pretrained where the cache or the hub has them, else random; "
        "pretrained: fail when they cannot be had; random: never touch the network",
    )
    architecture: str | None = Field(
        None,
        description="folder that describes the model when weights cannot be had; "
        "without it, one named like the source is looked for among the shipped ones",
    )
    overrides: dict[str, Any] = Field(
        default_factory=dict,
        description="keys of the model's own configuration to change (hyperparams.yaml or config.json); "
        "for a class, its arguments",
    )
    input: Literal["waveform", "waveform_and_lengths"] = Field(
        "waveform",
        description="for a class: what its forward takes, [batch, samples] alone or with relative lengths [batch]",
    )
    tokens_per_second: PositiveSeconds = Field(
        5.3,
        description="with random weights, how many tokens a decoder is made to produce per second of audio",
    )


class ProfilingDimensions(Section):
    """Which cells to measure, and on what audio."""

    audio_mockup_secs: list[PositiveSeconds] = Field(min_length=1, description="seconds of audio: the rows")
    batch_sizes: list[PositiveCount] = Field(min_length=1, description="recordings in a batch: the columns")
    example_audio: str | None = Field(
        None, description="audio to cut or repeat to each length, relative to the recipe; null: random data"
    )
    triangle_only: bool = Field(False, description="true: skip the heavy corner of the grid")
    export_logs: bool = Field(False, description="true: write a trace for each cell")
    padding: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="spread of lengths in a batch: rows last from (1 - padding) x seconds to seconds",
    )

    @field_validator("example_audio", mode="before")
    @classmethod
    def _none_means_null(cls, value: Any) -> Any:
        # Recipes of the older tool write `None`, which YAML reads as a word.
        return None if value in ("None", "none") else value

    @field_validator("audio_mockup_secs", "batch_sizes")
    @classmethod
    def _each_once(cls, values: list[float]) -> list[float]:
        twice = sorted({value for value in values if values.count(value) > 1})
        if twice:
            raise ValueError(f"{', '.join(f'{value:g}' for value in twice)} stands in the list twice")
        return values


class Measure(Section):
    """How long and how often to measure a cell."""

    warmup: int = Field(2, ge=1, description="calls before the timed ones in every round, discarded")
    min_calls: int = Field(5, ge=5, description="timed calls of a cell in every round, at least")
    max_calls: int = Field(100, ge=5, description="timed calls of a cell in every round, at most")
    rounds: int = Field(3, ge=1, description="how often the run comes back to each cell")
    width: float = Field(
        0.03, gt=0, lt=1, description="wanted width of the 95 % interval of the median, relative to it (+/-)"
    )
    budget: PositiveSeconds = Field(
        10.0, description="seconds of timed calls of a cell after which no more than min_calls are made"
    )
    limit: PositiveSeconds = Field(
        600.0,
        description="a cell that would take longer than this in one round is skipped; one that does is stopped",
    )
    memory: str | int | None = Field(
        None, description="a memory size, such as 8 GB, for which to say the longest audio and the largest batch"
    )
    seed: int = Field(0, ge=0, description="order of cells, pieces of audio, random weights")

    @field_validator("memory")
    @classmethod
    def _is_a_size(cls, value: str | int | None) -> str | int | None:
        if value is not None:
            parse_bytes(value)
        return value


class Schedule(Section):
    """Which steps of the traced pass are written, as in torch.profiler.schedule."""

    wait: int = Field(0, ge=0)
    warmup: int = Field(1, ge=0)
    active: int = Field(1, ge=1)
    repeat: int = Field(1, ge=1)


class Trace(Section):
    """What the traced pass records. Each of these makes traces larger and the traced call slower."""

    shapes: bool = Field(False, description="input shapes of operators")
    stacks: bool = Field(False, description="Python source lines; multiplies the size of a trace")
    memory: bool = Field(True, description="allocations and frees over time")
    schedule: Schedule = Field(default_factory=lambda: Schedule())


class Variant(Section):
    """One way to run the model."""

    name: Name
    threads: PositiveCount | None = Field(None, description="CPU threads of one operation")
    set: dict[str, Any] = Field(default_factory=dict, description="dotted keys of the recipe to change")


class Recipe(Section):
    """The whole file."""

    pretrained_model: PretrainedModel
    profiling_dimensions: ProfilingDimensions
    measure: Measure = Field(default_factory=lambda: Measure())
    trace: Trace = Field(default_factory=lambda: Trace())
    variants: list[Variant] = Field(default_factory=lambda: [Variant(name="float32")], min_length=1)

    @field_validator("variants")
    @classmethod
    def _unique_names(cls, variants: list[Variant]) -> list[Variant]:
        names = [variant.name for variant in variants]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"two variants are named {', '.join(twice)}")
        return variants
