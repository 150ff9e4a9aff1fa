"""Module + how it is exported -> a folder in the file cache, named by all that decides what the file holds.

That is the architecture (classes, their settings and their source), the weights, the shapes, the options that the file
depends on, the versions of the libraries, and our own code that exports: its source, since who works on it has the same
version all day. What is cached is used again as it is; a folder is there whole or not at all.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

PLAIN = (bool, int, float, str, type(None))
LIBRARIES = ("torch", "transformers", "speechbrain")
HERE = Path(__file__).resolve().parent
SHARED = ("base", "cache", "part", "tensors")  # modules of this folder that all engines' files depend on


def fingerprint(module: torch.nn.Module) -> str:
    """Of the architecture and the weights."""
    found = hashlib.sha256()
    files: set[str] = set()
    for name, inner in module.named_modules():
        kind = type(inner)
        settings = {key: value for key, value in vars(inner).items() if _is_plain(value)}
        config: Any = getattr(inner, "config", None)
        described = config.to_dict() if hasattr(config, "to_dict") else {}
        described = {key: value for key, value in described.items() if key not in ("_name_or_path", "name_or_path")}
        found.update(f"{name} {kind.__module__}.{kind.__qualname__} {sorted(settings.items())} {described}".encode())
        files.add(getattr(sys.modules.get(kind.__module__), "__file__", None) or "")
    for file in sorted(filter(None, files)):
        with contextlib.suppress(OSError):
            found.update(Path(file).read_bytes())
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        found.update(_bytes_of(tensor))
    return found.hexdigest()


def key(runtime: str, *parts: Any, packages: Sequence[str], code: Sequence[Path] = ()) -> str:
    """The name of the folder. `code`: files that decide what is written, beside those of this folder."""
    versions = [f"python {sys.version_info[:2]}"]
    for package in (*LIBRARIES, *packages):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions.append(f"{package} {importlib.metadata.version(package)}")
    sources = hashlib.sha256()
    for file in (*(HERE / f"{name}.py" for name in (*SHARED, runtime)), *code):
        sources.update(file.read_bytes())
    return hashlib.sha256(repr((runtime, *parts, versions, sources.hexdigest())).encode()).hexdigest()[:32]


@contextmanager
def made_whole(folder: Path) -> Iterator[Path]:
    """A folder to write to that takes its name when the body is through; gone again if that fails."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=".", dir=folder.parent))
    try:
        yield made
        with contextlib.suppress(OSError):  # another process was quicker
            made.replace(folder)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def size_of(folder: Path) -> int:
    """Bytes of all files in it, the manifest left out."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file() and file.suffix != ".json")


def _is_plain(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return all(_is_plain(part) for part in value)
    return isinstance(value, PLAIN)


def _bytes_of(tensor: torch.Tensor) -> Any:
    import torch

    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().data if flat.numel() else b""
