"""Adapter for any torch.nn.Module, named by its dotted path: your own model, with no code for the profiler.

    pretrained_model: {source: my_models.Encoder, type: Module, overrides: {width: 256}, checkpoint: encoder.pt}

Installed packages are looked at first, then, with `--trust`, the folder of the recipe. Its weights are those of the
checkpoint, a state dict; without one, those that its constructor makes.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profiler.errors import ModelError
from profiler.hyperyaml.allowed import find, is_allowed
from profiler.hyperyaml.evaluate import evaluate
from profiler.models.formats import Format
from profiler.models.model import Model, ModelRequest, refuse_unknown, waveforms_and_lengths
from profiler.models.reasons import explained, reason
from profiler.models.torchaudio.on_cpu import ensure_torchaudio
from profiler.training import tasks

if TYPE_CHECKING:
    from profiler.recipe.schema import Training

LIBRARY = "torch"
INTERFACES = ("Module",)
FORMAT = Format()
TRAINS = {"Module": ("ctc",)}
EVALUATES = True  # tags in the overrides
RATE = 16000


def load_pretrained(request: ModelRequest, source: str) -> Model:
    import torch

    module = _made(request)
    advice = "Save it as a state dict."
    with explained(f"The checkpoint {source} cannot be read", lambda error: f"{reason(error)}. {advice}"):
        state = torch.load(source, map_location="cpu", weights_only=True)
    if isinstance(state, dict) and isinstance(state.get("state_dict"), dict):
        state = state["state_dict"]
    with explained(f"The checkpoint {source} does not fit {request.source}"):
        module.load_state_dict(state)
    return wrap(module.to(request.device), request)


def build_random(request: ModelRequest, folder: Path | None) -> Model:
    return wrap(_made(request).to(request.device), request)


def _made(request: ModelRequest) -> Any:
    import torch

    found = _class_named(request)
    _check_arguments(found, request)
    made = found(**evaluate(request.described, request.trust))
    if not isinstance(made, torch.nn.Module):
        raise ModelError(f"{request.source} is not a torch.nn.Module")
    return made


def _check_arguments(found: Any, request: ModelRequest) -> None:
    """An argument that the class does not take is the recipe's mistake, not the model's."""
    with contextlib.suppress(TypeError, ValueError):  # no signature, as of a class in C
        parameters = inspect.signature(found).parameters
        if all(each.kind is not each.VAR_KEYWORD for each in parameters.values()):
            refuse_unknown(request.described, parameters, request.source)


def _class_named(request: ModelRequest) -> Any:
    if not request.trust:
        ensure_torchaudio()
        found = find(request.source) if is_allowed(request.source) else None
        if found is None:
            raise ModelError(f"{request.source} would be imported, which runs code; if you trust it, add --trust")
        return found
    module_name, _, name = request.source.rpartition(".")
    if request.trust and request.base is not None and str(request.base) not in sys.path:
        sys.path.insert(0 if request.base_first else len(sys.path), str(request.base))
    try:
        return getattr(_imported(module_name), name)
    except (ImportError, ValueError, AttributeError) as error:
        raise ModelError(
            f"Cannot find the class {request.source}: {error}. Name it package.module.Class, installed or beside the "
            "recipe."
        ) from error


def _imported(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except (OSError, RuntimeError):  # of torchaudio, whose native library does not fit this torch
        ensure_torchaudio()
        return importlib.import_module(name)


def wrap(module: Any, request: ModelRequest) -> Model:
    """A module as a Model. Features are computed in the timed region: it begins with waveforms for every model."""
    import torch

    rate = request.sample_rate or int(getattr(module, "sample_rate", RATE))
    features = None
    if request.input.startswith("features"):
        from profiler.models.features.filterbank import Filterbank

        features = Filterbank(mels=request.mels, rate=rate).to(request.device)
    with_lengths = request.input.endswith("_and_lengths")

    def run(value: tuple[Any, Any]) -> Any:
        waveforms, lengths = (part.to(request.device) for part in value)
        inputs = waveforms if features is None else features(waveforms)
        if not with_lengths:
            return module(inputs)
        # The fraction of a row that is audio, rounded to whole frames where the rows are frames.
        fractions = lengths / waveforms.shape[1]
        if request.lengths == "counts":
            return module(inputs, torch.round(fractions * inputs.shape[1]).long())
        return module(inputs, fractions.float())

    notes = []
    if features is not None:
        notes.append(
            f"The module's input, {request.mels} log-mel features at 100 frames/s, is computed in the timed region."
        )
    beside = {} if features is None else {"features": features}
    model = Model(
        module,
        waveforms_and_lengths,
        run,
        "the module's output",
        rate,
        dict(module.named_children()),
        notes,
        beside=beside,
    )
    model.trained_by = {"ctc": lambda settings: _ctc(model, settings, request.device)}
    return model


def _ctc(model: Model, settings: Training, device: str) -> tasks.Task:
    """CTC on whatever frames the module gives: with an output layer of ours, unless the recipe says it has its own."""

    def encode(value: tuple[Any, Any]) -> tuple[Any, Any]:
        states = tasks.frames_of_output(model.run(value))
        return states, tasks.frames_by_share(value[1], value[0].shape[1], states.shape[1])

    width = tasks.output_width(model)
    return tasks.ctc(encode, width) if settings.head is False else tasks.ctc_with_head(encode, width, settings, device)
