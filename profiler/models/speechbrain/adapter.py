"""Adapter for SpeechBrain: its inference interfaces, on a hub id or a folder with hyperparams.yaml.

The timed region is the interface's own batch method, from waveforms in memory to what the interface is for.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profiler.errors import ModelError
from profiler.hyperyaml.evaluate import load_checked
from profiler.hyperyaml.outline import RecipeError
from profiler.hyperyaml.read import read_text
from profiler.models.formats import HUB_ID, Folder
from profiler.models.model import Model, ModelRequest, how_pinned, refuse_longer
from profiler.models.placeholder_tokens import PlaceholderTokens
from profiler.models.reasons import reason
from profiler.models.speechbrain.backbones import WEIGHTS, backbones_without_weights, data_on_cpu, network_for_files
from profiler.models.speechbrain.search import PinnedSteps, PlaceholderLabels, start_steps_from_zero
from profiler.models.speechbrain.training import trained_by
from profiler.models.torchaudio.on_cpu import ensure_torchaudio

if TYPE_CHECKING:
    from profiler.audio import Batch

LIBRARY = "speechbrain"
DESCRIPTION_FILE = "hyperparams.yaml"
FORMAT = Folder(LIBRARY, DESCRIPTION_FILE, WEIGHTS)
TRAINS = {"EncoderASR": ("ctc",), "EncoderDecoderASR": ("cross_entropy", "hybrid"), "WhisperASR": ("cross_entropy",)}
EVALUATES = True  # tags in the overrides
MOST_TOKENS = 1 << 16  # of a model that does not say how many it has


@dataclass(frozen=True)
class Interface:
    """One of SpeechBrain's inference classes, and the batch method of it that is timed."""

    file: str  # in speechbrain.inference
    method: str
    output: str
    modules: tuple[str, ...]  # what the method calls; the classes' own MODULES_NEEDED say more, or less
    keys: tuple[str, ...] = ()  # of the description, that the method looks up
    lengths: bool = True  # whether it is told how much of each row is audio


ECAPA = ("compute_features", "mean_var_norm", "embedding_model")

INTERFACES = {
    "EncoderASR": Interface("ASR", "transcribe_batch", "text", ("encoder",)),
    "EncoderDecoderASR": Interface("ASR", "transcribe_batch", "text", ("encoder", "decoder")),
    "WhisperASR": Interface("ASR", "transcribe_batch", "text", ("whisper", "decoder")),
    "SpeakerRecognition": Interface("speaker", "encode_batch", "embedding", ECAPA),
    "EncoderClassifier": Interface(
        "classifiers", "classify_batch", "class scores", (*ECAPA, "classifier"), ("label_encoder",)
    ),
    "VAD": Interface(
        "VAD",
        "get_speech_prob_chunk",
        "speech probabilities",
        ("compute_features", "mean_var_norm", "cnn", "rnn", "dnn"),
    ),
    "SepformerSeparation": Interface(
        "separation",
        "separate_batch",
        "separated waveforms",
        ("encoder", "masknet", "decoder"),
        ("num_spks",),
        lengths=False,
    ),
    "SpectralMaskEnhancement": Interface("enhancement", "enhance_batch", "enhanced waveforms", ("enhance_model",)),
    "WaveformEnhancement": Interface("enhancement", "enhance_batch", "enhanced waveforms", ("enhance_model",)),
}


def load_pretrained(request: ModelRequest, source: str) -> Model:
    """As the class's own `from_hparams` does it, but that the description is checked before it is evaluated."""
    ensure_torchaudio()
    from speechbrain.utils.fetching import LocalStrategy, fetch

    folder = request.folder
    # Nothing is linked or copied into the user's folders.
    how: dict[str, Any] = {"local_strategy": LocalStrategy.NO_LINK}
    online = network_for_files(folder is None)
    with backbones_without_weights(), online as network, _refusing("load", source, request):
        file = fetch(DESCRIPTION_FILE, source=source, savedir=None, **how, **network)
        hparams = load_checked(Path(file), _overrides(request, folder), request.trust)
        hparams["savedir"] = None
        pretrainer = hparams["pretrainer"]
        pretrainer.set_collect_in(None)
        pretrainer.collect_files(default_source=source, **how, **network)
        pretrainer.load_collected()
        interface = _interface(request, hparams)
    return _wrap(interface, request)


def build_random(request: ModelRequest, folder: Path | None) -> Model:
    assert folder is not None
    ensure_torchaudio()
    with backbones_without_weights(even_if_there=True), data_on_cpu(), _refusing("build", str(folder), request):
        hparams = load_checked(folder / DESCRIPTION_FILE, _overrides(request, folder), request.trust)
        interface = _interface(request, hparams)
    return _wrap(interface, request, random=True)


def _interface(request: ModelRequest, hparams: dict[str, Any]) -> Any:
    made = getattr(importlib.import_module(f"speechbrain.inference.{INTERFACES[request.type].file}"), request.type)
    # Parameters are not frozen, so that trainable ones are counted as the model defines them.
    return made(modules=hparams["modules"], hparams=hparams, run_opts={"device": request.device}, freeze_params=False)


