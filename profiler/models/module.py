"""Adapter for any torch.nn.Module, named by its dotted path: your own model, with no code for the profiler.

    pretrained_model: {source: my_models.Encoder, type: Module, overrides: {width: 256}}

The module is looked for beside the recipe first. Its weights are those that its constructor makes.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profiler.errors import ModelError
from profiler.models.model import Model, ModelRequest
from profiler.recipe.calls import evaluate

if TYPE_CHECKING:
    from profiler.audio import Batch

LIBRARY = "torch"
DESCRIPTION_FILE = None
RATE = 16000


def interfaces() -> tuple[str, ...]:
    return ("Module",)


def has_weights(folder: Path) -> bool:
    return False


def load_pretrained(request: ModelRequest, source: str) -> Model:
    raise ModelError(f"{request.source} is a class and comes without weights; use weights: random")


def build_random(request: ModelRequest, folder: Path | None) -> Model:
    import torch

    made = _class_named(request)(**evaluate(request.overrides))
    if not isinstance(made, torch.nn.Module):
        raise ModelError(f"{request.source} is not a torch.nn.Module")
    module: Any = made.to(request.device)
    rate = int(getattr(module, "sample_rate", RATE))

    def prepare(batch: Batch) -> tuple[Any, ...]:
        waveforms = torch.from_numpy(batch.waveforms)
        if request.input == "waveform":
            return (waveforms,)
        return waveforms, torch.from_numpy(batch.lengths / batch.waveforms.shape[1]).float()

    def run(value: tuple[Any, ...]) -> Any:
        return module(*(part.to(request.device) for part in value))

    return Model(module, prepare, run, "the module's output", rate, dict(module.named_children()))


def _class_named(request: ModelRequest) -> Any:
    module_name, _, name = request.source.rpartition(".")
    if request.base is not None and str(request.base) not in sys.path:
        sys.path.insert(0, str(request.base))
    try:
        return getattr(importlib.import_module(module_name), name)
    except (ImportError, ValueError, AttributeError) as error:
        raise ModelError(
            f"Cannot find the class {request.source}: {error}. Name it package.module.Class, installed or beside the "
            "recipe."
        ) from error
