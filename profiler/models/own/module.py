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
from typing import Any

from profiler.errors import ModelError
from profiler.hyperyaml.allowed import find, is_allowed
from profiler.hyperyaml.evaluate import evaluate
from profiler.models.formats import Named
from profiler.models.model import Model, ModelRequest, refuse_unknown
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
    return wrap(module if torch.empty(0).is_meta else module.to(request.device), request)


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
