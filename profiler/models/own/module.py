"""Adapter for any torch.nn.Module, named by its dotted path: your own model, with no code for the profiler.

    pretrained_model: {source: my_models.Encoder, type: Module, overrides: {width: 256}, checkpoint: encoder.pt}

Installed packages are looked at first, then, with `--trust`, the folder of the recipe. Its weights are those of the
checkpoint, a state dict; without one, those that its constructor makes.
"""

from __future__ import annotations

import importlib
import sys
import traceback
from pathlib import Path
from typing import Any

from profiler.errors import ModelError
from profiler.hyperyaml.allowed import find, is_allowed
from profiler.hyperyaml.evaluate import evaluate
from profiler.models.formats import Named
from profiler.models.model import Model, ModelRequest
from profiler.models.own.inputs import load_state, wrap
from profiler.models.torchaudio.on_cpu import ensure_torchaudio

LIBRARY = "torch"
FORMAT = Named()
NEEDS = None
TRAINS = {"Module": ("ctc",)}
EVALUATES = True  # tags in the overrides


def interfaces() -> tuple[str, ...]:
    return ("Module",)


def load_pretrained(request: ModelRequest, source: str) -> Model:
    module = _made(request)
    load_state(module, request, source)
    return wrap(module.to(request.device), request)


def build_random(request: ModelRequest, folder: Path | None) -> Model:
    import torch

    module = _made(request)
    model = wrap(module if torch.empty(0).is_meta else module.to(request.device), request)
    if request.weights != "random":  # which is the recipe's word for it: the class may load its own
        model.weights = "as constructed"
    return model


def _made(request: ModelRequest) -> Any:
    import torch

    made = _class_named(request)(**evaluate(request.described, request.trust))
    if not isinstance(made, torch.nn.Module):
        raise ModelError(f"{request.source} is not a torch.nn.Module")
    return made


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