@contextmanager
def _refusing(verb: str, source: str, request: ModelRequest) -> Iterator[None]:
    """Say why SpeechBrain refused; a key that an interface looks for in vain means that the model is another one's."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:  # a description may call any library, each with errors of its own
        text = "; ".join(map(str, error.mistakes)) if isinstance(error, RecipeError) else reason(error)
        missing = re.search(r"Need hparams\['(\w+)'\]|SimpleNamespace' object has no attribute '(\w+)'", text)
        if missing:
            why = f"its {DESCRIPTION_FILE} has no `{missing[1] or missing[2]}`"
            raise _no_such(source, request.type, why) from error
        raise ModelError(f"SpeechBrain cannot {verb} {source} as {request.type}: {text}") from error


def _no_such(source: str, kind: str, why: str) -> ModelError:
    return ModelError(f"{source} is no {kind}: {why}. Is {kind} the right type for this model?")


def _overrides(request: ModelRequest, folder: Path | None) -> dict[str, Any]:
    """The recipe's overrides, and the folder's own place for files that a description points to."""
    overrides = request.described
    text = read_text(folder / DESCRIPTION_FILE) if folder is not None else ""
    if "\narchitecture_folder:" in text:
        overrides["architecture_folder"] = str(folder)
    # A published model names itself on the hub as the place of its files. In a copy of it they are beside the file.
    home = re.search(r"(?m)^pretrained_path:\s*([^\s#]+)", text)
    if home and HUB_ID.match(home[1]) and not Path(home[1]).is_dir():
        overrides.setdefault("pretrained_path", str(folder))
    return overrides


def _wrap(interface: Any, request: ModelRequest, random: bool = False) -> Model:
    import torch
    from speechbrain.utils.callchains import lengths_arg_exists

    served = INTERFACES[request.type]
    for name in served.modules:  # SpeechBrain itself notices only when the interface is called
        if name not in interface.mods:
            raise _no_such(request.source, request.type, f"it has no module `{name}`")
    for name in served.keys:
        if not hasattr(interface.hparams, name):
            raise _no_such(request.source, request.type, f"its {DESCRIPTION_FILE} has no `{name}`")
    call = getattr(interface, served.method)
    with_lengths = served.lengths
    if request.type == "SpectralMaskEnhancement":  # it passes lengths on to a mask model that may not take any
        with_lengths = lengths_arg_exists(interface.mods["enhance_model"].forward)
    rate = int(getattr(interface.hparams, "sample_rate", interface.audio_normalizer.sample_rate))
    notes = start_steps_from_zero(interface)
    if "label_encoder" in served.keys:
        _number_nameless_classes(interface.hparams, random, notes)
    pin = None
    if random:
        _number_nameless_tokens(interface)
        pin = PinnedSteps(interface, request.tokens_per_second)
        if pin.searchers:
            notes.append(how_pinned(request))

    longest = getattr(interface.mods["whisper"], "_n_samples", None) if "whisper" in interface.mods else None

    def prepare(batch: Batch) -> tuple[Any, ...]:
        refuse_longer(batch, longest)
        waveforms = torch.from_numpy(batch.waveforms)
        if not with_lengths:
            return (waveforms,)
        return waveforms, torch.from_numpy(batch.lengths / batch.waveforms.shape[1]).float()

    def run(value: tuple[Any, ...]) -> Any:
        if pin is not None:
            pin.seconds = value[0].shape[1] / rate
        result = call(*value)
        return result[0] if served.output == "text" else result  # beside the text there are its token numbers

    model = Model(interface, prepare, run, served.output, rate, _components(interface), notes)
    model.trained_by = trained_by(model, interface, request)
    tokenizer = getattr(interface.hparams, "tokenizer", None)
    if not random and tokenizer is not None and hasattr(tokenizer, "encode_as_ids"):
        model.to_tokens = tokenizer.encode_as_ids
    return model


def _number_nameless_classes(hparams: Any, random: bool, notes: list[str]) -> None:
    """Classes whose names were not loaded get numbers. Of a missing file of labels SpeechBrain itself says nothing."""
    if random:
        hparams.label_encoder = PlaceholderLabels()
    elif not getattr(hparams.label_encoder, "lab2ind", True):
        hparams.label_encoder = PlaceholderLabels()
        notes.append("There are no labels beside the model: its classes are numbered, not named.")


def _number_nameless_tokens(interface: Any) -> None:
    """A tokenizer comes with the weights. One that was not filled cannot decode, and its tokens are numbered."""
    from sentencepiece import SentencePieceProcessor

    if not isinstance(getattr(interface, "tokenizer", None), SentencePieceProcessor):
        return
    try:
        interface.tokenizer.decode_ids([0])
    except IndexError:  # asked for its size instead, it would write to the terminal
        interface.tokenizer = PlaceholderTokens(getattr(interface.hparams, "output_neurons", MOST_TOKENS))


def _components(interface: Any) -> dict[str, Any]:
    """The entries of `modules`; where a single one holds all parameters, its own parts."""
    import torch

    parts = {name: module for name, module in interface.mods.items() if module is not None}
    bearing = [module for module in parts.values() if next(module.parameters(), None) is not None]
    if len(bearing) == 1 and len(list(bearing[0].children())) > 1:
        return dict(bearing[0].named_children())
    # A list cannot be called: it is there to be saved as one file, and what it holds may be entries of their own.
    return dict(sorted(parts.items(), key=lambda item: isinstance(item[1], torch.nn.ModuleList)))
