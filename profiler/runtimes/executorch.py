"""ExecuTorch with the XNNPACK backend, the engine of phones: a .pte for one shape.

Its pool of threads is the process's own, made when its library is loaded, and set to the number asked for.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profiler.runtimes.base import EngineCall, Options, Settings, TensorInfo, precision_of

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram

SUFFIX = ".pte"
PACKAGES = ("executorch",)
DYNAMIC = False
PRECISIONS = ("float32",)
QUANTIZES = ()
PROFILE = TIMELINE = "ExecuTorch's package is built without its profiler"


def export(program: ExportedProgram, file: Path, options: Options) -> None:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge_transform_and_lower

    lowered = to_edge_transform_and_lower(_in_order(program), partitioner=[XnnpackPartitioner()])
    with file.open("wb") as sink:
        lowered.to_executorch().write_to_file(sink)


def _in_order(program: ExportedProgram) -> ExportedProgram:
    """With inputs that lie in memory as their dimensions are named: the file is for the order of the example alone, and
    a transposed one, as libraries give between layers, would be another shape to it."""
    import torch

    given = [value for value in program.example_inputs[0] if isinstance(value, torch.Tensor)]
    ordered = [torch.empty(value.shape, dtype=value.dtype).copy_(value) for value in given]
    if all(one.stride() == other.stride() for one, other in zip(given, ordered, strict=True)):
        return program
    return torch.export.export(program.module(), tuple(ordered), strict=False)


def options(options: Options) -> str:
    return ""


def load(file: Path, options: Options) -> ExecuTorchSession:
    return ExecuTorchSession(file, options)


class ExecuTorchSession:
    """A program, loaded, with the process's pool of threads."""

    def __init__(self, file: Path, options: Options) -> None:
        self._library = _library()
        self._library._unsafe_reset_threadpool(options.threads)
        self._program = self._library._load_for_executorch(str(file))
        about = self._program.method_meta("forward")
        self.inputs = [_info(about.input_tensor_meta(number), number) for number in range(about.num_inputs())]
        self.outputs = [_info(about.output_tensor_meta(number), number) for number in range(about.num_outputs())]

    def run(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        # Copied, for what it gives lies in memory of its own that the next call writes to.
        import torch

        given = [torch.empty(tensor.shape, dtype=tensor.dtype).copy_(tensor) for tensor in tensors]
        return [value.clone() for value in self._program.forward(given)]

    def describe(self) -> Settings:
        return Settings(self._library._threadpool_get_thread_count(), precision_of((*self.inputs, *self.outputs)))

    def calls(self) -> list[EngineCall]:
        return []


def _library() -> Any:
    """Its Python module, without the exporter's, which `portable_lib` imports in some seconds to warn of itself."""
    import torch  # noqa: F401  # whose library it needs

    try:
        return importlib.import_module("executorch.extension.pybindings._C")
    except ImportError:  # another version
        return importlib.import_module("executorch.extension.pybindings.portable_lib")


SCALARS = {0: "uint8", 1: "int8", 3: "int32", 4: "int64", 6: "float32", 7: "float64", 11: "bool"}  # torch's own numbers


def _info(about: Any, number: int) -> TensorInfo:
    return TensorInfo(str(number), SCALARS.get(about.dtype(), "another type"), tuple(about.sizes()))
