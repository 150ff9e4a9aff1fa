"""Finds the adapter that serves an interface, and checks what a recipe names, without importing any model library.

Adding a library is adding a file or a folder beside this one and its name below. What such a file has to offer is the
protocol `Adapter`; its top level must import nothing heavy. docs/add-a-library.md walks through one.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from profiler.errors import ModelError, did_you_mean
from profiler.models.formats import Format

if TYPE_CHECKING:
    from profiler.models.model import Model, ModelRequest

LIBRARIES = (
    "speechbrain.adapter",
    "transformers.adapter",
    "espnet.adapter",
    "own.module",
    "own.torchscript",
    "own.exported",
    "own.adapter_file",
    "torchaudio.adapter",
    "silero",
    "s3prl.adapter",
    "features.adapter",
    "icefall.adapter",
    "remote",
    "websocket",
)


@dataclass(frozen=True)
class Needs:
    """What must be installed for a library, and the command that does it."""

    modules: tuple[str, ...]  # names that can be imported once it is there
    install: str
    title: str = ""  # what is to be installed; empty: the adapter's library


class Adapter(Protocol):
    """What a file for a library offers.

    Also NEEDS, where it is not installed with the profiler, for all or for each interface; ONE_AT_A_TIME, where some of
    its interfaces take no batches; SPEAKS, where some make speech of text; TRAINS, where some can be trained: the
    losses of each, the usual one first; EVALUATES, where overrides may hold tags such as `!new:`; check_overrides,
    where they can be checked without the model; port_of and SCENARIO, where the model runs in a server.
    """

    LIBRARY: str
    INTERFACES: Collection[str]  # names that a recipe may give as `type`
    FORMAT: Format

    def load_pretrained(self, request: ModelRequest, source: str) -> Model:
        """The model with its weights, from where its format found them, by the library's own loading code."""

    def build_random(self, request: ModelRequest, folder: Path | None) -> Model:
        """The model that a folder (or the request alone) describes, with random weights; not for `weights_only`."""


def adapters() -> Iterator[Adapter]:
    """In the order of LIBRARIES; each is imported when it is its turn."""
    for name in LIBRARIES:
        yield cast(Adapter, importlib.import_module(f"profiler.models.{name}"))


def adapter_for(kind: str) -> Adapter:
    """The adapter whose library has the interface `kind`."""
    known: list[str] = []
    for adapter in adapters():
        if kind in adapter.INTERFACES:
            return adapter
        known += adapter.INTERFACES
    raise ModelError(f"unknown interface `{kind}`.{did_you_mean(kind, sorted(known))}")


def check_type(kind: str) -> None:
    """Raise ModelError unless some library has this interface, and what it needs is installed."""
    adapter = adapter_for(kind)
    found: Needs | dict[str, Needs] | None = getattr(adapter, "NEEDS", None)
    needs = found.get(kind) if isinstance(found, dict) else found
    missing = [name for name in needs.modules if not is_there(name)] if needs else []
    if needs and missing:
        raise ModelError(
            f"the interface {kind} needs {needs.title or adapter.LIBRARY}, which is not installed (no module "
            f"{', '.join(missing)}). Install it: {needs.install}"
        )


def check_source(source: str, kind: str, base: Path) -> None:
    """Raise ModelError unless `source` can be a model of this interface."""
    adapter_for(kind).FORMAT.check(source, kind, base)


def check_weights(weights: str, kind: str) -> None:
    """Raise ModelError where random weights are wanted of a model that cannot be without its own."""
    if weights == "random" and adapter_for(kind).FORMAT.weights_only:
        raise ModelError(f"a model of the interface {kind} is only there with its weights; set weights: auto")


def takes_batches(kind: str) -> bool:
    """Whether a known interface takes several recordings in a call."""
    return kind not in getattr(adapter_for(kind), "ONE_AT_A_TIME", ())


def port_of(kind: str, source: str) -> int | None:
    """Of an interface to a server that runs already: the port that is connected to; None: the model runs here."""
    find: Callable[[str], int] | None = getattr(adapter_for(kind), "port_of", None)
    return find(source) if find is not None else None


def is_outside(kind: str) -> bool:
    """Whether a known interface is one to a server."""
    return hasattr(adapter_for(kind), "port_of")


def scenario_of(kind: str) -> str:
    """Of an interface to a server: the only scenario of load that it is for."""
    return str(getattr(adapter_for(kind), "SCENARIO", ""))


def check_overrides(kind: str, source: str, overrides: Mapping[str, Any]) -> None:
    """Raise ModelError where a library can tell that overrides are wrong, without the model."""
    check: Callable[[str, Mapping[str, Any]], None] | None = getattr(adapter_for(kind), "check_overrides", None)
    if check is not None:
        try:
            check(source, overrides)
        except ModelError as error:
            raise ModelError(str(error).removeprefix("pretrained_model.overrides: ")) from None


def speaks(kind: str) -> bool:
    """Whether a known interface makes speech of text."""
    return kind in getattr(adapter_for(kind), "SPEAKS", ())


def check_trainable(kind: str) -> None:
    """Raise ModelError where an interface cannot be trained."""
    if kind not in _losses(kind):
        known = [name for adapter in adapters() for name in getattr(adapter, "TRAINS", {})]
        raise ModelError(
            f"the interface {kind} cannot be trained here: there is no loss for what it gives. Those that can are "
            f"{', '.join(known)}"
        )


def check_loss(kind: str, loss: str) -> None:
    """Raise ModelError where an interface that can be trained is not trained with this loss."""
    known = _losses(kind).get(kind, ())
    if known and loss not in ("auto", *known):
        raise ModelError(f"the interface {kind} is trained with {' or '.join(known)}, not with {loss}")


def _losses(kind: str) -> dict[str, tuple[str, ...]]:
    """Of each interface of this one's library that can be trained."""
    found: dict[str, tuple[str, ...]] = getattr(adapter_for(kind), "TRAINS", {})
    return found


def is_there(module: str) -> bool:
    """Whether a package is installed; it is not imported."""
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False
