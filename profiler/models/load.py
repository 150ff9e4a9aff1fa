"""Request -> loaded model: decides between pretrained and random weights, and says what was decided.

Runs in a worker process. The order: a local folder or file, the local cache, the hub where it can be reached, random
weights of the described architecture.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from profiler.device import Device
from profiler.errors import ModelError, NotSupported
from profiler.hyperyaml.allowed import unsafe_settings
from profiler.models.formats import HOW_TO_GET
from profiler.models.model import Model, ModelRequest
from profiler.models.registry import Adapter, adapter_for
from profiler.models.torchaudio.on_cpu import ensure_torchaudio

if TYPE_CHECKING:
    from profiler.audio import Batch


def load_model(request: ModelRequest) -> Model:
    """The model that a recipe asks for, in evaluation mode on its device."""
    adapter = _adapter(request)
    reason = "the recipe asks for random weights"
    where = None
    if request.weights != "random":
        found = adapter.FORMAT.find(request)
        where, reason = found.where, found.reason
    if where is None and request.weights == "pretrained":
        raise ModelError(f"No pretrained weights of {request.source}: {reason}. {HOW_TO_GET}.")
    if where is not None:
        model = adapter.load_pretrained(request, where)
        model.weights = "pretrained" if model.weights == "random" else model.weights
    else:
        model = _build_random(adapter, request, reason)
        if request.weights == "auto" and reason:
            model.notes.insert(0, f"{request.source}: {reason}; using random weights of the same architecture.")
    model.module.eval()
    if request.copy_to_device == "excluded" and request.device != "cpu":
        model.prepare = placed(model.prepare, Device(request.device))
    return model


def placed(prepare: Callable[[Batch], Any], device: Device) -> Callable[[Batch], Any]:
    """The same, with what it gives on the device already: moving it there again within a call then costs nothing."""

    def prepare_on_device(batch: Batch) -> Any:
        value, tensors = device.moved(prepare(batch))
        if not tensors:
            raise NotSupported(
                "measure.copy_to_device: excluded: the model's first step (features or tokens) runs on the CPU, so the "
                "copy to the device lies in the middle of a call; leave it at `included`"
            )
        return value

    return prepare_on_device


def build_for_counting(request: ModelRequest) -> Model:
    """The described architecture on the meta device: exact counts, no memory, no time."""
    import torch

    adapter = _adapter(request)
    if adapter.FORMAT.weights_only and (where := adapter.FORMAT.find(request).where):
        return adapter.load_pretrained(request, where)
    ensure_torchaudio()
    for name in ("torchaudio.compliance.kaldi", "torch._dynamo"):
        import_module(name)  # makes a tensor on first import, which must not be a meta one
    with torch.device("meta"):
        return _build_random(adapter, replace(request, device="meta"), "only counted")


def _adapter(request: ModelRequest) -> Adapter:
    """The adapter, where what is asked for may be run. The recipe was checked; this holds whatever way it came here."""
    adapter = adapter_for(request.type)
    if request.calls and not getattr(adapter, "EVALUATES", False):
        raise ModelError(f"pretrained_model.overrides: the interface {request.type} takes plain values, no tags.")
    if not request.trust:
        for _, sentence in unsafe_settings(request.described):
            raise ModelError(f"pretrained_model.overrides: {sentence}.")
        # Whatever a library asks torch.load for: weights are read as weights, and nothing in them is run.
        os.environ.pop("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", None)
        os.environ["TORCH_FORCE_WEIGHTS_ONLY_LOAD"] = "1"
        os.environ["USE_HUB_KERNELS"] = "0"  # of transformers: native code from the hub
    return adapter


def _build_random(adapter: Adapter, request: ModelRequest, reason: str) -> Model:
    import torch

    folder = adapter.FORMAT.description(request, reason)
    torch.manual_seed(request.seed)
    return adapter.build_random(request, folder)
