"""Adapter for a TorchScript file: a whole model, weights included, that needs none of its Python code.

    pretrained_model: {source: model.ts, type: TorchScript, input: waveform}

It is a program nevertheless, whose functions can write files: it runs in the sandbox or with `--trust`.

Such a file is made with `torch.jit.trace(model, example).save("model.ts")` or `torch.jit.script(model).save(...)`.
"""

from __future__ import annotations

import warnings

from profiler import sandbox
from profiler.errors import ModelError
from profiler.models.formats import File
from profiler.models.model import Model, ModelRequest
from profiler.models.own.module import wrap

LIBRARY = "torch"
INTERFACES = ("TorchScript",)
FORMAT = File((".pt", ".pth", ".ts", ".jit"), "a TorchScript file")
TRAINS = {"TorchScript": ("ctc",)}


def load_pretrained(request: ModelRequest, source: str) -> Model:
    import torch

    if request.overrides:
        raise ModelError("pretrained_model.overrides: a TorchScript file has no configuration to override.")
    if not request.trust and not sandbox.in_force():
        raise ModelError(
            f"{source} is a program that could write any file, and this system has no sandbox for it "
            "(Landlock, Linux 5.13 and newer). If you trust it, add --trust."
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", (DeprecationWarning, FutureWarning))
            module = torch.jit.load(source, map_location=request.device)
    except (RuntimeError, ValueError) as error:
        raise ModelError(
            f"{source} is no TorchScript file, or a damaged one. Save the whole model with "
            "torch.jit.trace(model, example).save(FILE); for a state dict use type: Module with checkpoint: FILE."
        ) from error
    return wrap(module, request)
