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
import traceback
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
NESTED = ("model", "model_state", "model_state_dict", "state_dict", "module", "net", "weights")
PREFIXES = ("module.", "_orig_mod.", "model.")  # of DistributedDataParallel, torch.compile, Lightning


def load_pretrained(request: ModelRequest, source: str) -> Model:
    import torch

    module = _made(request)
    advice = "Save it as a state dict."
    with explained(f"The checkpoint {source} cannot be read", lambda error: f"{reason(error)}. {advice}"):
        state = torch.load(source, map_location="cpu", weights_only=True)
    wanted = module.state_dict()
    found = best_fit(state, set(wanted))
    misfit = f"The checkpoint {source} does not fit {request.source}"
    with explained(misfit, lambda error: f"{reason(error)} {_held(state, found, wanted)}"):
        module.load_state_dict(found)
    return wrap(module.to(request.device), request)


def best_fit(state: Any, wanted: set[str]) -> Any:
    """The part of a checkpoint whose names fit a model best: itself or under a usual key, with or without a prefix."""
    parts = [state]
    for part in parts:  # grows while it is walked; a checkpoint is not deep
        if isinstance(part, dict) and len(parts) < 50:
            parts += [part[name] for name in NESTED if isinstance(part.get(name), dict)]
            names = [name for name in part if isinstance(name, str)]
            parts += [
                {name.removeprefix(prefix): value for name, value in part.items()}
                for prefix in PREFIXES
                if names and all(name.startswith(prefix) for name in names)
            ]
    return max(parts, key=lambda part: len(wanted & set(part)) if isinstance(part, dict) else -1)


def _held(state: Any, found: Any, wanted: dict[str, Any]) -> str:
    """What the file has, and what the class wants, by their first names."""
    if not isinstance(state, dict):
        return f"The file holds a {type(state).__name__}, and no state dict."
    outer = "" if found is state else f" under {', '.join(map(str, list(state)[:5]))}"
    return (
        f"The file holds {len(found)} entries{outer}, such as {', '.join(map(str, list(found)[:3]))}; the class has "
        f"{len(wanted)}, such as {', '.join(list(wanted)[:3])}."
    )


def build_random(request: ModelRequest, folder: Path | None) -> Model:
    model = wrap(_made(request).to(request.device), request)
    if request.weights != "random":  # which is the recipe's word for it: the class may load its own
        model.weights = "as constructed"
    return model


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
        if (place := _place(error)) is not None:  # it was found, and something in it failed
            raise ModelError(
                f"{request.source} cannot be imported: {type(error).__name__}: {error} ({place})."
            ) from error
        raise ModelError(
            f"Cannot find the class {request.source}: {error}. Name it package.module.Class, installed or beside the "
            "recipe."
        ) from error
    except Exception as error:  # whatever a user's file raises while it is imported
        raise ModelError(
            f"{request.source} cannot be imported: {type(error).__name__}: {error} ({_place(error) or 'no line'})."
        ) from error


def _place(error: BaseException) -> str | None:
    """The last line of an imported file that an error went through: 'my_models.py, line 3'."""
    found = None
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}, line {error.lineno}"
    for frame in traceback.extract_tb(error.__traceback__):
        if not frame.filename.startswith("<") and "importlib" not in frame.filename and frame.filename != __file__:
            found = f"{frame.filename}, line {frame.lineno}"
    return found


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
