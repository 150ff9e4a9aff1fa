"""The keys of a recipe: their names, types, defaults and what each is for.

This file is the one description of the format; checks, help and the reference are made from it. Types are strict, so
that `batch_sizes: ["4"]` or `true` is a mistake and not a guess.
"""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, field_validator, model_validator

from profiler.errors import did_you_mean
from profiler.hyperyaml.values import written
from profiler.results.untrusted import LONGEST_NAME, NAME
from profiler.runtimes import ENGINES, engine
from profiler.units import parse_bytes

PositiveSeconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
PositiveCount = Annotated[int, Field(gt=0, le=1_000_000)]
Settings = Annotated[dict[str, Any], PlainSerializer(written, when_used="json")]  # may hold described calls
MOST_CELLS = 100_000  # of a run; each takes seconds
Name = Annotated[str, Field(pattern=NAME, max_length=LONGEST_NAME)]


class Section(BaseModel):
    """Common to all sections: unknown keys are refused, types are strict."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class PretrainedModel(Section):
    """Which model to profile."""

    source: str = Field(min_length=1, description="hub id, local folder, or a bundle's name")
    type: str = Field(
        min_length=1,
        description="the interface class, such as EncoderASR or AutoModelForCTC; auto: found by looking at the model's "
        "name and files; an adapter file (.py): a model of any library, in an environment of its own",
    )
    weights: Literal["auto", "pretrained", "random"] = Field(
        "auto",
        description="auto: pretrained where the cache or the hub has them, else random; "
        "pretrained: fail when they are not available; random: never touch the network",
    )
    architecture: str | None = Field(
        None,
        description="folder that describes the model when weights are not available; "
        "without it, one named like the source is looked for among the shipped ones",
    )
    overrides: Settings = Field(
        default_factory=dict,
        description="keys of the model's own configuration to change (hyperparams.yaml or config.json); "
        "for a class, its arguments; for an adapter file, further arguments of its load",
    )
    input: Literal["waveform", "waveform_and_lengths", "features", "features_and_lengths"] = Field(
        "waveform",
        description="for a class or a file: what its forward takes, [batch, samples] or log-mel "
        "[batch, frames, mels], alone or with lengths [batch]",
    )
    lengths: Literal["fractions", "counts"] = Field(
        "fractions", description="how lengths are given: as fractions of the longest row, or as whole samples or frames"
    )
    mels: PositiveCount = Field(80, description="log-mel features of a frame, where the input is features")
    sample_rate: PositiveCount | None = Field(
        None, description="of a class or a file; null: its attribute sample_rate, else 16000"
    )
    checkpoint: str | None = Field(
        None, description="for a class: file with its state dict; null: the weights that its constructor makes"
    )
    tokens_per_second: PositiveSeconds = Field(
        5.3,
        description="with random weights, how many tokens a decoder is made to produce per second of audio",
    )
    prompt: str | None = Field(
        None,
        description="what a language model that processes speech is asked, through its own chat template; null: for a "
        "transcript",
    )
    new_tokens: PositiveCount | None = Field(
        None, description="most tokens that a decoder may write for a recording; null: as the model's own settings say"
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
        twice = sorted(value for value, count in Counter(values).items() if count > 1)
        if twice:
            raise ValueError(f"{', '.join(f'{value:g}' for value in twice)} stands in the list twice")
        return values


class Measure(Section):
    """How long and how often to measure a cell."""

    rounds: int = Field(
        10,
        ge=1,
        description="visits of the run to each cell at least, each in a process of its own, or as many as fit in six "
        "times budget where calls are long; from 6 on there is a 95 % CI, and the run goes on with the cells whose CI "
        "is wider than width while there is budget",
    )
    warmup: int = Field(
        2,
        ge=1,
        description="calls before the timed ones in every round, discarded; 1 if they are long, none after the first "
        "round if they are longer",
    )
    min_calls: int = Field(1, ge=1, description="timed calls of a round, at least")
    max_calls: int = Field(
        5, ge=1, description="timed calls of a round, at most; more rounds tell more than more calls"
    )
    width: float = Field(
        0.03, gt=0, lt=1, description="wanted half-width of the 95 % CI of a cell's latency, relative to it (+/-)"
    )
    budget: PositiveSeconds = Field(
        10.0,
        description="seconds of timing for each cell, warm-up included; what stable cells leave over goes to others, "
        "and a run with a CI lasts at least as long as one of six cells",
    )
    limit: PositiveSeconds = Field(
        600.0,
        description="a cell that would take longer than this in one round is skipped; one that does is stopped",
    )
    memory: str | int | None = Field(
        None, description="a memory size, such as 8 GB, for which to say the longest audio and the largest batch"
    )
    seed: int = Field(0, ge=0, description="order of cells, pieces of audio, random weights")
    copy_to_device: Literal["included", "excluded"] = Field(
        "included",
        description="whether the timed region of a run on a GPU begins with the waveforms in the machine's memory, or "
        "after they have been copied to the device; on a CPU there is no copy",
    )
    operations: bool = Field(True, description="count multiply-accumulates of each cell, in one call more")
    energy: bool = Field(True, description="measure energy where the machine has a sensor, in a pass of its own")
    watts: PositiveSeconds | None = Field(
        None,
        description="mean power while the model runs, read from a meter, powertop or jtop, where there is no sensor",
    )
    idle_watts: PositiveSeconds | None = Field(None, description="power of the idle machine, beside watts or powertop")
    powertop: str | None = Field(None, description="a report of powertop --csv, to take the power from")

    @property
    def power_is_given(self) -> bool:
        """Whether energy follows from a power that the user read elsewhere."""
        return not (self.watts is None and self.idle_watts is None and self.powertop is None)

    @model_validator(mode="after")
    def _calls_in_order(self) -> Measure:
        if self.min_calls > self.max_calls:
            raise ValueError(f"min_calls: {self.min_calls} is more than max_calls: {self.max_calls}")
        return self

    @field_validator("memory")
    @classmethod
    def _is_a_size(cls, value: str | int | None) -> str | int | None:
        if value is not None:
            parse_bytes(value)
        return value


class TraceSchedule(Section):
    """Which steps of the traced pass are written, as in torch.profiler.schedule."""

    wait: int = Field(0, ge=0, description="calls before the profiler is at work")
    warmup: int = Field(1, ge=0, description="calls under the profiler that are not written")
    active: int = Field(1, ge=1, description="calls that are written")
    repeat: int = Field(1, ge=1, description="how often all that is done; a trace each time")


Labels = dict[str, str | list[str]]


class Trace(Section):
    """Which parts of the model are told apart, and what the traced pass records; the latter makes traces larger."""

    labels: Labels = Field(
        default_factory=dict,
        description="names for parts of the model, each with a pattern of module names, such as "
        "{encoder: encoder, self_attn: '*.self_attn'}; empty: the parts that the model says it has",
    )
    breakdown: bool = Field(True, description="time, memory and operations of each label, module and operator")

    shapes: bool = Field(False, description="input shapes of operators")
    stacks: bool = Field(False, description="Python source lines; multiplies the size of a trace")
    memory: bool = Field(True, description="allocations and frees over time")
    schedule: TraceSchedule = Field(default_factory=lambda: TraceSchedule())

    @field_validator("labels", mode="before")
    @classmethod
    def _names_with_patterns(cls, labels: Any) -> Any:
        for name, given in labels.items() if isinstance(labels, dict) else ():
            patterns = given if isinstance(given, list) else [given]
            if not isinstance(name, str) or not name.strip() or name.startswith("(") or "|" in name:
                raise ValueError(f"a label needs a name that starts with no bracket and has no `|`, got {name!r}")
            if not patterns or not all(isinstance(pattern, str) and pattern for pattern in patterns):
                raise ValueError(
                    f"expected for `{name}` a pattern of module names, such as '*.self_attn', or a list of them, "
                    f"got {given!r}"
                )
        return labels


class FineTuning(Section):
    """How quantize: qat trains a copy of the model before it is measured."""

    source: str = Field(
        min_length=1,
        description="a manifest with audio and transcripts, as dataset.source; none of it may be in the set that is "
        "scored",
    )
    steps: PositiveCount = Field(100, description="steps of training")
    batch_size: PositiveCount = Field(8, description="utterances in a step")
    learning_rate: PositiveSeconds = Field(1e-4, description="of AdamW, the same in every step")
    seed: int = Field(0, ge=0, description="of the order of utterances, and of dropout")


class Variant(Section):
    """One way to run the model."""

    name: Name = Field(description="letters, digits and . _ + -; a folder of the run is named so")
    runtime: Literal["torch", "onnxruntime", "openvino", "aot_inductor", "executorch", "ctranslate2"] = Field(
        "torch",
        description="the engine that runs the model's largest modules, exported for it; all else stays in torch. "
        "ctranslate2: Whisper, with its search",
    )
    quantize: Literal["dynamic", "static", "weight_only", "qat"] | None = Field(
        None,
        description="int8 weights; dynamic: activations too, scaled call by call; static: scaled once, by the sample "
        "speech; weight_only: activations stay in float; qat: dynamic, after quantisation-aware training of a copy",
    )
    qat: FineTuning | None = Field(None, description="with quantize: qat, what the copy is trained on and for how long")
    layers: Literal["linear", "linear_and_recurrent"] = Field(
        "linear", description="which layers quantize touches; recurrent ones (LSTM, GRU) only with dynamic"
    )
    engine: Literal["x86", "fbgemm", "qnnpack", "onednn"] | None = Field(
        None, description="whose int8 kernels dynamic and static use; null: those that torch takes on this machine"
    )
    precision: Literal["float32", "bfloat16", "float16"] | None = Field(None, description="of weights and activations")
    compile: bool = Field(False, description="true: torch.compile on the parts of the model that are called")
    cuda_graph: bool = Field(
        False,
        description="true: each cell's call is recorded as a graph of the device and replayed, one launch for all "
        "kernels; for models that give numbers, on CUDA, ROCm or XPU",
    )
    attention: Literal["sdpa", "math", "eager"] | None = Field(
        None,
        description="sdpa: torch's fused kernels; math: the same function without them; "
        "eager: the library's own steps, where it has them",
    )
    memory_format: Literal["channels_last"] | None = Field(
        None, description="order of the weights of two-dimensional convolutions in memory"
    )
    threads: PositiveCount | None = Field(None, description="CPU threads of one operation")
    python: str | None = Field(
        None,
        description="another interpreter, such as ../old/.venv/bin/python, that has the profiler installed; for an "
        "adapter file the model's library alone",
    )
    path: str | None = Field(None, description="a folder that is put first for the code of the model")
    baseline: Name | None = Field(
        None, description="the variant that ratios of this one are to; null: the first variant"
    )
    set: Settings = Field(default_factory=dict, description="dotted keys of the recipe to change")

    def _check_engine(self) -> None:
        set_here: dict[str, Any] = {
            "compile": self.compile,
            "cuda_graph": self.cuda_graph,
            "attention": self.attention,
            "memory_format": self.memory_format,
        }
        set_here |= {"engine": self.engine, "layers": self.layers if self.layers != "linear" else None}
        for name, value in set_here.items():
            if value:
                raise ValueError(f"{name} is for torch and does not go with runtime: {self.runtime}")
        own = engine(self.runtime)
        if self.quantize is not None and self.quantize not in own.QUANTIZES:
            raise ValueError(self._of_engines("quantize", self.quantize, "QUANTIZES"))
        if self.precision is not None and self.precision not in own.PRECISIONS:
            raise ValueError(self._of_engines("precision", self.precision, "PRECISIONS"))

    def _of_engines(self, name: str, value: str, offered: str) -> str:
        """Why a setting does not go with this engine, and which one has it."""
        having = [other for other in ENGINES if value in getattr(engine(other), offered)]
        which = f"of the engines, {' and '.join(having)} {'has' if len(having) == 1 else 'have'} {name}: {value}"
        return f"{name}: {value} does not go with runtime: {self.runtime}; {which if having else 'no engine has it'}"

    @model_validator(mode="after")
    def _goes_together(self) -> Variant:
        recurrent = self.layers == "linear_and_recurrent"
        if self.runtime != "torch":
            self._check_engine()
        if self.quantize is not None and self.precision in ("bfloat16", "float16"):
            raise ValueError(
                f"quantize starts from float32 weights and does not go with precision: {self.precision}; "
                "make two variants of them"
            )
        if (self.quantize == "qat") != (self.qat is not None):
            raise ValueError(
                "quantize: qat and the section qat go together, such as "
                "{quantize: qat, qat: {source: speech.csv, steps: 100}}"
            )
        if recurrent and self.quantize != "dynamic":
            raise ValueError(
                "layers: linear_and_recurrent needs quantize: dynamic; nothing else has int8 recurrent layers"
            )
        if self.engine is not None and self.quantize not in ("dynamic", "static"):
            raise ValueError(
                f"engine: {self.engine} needs quantize: dynamic or static; nothing else runs on an int8 engine"
            )
        if self.compile and self.quantize in ("static", "qat"):
            raise ValueError(
                f"compile does not go with quantize: {self.quantize}, whose layers torch.compile cannot see into"
            )
        if self.compile and self.quantize == "dynamic" and (recurrent or self.engine is not None):
            raise ValueError(
                "compile with quantize: dynamic converts linear layers alone and makes its own kernels; "
                "leave out layers and engine"
            )
        return self


class Dataset(Section):
    """Real lengths, measured in batches beside the grid, as training and evaluation draw them."""

    source: str = Field(
        min_length=1,
        description="a manifest (CSV, JSON lines, lhotse, Kaldi), a folder of audio (with LibriSpeech's transcripts), "
        "a Hugging Face data set on disk, or a file of shapes",
    )
    format: Literal["auto", "csv", "jsonl", "lhotse", "kaldi", "folder", "huggingface", "shapes"] = Field(
        "auto", description="what the source is; auto: told from its name and its first lines"
    )
    order: Literal["corpus", "shuffled", "sorted"] = Field(
        "corpus", description="of utterances before they are put in batches; sorted: by length, shortest first"
    )
    batch_size: PositiveCount | None = Field(None, description="utterances in a batch; 1 where nothing else is said")
    batch_seconds: PositiveSeconds | None = Field(
        None, description="instead of batch_size: up to so many seconds of audio in a batch, padding included"
    )
    batch_frames: PositiveCount | None = Field(
        None, description="instead of batch_size: up to so many frames in a batch, padding included"
    )
    frames_per_second: PositiveSeconds = Field(100.0, description="how many frames a second has, for batch_frames")
    limit: PositiveCount | None = Field(
        None, description="at most so many utterances, in whole batches spread evenly over their lengths; null: all"
    )
    rounds: PositiveCount = Field(3, description="how often each batch is timed")
    seed: int = Field(0, ge=0, description="of the shuffled order, and of the intervals of error rates")
    on_error: Literal["fail", "skip"] = Field(
        "fail", description="entries that cannot be used; fail: nothing is run, skip: they are counted and named"
    )
    transcripts: Literal["score", "ignore"] = Field(
        "score",
        description="score: where the set has transcripts and the model writes text, word and character error rates; "
        "ignore: audio and lengths alone",
    )
    normalise: Literal["none", "basic", "english"] = Field(
        "basic",
        description="of both texts before they are compared; basic: lower case, no punctuation; "
        "english: also numbers, spelling and contractions, as the open leaderboards do it",
    )

    @model_validator(mode="after")
    def _one_way_to_batch(self) -> Dataset:
        given = [name for name in ("batch_size", "batch_seconds", "batch_frames") if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)} contradict each other; keep one")
        if self.limit is not None and self.limit < (self.batch_size or 1):
            raise ValueError(f"limit: {self.limit} is less than one batch (batch_size: {self.batch_size})")
        return self


class Training(Section):
    """What a training step is made of, with mode: training."""

    loss: Literal["auto", "ctc", "cross_entropy", "hybrid", "transducer", "pruned_transducer"] = Field(
        "auto", description="what is minimised; auto: what the model is made for"
    )
    transducer_library: Literal["auto", "torchaudio", "warprnnt_numba", "torch"] = Field(
        "auto",
        description="whose transducer loss is run; auto: torchaudio's where its native library loads, else on a GPU "
        "warprnnt_numba's, else the one in plain torch that comes with the profiler",
    )
    optimizer: Literal["adamw", "adam", "sgd"] = Field("adamw", description="torch's own, with its defaults")
    learning_rate: PositiveSeconds = Field(1e-4, description="the same in every step")
    clip_norm: PositiveSeconds | None = Field(
        5.0, description="gradients are scaled down to this norm; null: they are not"
    )
    precision: Literal["float32", "bfloat16"] = Field(
        "float32", description="of the forward pass; bfloat16: by autocast, weights and loss stay in float32"
    )
    targets_per_second: PositiveSeconds = Field(
        5.3, description="tokens of a target per second of audio, where no data set says how many there are"
    )
    vocabulary: Annotated[int, Field(ge=2, le=1_000_000)] = Field(
        500, description="tokens of the output layer that is added where a model has none, the blank included"
    )
    head: bool | None = Field(
        None,
        description="for a class or a TorchScript file; false: its output is scores of tokens, the first one the "
        "blank; else a linear output layer is added",
    )


Scenario = Literal["single_stream", "offline", "server", "streams"]


def _scenarios() -> list[Scenario]:
    return ["single_stream", "server"]


class Batching(Section):
    """How requests are put in batches."""

    size: Annotated[int, Field(ge=1, le=256)] = Field(1, description="requests in a batch, at most")
    wait: Annotated[float, Field(ge=0, le=60)] = Field(
        0.0, description="seconds for which a request waits for a fuller batch while a worker is free"
    )


class LoadSearch(Section):
    """How the highest load is searched for."""

    steps: PositiveCount = Field(10, description="loads that are tried, at most")
    precision: Annotated[float, Field(gt=0, lt=1)] = Field(
        0.1, description="the search ends where the next load would be nearer than this, relative to it"
    )
    requests: PositiveCount = Field(
        64, description="requests of a step that looks; one that proves has as many as the percentile needs"
    )


class Outside(Section):
    """What a server that runs already may be burdened with; it may be somebody's."""

    rate: PositiveSeconds = Field(description="requests a second, at most")
    seconds: PositiveSeconds = Field(description="of load on the server in all")


