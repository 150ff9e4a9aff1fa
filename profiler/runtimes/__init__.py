"""Engines that run an exported model: one file each, behind the protocol in `base`.

    torch module --torch.export--> program --engine.export--> file --engine.load--> session --run--> tensors

What an engine needs is named here, so that a recipe can be checked without importing any of them.
"""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from profiler.errors import UserError

if TYPE_CHECKING:
    from profiler.runtimes.base import Engine


@dataclass(frozen=True)
class Needs:
    """Of an engine: packages that must be there, and the extra that has them."""

    title: str
    modules: tuple[str, ...] = ()
    extra: str = ""


ENGINES = {
    "onnxruntime": Needs("ONNX Runtime", ("onnxruntime", "onnx", "onnxscript"), "onnxruntime"),
    "openvino": Needs("OpenVINO", ("openvino",), "openvino"),
    "aot_inductor": Needs("AOTInductor"),
    "executorch": Needs("ExecuTorch", ("executorch",), "executorch"),
    "ctranslate2": Needs("CTranslate2", ("ctranslate2",), "ctranslate2"),
}


def engine(name: str) -> Engine:
    """The file of an engine; it imports the engine's own packages when they are used."""
    return cast("Engine", importlib.import_module(f"profiler.runtimes.{name}"))


def check_installed(name: str) -> None:
    """Raise UserError, with the command that installs it, unless all that an engine needs is there."""
    needs = ENGINES[name]
    missing = [module for module in needs.modules if importlib.util.find_spec(module) is None]
    if missing:
        raise UserError(
            f"runtime: {name} needs {needs.title}, which is not installed (no module {', '.join(missing)}). "
            f'Install it: pip install "speech-profiler[{needs.extra}]"'
        )
