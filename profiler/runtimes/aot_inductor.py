"""AOTInductor, which comes with torch: a .pt2 with C++ that was generated and compiled for one shape and one number of
threads.

Programs of any shape can be compiled too, but not in a time that anybody waits for. A file that gets another shape
fails deep inside, or not at all: shapes are checked before it is called.
"""

from __future__ import annotations

import os
import re
import shutil
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profiler.errors import NotSupported
from profiler.runtimes.base import EngineCall, Options, Settings, TensorInfo

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram

SUFFIX = ".pt2"
PACKAGES = ("torch",)
DYNAMIC = False
PRECISIONS = ("float32",)
QUANTIZES = ()
PROFILE = TIMELINE = "AOTInductor keeps no profile of its own"


def export(program: ExportedProgram, file: Path, options: Options) -> None:
    import torch

    compilers = [os.environ["CXX"]] if os.environ.get("CXX") else ["g++", "clang++", "c++"]
    if not any(shutil.which(name) for name in compilers):
        raise NotSupported(f"AOTInductor needs a C++ compiler and there is no {' or '.join(compilers)}: install g++")
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # no pool of processes
    torch.set_num_threads(options.threads)
    from torch._inductor import config

    config.compile_threads = 1
    config.cpp.threads = options.threads
    torch._inductor.aoti_compile_and_package(program, package_path=str(file))


def options(options: Options) -> str:
    return f"{options.threads} threads"


def load(file: Path, options: Options) -> AotSession:
    return AotSession(file)


class AotSession:
    """A compiled package, loaded."""

    inputs: list[TensorInfo] = []  # noqa: RUF012  # the package does not tell
    outputs: list[TensorInfo] = []  # noqa: RUF012

    def __init__(self, file: Path) -> None:
        import torch

        self._call: Any = torch._inductor.aoti_load_package(str(file))
        sources = _sources(file)
        self._threads = _compiled_threads(sources)
        self._lower = _lower_precision(sources)

    def run(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        import torch

        given = self._call(*tensors)
        return [given] if isinstance(given, torch.Tensor) else list(given)

    def describe(self) -> Settings:
        import torch

        threads = self._threads or torch.get_num_threads()
        return Settings(threads, self._lower or "float32", notes=("Its threads are torch's own.",))

    def calls(self) -> list[EngineCall]:
        return []


def _sources(file: Path) -> list[bytes]:
    """The generated code, which lies in the package."""
    with zipfile.ZipFile(file) as package:
        return [package.read(name) for name in package.namelist() if name.endswith(".cpp")]


def _compiled_threads(sources: Sequence[bytes]) -> int | None:
    """The number of threads that stands in it; none where no loop is parallel."""
    found = {int(number) for source in sources for number in re.findall(rb"num_threads\((\d+)\)", source)}
    return max(found, default=None)


def _lower_precision(sources: Sequence[bytes]) -> str | None:
    """A precision below float32 that it computes in."""
    found = {
        kind.decode() for source in sources for kind in re.findall(rb"cached_torch_dtype_(bfloat16|float16)", source)
    }
    return min(found, default=None)