class Serving(Section):
    """The load, with mode: serving."""

    scenarios: list[Scenario] = Field(
        default_factory=_scenarios,
        min_length=1,
        description="single_stream: one request after another; offline: all at once; server: they arrive at random "
        "(Poisson); streams: live speakers",
    )
    latency: PositiveSeconds = Field(1.0, description="limit of the latency of a request, or of the delay of a chunk")
    percentile: Annotated[int, Field(ge=50, le=99)] = Field(99, description="per cent of requests that must keep it")
    loads: list[PositiveSeconds] = Field(
        default_factory=list, description="requests a second to measure; empty: the highest that holds is searched for"
    )
    streams: list[PositiveCount] = Field(
        default_factory=list, description="numbers of live speakers to measure; empty: the largest is searched for"
    )
    search: LoadSearch = Field(default_factory=lambda: LoadSearch())
    workers: Annotated[int, Field(ge=1, le=256)] = Field(1, description="processes that hold the model")
    threads: PositiveCount | None = Field(
        None,
        description="CPU threads of each worker; null: as without load for one worker, else CPUs / workers",
    )
    batch: Batching = Field(default_factory=lambda: Batching())
    outside: Outside | None = Field(
        None, description="for a server that runs already: the most load that it is given; must be set for one"
    )
    timeout: PositiveSeconds = Field(30.0, description="seconds after which a client gives up; it counts as late")
    seconds: PositiveSeconds = Field(120.0, description="a step lasts no longer")
    most_requests: PositiveCount = Field(
        2000, description="a step that is to prove the limit sends no more; one without a late request needs 459 at p99"
    )

    @field_validator("scenarios")
    @classmethod
    def _each_once(cls, scenarios: list[Scenario]) -> list[Scenario]:
        if len(set(scenarios)) < len(scenarios):
            raise ValueError("a scenario stands in the list twice")
        return scenarios


