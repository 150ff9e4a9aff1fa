"""What an adapter is asked for, made of a recipe, and what it gives: the same for every library."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from profiler.errors import ModelError, did_you_mean
from profiler.hyperyaml.values import contains_call, packed, unpacked
from profiler.models.formats import architecture_folder, local_file, local_folder
from profiler.user_path import user_path

if TYPE_CHECKING:
    import torch

    from profiler.audio import Batch
    from profiler.models.websocket import Conversation
    from profiler.recipe.schema import Recipe, Training
    from profiler.runtimes.part import Runtime
    from profiler.training.tasks import Task
    from profiler.variants.graphed import Graphed


def refuse_unknown(overrides: Iterable[str], known: Iterable[str], whose: str) -> None:
    """Raise ModelError for an override that names nothing of the model."""
    for name in overrides:
        if name not in (names := list(known)):
            raise ModelError(f"pretrained_model.overrides: {whose} has no `{name}`.{did_you_mean(name, names)}")


@dataclass(frozen=True)
class ModelRequest:
    """One model of a recipe, ready to be loaded in a worker."""

    source: str
    type: str
    weights: Literal["auto", "pretrained", "random"] = "auto"
    folder: Path | None = None  # the source, where it is a local folder
    file: Path | None = None  # the source, where it is a local file
    architecture: Path | None = None
    overrides: dict[str, Any] = field(default_factory=dict)
    calls: dict[str, Any] = field(default_factory=dict)  # overrides that describe a call, packed for the worker
    input: str = "waveform"
    lengths: str = "fractions"
    mels: int = 80
    sample_rate: int | None = None
    checkpoint: Path | None = None
    base: Path | None = None  # the recipe's folder, from where a user's own module is imported
    base_first: bool = False  # before all installed packages; else after them
    trust: bool = False  # whether the user said --trust: else only what is on the allow list is imported and called
    tokens_per_second: float = 5.3
    prompt: str | None = None
    new_tokens: int | None = None
    seed: int = 0
    device: str = "cpu"
    copy_to_device: Literal["included", "excluded"] = "included"

    @property
    def described(self) -> dict[str, Any]:
        """All overrides, described calls among them."""
        return {**self.overrides, **{name: unpacked(call) for name, call in self.calls.items()}}


def may_download(request: ModelRequest) -> bool:
    """Whether loading may need the network: hub models, bundles, SpeechBrain folders with a backbone from the hub."""
    if request.weights == "random" or request.file is not None or request.type == "Module":
        return False
    return request.folder is None or (request.folder / "hyperparams.yaml").is_file()


def model_request(recipe: Recipe, base: Path, device: str = "cpu", trust: bool = False) -> ModelRequest:
    """The model of a recipe; `base` is the recipe's folder. Looks at folders only."""
    wanted = recipe.pretrained_model
    calls = {name: packed(value) for name, value in wanted.overrides.items() if contains_call(value)}
    return ModelRequest(
        source=wanted.source,
        type=wanted.type,
        weights=wanted.weights,
        folder=local_folder(wanted.source, base),
        file=local_file(wanted.source, base),
        architecture=architecture_folder(wanted.architecture, wanted.source, base),
        overrides={name: value for name, value in wanted.overrides.items() if name not in calls},
        calls=calls,
        input=wanted.input,
        lengths=wanted.lengths,
        mels=wanted.mels,
        sample_rate=wanted.sample_rate,
        checkpoint=user_path(wanted.checkpoint, base).resolve() if wanted.checkpoint else None,
        base=base.resolve(),
        trust=trust,
        tokens_per_second=wanted.tokens_per_second,
        prompt=wanted.prompt,
        new_tokens=wanted.new_tokens,
        seed=recipe.measure.seed,
        device=device,
        copy_to_device=recipe.measure.copy_to_device,
    )


def refuse_longer(batch: Batch, samples: int | None) -> None:
    """A model that takes a fixed time cuts off what is longer; its figures would claim audio that it left out."""
    if samples is not None and batch.waveforms.shape[1] > samples:
        raise ModelError(f"the model takes {samples / batch.rate:g} s at a time and would leave out the rest")


def waveforms_and_lengths(batch: Batch) -> tuple[Any, Any]:
    """A batch in memory, for `prepare`: [batch, samples], and how many samples of each row are audio."""
    import torch

    return torch.from_numpy(batch.waveforms), torch.from_numpy(batch.lengths)


def lengths_where_padded(batch: Batch) -> tuple[Any, Any]:
    """The same, with None in place of lengths where no row is padded."""
    waveforms, lengths = waveforms_and_lengths(batch)
    return waveforms, lengths if bool((lengths < waveforms.shape[1]).any()) else None


def how_pinned(request: ModelRequest, what: str = "decoder") -> str:
    """The note on a search over untrained weights, which by themselves never end a sentence."""
    return (
        f"With random weights the {what} is made to take {request.tokens_per_second:g} steps per second of audio, "
        "as it does on speech."
    )


@dataclass
class Chunks:
    """For a model that takes its audio piece by piece: how long each piece is, and how long each one took.

    `run` appends to `times`; the timing pass empties it after the warm-up and reads it at the end. `stream` works on
    the next piece of what `prepare` gave each time it is asked to, with a state of its own: several streams take turns.
    """

    seconds: float  # of audio that a chunk moves on by
    lookahead: float  # seconds of audio beyond the chunk that must be there before it can be worked on
    times: list[float] = field(default_factory=list)
    stream: Callable[[Any], Iterator[Any]] | None = None


@dataclass
class OwnExport:
    """Files for engines that a model's package brings along: `files`, by engine, compute what `module` does, and `run`
    is the timed region that calls this module, where the usual one calls it in a place that cannot be reached."""

    module: torch.nn.Module
    run: Callable[[Any], Any]
    files: dict[str, Path]


@dataclass
class Model:
    """A loaded model.

    `prepare` turns a batch into what the model's own code takes as waveforms in memory; it is not timed. `run` is the
    timed region: from there to the final output that `output` names. `beside` are modules that `run` calls and that are
    no part of `module`, such as a search over its scores. `trained_by` has a maker of the training task for each loss
    that the model can be trained with, the usual one first; none where it cannot be trained here.
    """

    module: torch.nn.Module
    prepare: Callable[[Batch], Any]
    run: Callable[[Any], Any]
    output: str
    rate: int
    components: dict[str, torch.nn.Module]
    notes: list[str] = field(default_factory=list)
    weights: Literal["pretrained", "as constructed", "random", "no"] = "random"
    chunks: Chunks | None = None
    beside: dict[str, torch.nn.Module] = field(default_factory=dict)
    window: float | None = None  # seconds to which shorter audio is padded, so that it costs the same
    trained_by: dict[str, Callable[[Training], Task]] = field(default_factory=dict)
    to_tokens: Callable[[str], list[int]] | None = None  # a transcript as the target of `trained_by`; None: not known
    graph: Graphed | None = None  # `run`, where calls are recorded on the device and replayed
    file_bytes: int | None = None  # of the file that has its weights, where no module of ours holds them
    runtime: Runtime | None = None  # the engine that runs parts of it
    own_export: OwnExport | None = None  # what its package brings for engines
    talk: Conversation | None = None  # of a server that takes live audio over a websocket: what is said to it
    speech_made: list[float] | None = None  # of a model that speaks: `run` appends the seconds of speech of each call
