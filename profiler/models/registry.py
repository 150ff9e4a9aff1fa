"""Finds the adapter that serves an interface, and checks what a recipe names, without importing any model library.

Adding a library is adding a file beside this one and its name below. What such a file has to offer is the protocol
`Adapter`; its top level must import nothing heavy.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from profiler.errors import ModelError
from profiler.nearest import nearest
from profiler.shipped import shipped_architecture

if TYPE_CHECKING:
    from profiler.models.model import Model, ModelRequest

LIBRARIES = ("speechbrain", "transformers", "module")

HUB_ID = re.compile(r"^[A-Za-z0-9][\w.-]*(/[\w.-]+)?$")


class Adapter(Protocol):
    """What a file for a library offers."""

    LIBRARY: str
    DESCRIPTION_FILE: str | None  # the file that marks a folder of this library's format; None: not made of folders

    def interfaces(self) -> tuple[str, ...]:
        """Names that a recipe may give as `type`."""

    def has_weights(self, folder: Path) -> bool:
        """Whether a folder holds weights, not only the description of a model."""

    def load_pretrained(self, request: ModelRequest, source: str) -> Model:
        """The model with its weights, from a folder or a hub id, by the library's own loading code."""

    def build_random(self, request: ModelRequest, folder: Path | None) -> Model:
        """The model that a folder (or the request alone) describes, with random weights."""


def adapters() -> dict[str, Adapter]:
    """Library -> its adapter, in the order of LIBRARIES."""
    return {name: cast(Adapter, importlib.import_module(f"profiler.models.{name}")) for name in LIBRARIES}


def adapter_for(kind: str) -> Adapter:
    """The adapter whose library has the interface `kind`."""
    known: list[str] = []
    for adapter in adapters().values():
        if kind in adapter.interfaces():
            return adapter
        known += adapter.interfaces()
    raise ModelError(f"unknown interface `{kind}`.{nearest(kind, sorted(known))}")


def check_type(kind: str) -> None:
    """Raise ModelError unless some library has this interface."""
    adapter_for(kind)


def check_source(source: str, kind: str | None, base: Path) -> None:
    """Raise ModelError unless `source` is a folder that holds a model, or reads like a hub id."""
    serving = [adapter_for(kind)] if kind else list(adapters().values())
    wanted = [adapter.DESCRIPTION_FILE for adapter in serving if adapter.DESCRIPTION_FILE]
    if not wanted:
        return
    folder = local_folder(source, base)
    if folder is not None:
        if not any((folder / name).is_file() for name in wanted):
            raise ModelError(
                f"the folder {folder} holds no model: expected {' or '.join(wanted)} in it"
                + (f" for the interface {kind}" if kind else "")
            )
    elif looks_like_a_path(source):
        raise ModelError(f"there is no folder {base / Path(source).expanduser()}")
    elif not HUB_ID.match(source):
        raise ModelError(f"'{source}' is neither a folder nor a hub id such as facebook/wav2vec2-base-960h")


def looks_like_a_path(source: str) -> bool:
    return source.startswith((".", "/", "~")) or source.endswith("/") or source.count("/") > 1


def local_folder(source: str, base: Path) -> Path | None:
    """The folder that `source` names, relative to the recipe, if there is one."""
    folder = (base / Path(source).expanduser()).resolve()
    return folder if folder.is_dir() else None


def architecture_folder(architecture: str | None, source: str, base: Path) -> Path | None:
    """Where the model is described: the folder the recipe names, else the shipped one named like the source."""
    if architecture is not None:
        return local_folder(architecture, base)
    return shipped_architecture(source.rstrip("/").rsplit("/", 1)[-1])