class Recipe(Section):
    """The whole file."""

    pretrained_model: PretrainedModel
    profiling_dimensions: ProfilingDimensions
    mode: Literal["inference", "training", "serving"] = Field(
        "inference",
        description="training: whole steps are measured, of forward, loss, backward and optimizer; serving: requests "
        "as they arrive, or live speakers, in place of the grid",
    )
    training: Training = Field(default_factory=lambda: Training(), description="what a training step is made of")
    serving: Serving = Field(default_factory=lambda: Serving(), description="the load, and the limit that is to hold")
    measure: Measure = Field(default_factory=lambda: Measure())
    trace: Trace = Field(default_factory=lambda: Trace())
    dataset: Dataset | None = Field(None, description="real lengths to measure beside the grid")
    variants: list[Variant] = Field(default_factory=lambda: [Variant(name="float32")], min_length=1, max_length=100)

    @property
    def has_engines(self) -> bool:
        """Whether a variant is run by another engine than torch."""
        return any(variant.runtime != "torch" for variant in self.variants)

    @model_validator(mode="after")
    def _can_be_measured(self) -> Recipe:
        grid = self.profiling_dimensions
        cells = len(grid.audio_mockup_secs) * len(grid.batch_sizes) * len(self.variants)
        if cells > MOST_CELLS:
            raise ValueError(
                f"the grid has {cells:,} cells (audio_mockup_secs x batch_sizes x variants), and a run at most "
                f"{MOST_CELLS:,}; shorten the lists"
            )
        return self

    @field_validator("variants")
    @classmethod
    def _unique_names(cls, variants: list[Variant]) -> list[Variant]:
        names = [variant.name for variant in variants]
        twice = sorted(name for name, count in Counter(names).items() if count > 1)
        if twice:
            raise ValueError(f"two variants are named {', '.join(twice)}")
        for variant in variants:
            others = [name for name in names if name != variant.name]
            if variant.baseline is not None and variant.baseline not in others:
                wrong = "no baseline of itself" if variant.baseline == variant.name else "not there"
                known = did_you_mean(variant.baseline, others)
                raise ValueError(f"the baseline of {variant.name}, `{variant.baseline}`, is {wrong}.{known}")
        return variants
