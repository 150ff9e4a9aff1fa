"""A module of the model whose forward is a session of an engine; and all such modules of a model.

    arguments --flattened--> tensors --session.run--> tensors --put together--> what the module's own forward gives

Sessions are opened at the first call in each process: an engine has threads, which do not survive a fork, so the
process that is forked for every cell never has one.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from profiler.errors import NotSupported
from profiler.runtimes import ENGINES, base

if TYPE_CHECKING:
    import torch

    from profiler.runtimes.base import Engine, EngineCall, Options, Session, Settings

MANIFEST = "manifest.json"


class EngineRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker is told of the calls to come."""

    threads: int
    cells: list[tuple[float, int]]
    padding: float  # of the batches of cells
    batches: bool  # whether the model takes several recordings at once
    padded: bool  # whether rows of a call may differ in length
    cache: Path


class Manifest(msgspec.Struct, kw_only=True):
    """What is known of an exported file, beside it in the cache."""

    file: str
    output: str  # how the outputs are put together
    leaves: list[int | None]  # of the structure: the number of an output; none: None
    export_s: float
    export_peak_bytes: int
    full_rows: bool = False  # made for rows of one length: recurrent layers get them whole, and not packed


def flattened(arguments: Any, named: Any) -> tuple[list[torch.Tensor], str]:
    """The tensors in the arguments of a call, and all else about it as a text. Raises NotSupported."""
    import torch
    from torch.utils import _pytree

    if any(isinstance(value, torch.nn.utils.rnn.PackedSequence) for value in (*arguments, *named.values())):
        raise NotSupported("it is called with packed rows, which engines do not have")
    leaves, structure = _pytree.tree_flatten((tuple(arguments), dict(named)))
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    told = []
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor):
            told.append(f"{leaf.dtype}[{leaf.dim()}]")
        elif isinstance(leaf, (bool, int, float, str, type(None), torch.dtype)):
            told.append(repr(leaf))
        else:
            raise NotSupported(f"it is called with a {type(leaf).__name__}, which is no tensor")
    return tensors, f"{structure} {told}"


@dataclass
class Export:
    """One file: of one way in which the module is called, and for an engine of fixed shapes of one shape."""

    how: str  # as `flattened` tells
    shapes: tuple[tuple[int, ...], ...] | None  # None: any
    folder: Path
    manifest: Manifest
    cached: bool

    def fits(self, how: str, shapes: tuple[tuple[int, ...], ...]) -> bool:
        return self.how == how and self.shapes in (None, shapes)


@dataclass
class ExportedPart:
    """Takes the place of a module's forward."""

    name: str
    runtime: Runtime
    exports: list[Export]
    _sessions: dict[int, Session] = field(default_factory=dict)
    _structures: dict[int, Any] = field(default_factory=dict)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        self.runtime.open()
        tensors, how = flattened(arguments, named)
        number = self._find(how, tuple(tuple(tensor.shape) for tensor in tensors))
        if self.exports[number].manifest.full_rows and any(map(_differs, tensors)):
            raise NotSupported(
                f"{self.name} packs rows of different lengths for its recurrent layers, which engines do not: set "
                "batch_size: 1 or padding: 0"
            )
        return self._put_together(number, self._run(number, tensors))

    def _run(self, number: int, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        if not self.runtime.traced:
            return self._sessions[number].run(tensors)
        from torch.profiler import record_function

        with record_function(self.runtime.span_of(self)):
            return self._sessions[number].run(tensors)

    def _find(self, how: str, shapes: tuple[tuple[int, ...], ...]) -> int:
        for number, export in enumerate(self.exports):
            if export.fits(how, shapes):
                return number
        known = ", ".join(_shapes_text(export.shapes) for export in self.exports if export.shapes)
        if known and any(export.how == how for export in self.exports):
            raise NotSupported(f"{self.name} was compiled for {known}, and this call has {_shapes_text(shapes)}")
        raise NotSupported(f"{self.name} was exported for another kind of call: with other arguments than here")

    def _put_together(self, number: int, outputs: list[torch.Tensor]) -> Any:
        from torch.utils import _pytree

        manifest = self.exports[number].manifest
        if number not in self._structures:
            self._structures[number] = _pytree.treespec_loads(manifest.output)
        leaves = [None if place is None else outputs[place] for place in manifest.leaves]
        return _pytree.tree_unflatten(leaves, self._structures[number])

    def open(self, options: Options) -> list[Settings]:
        """Open all files; gives what the engine says that it took."""
        self._sessions.clear()
        found = []
        for number, export in enumerate(self.exports):
            session = self.runtime.engine.load(export.folder / export.manifest.file, options)
            self._sessions[number] = session
            found.append(session.describe())
        return found

    def calls(self) -> list[EngineCall]:
        return [call for session in self._sessions.values() for call in session.calls()]


def _differs(lengths: torch.Tensor) -> bool:
    return lengths.dim() == 1 and bool((lengths != lengths[0]).any())


def _shapes_text(shapes: tuple[tuple[int, ...], ...] | None) -> str:
    return " and ".join(" x ".join(map(str, shape)) or "one number" for shape in shapes or ())


@dataclass
class Runtime:
    """All parts of a model that an engine runs."""

    name: str
    engine: Engine
    options: Options  # but for the threads, which are torch's of the process
    parts: list[ExportedPart] = field(default_factory=list)
    traced: bool = False  # whether each call of a part is a span in torch's recording
    settings: Settings | None = None  # of the sessions of this process
    load_s: float | None = None
    _process: int | None = None

    def open(self) -> None:
        """Open the sessions of this process, once. Raises NotSupported where the engine does not do as asked."""
        if self._process != os.getpid():
            self._open(profile=False)

    def profiled(self) -> None:
        """Open them anew, with the engine's own profile switched on."""
        self._open(True)

    def calls(self) -> list[list[EngineCall]]:
        """Of each part, what the engine's profile has on its calls."""
        return [part.calls() for part in self.parts]

    @property
    def about_operators(self) -> str:
        """What is said below a breakdown."""
        title = ENGINES[self.name].title
        if self.engine.PROFILE:
            return f"What {title} does inside is not told apart: {self.engine.PROFILE}."
        return (
            f"Operators named {title} are of its own profile, in calls apart; their shares are of its part of a call."
        )

    def span_of(self, part: ExportedPart) -> str:
        return f"{ENGINES[self.name].title}: {part.name}"

    def closed(self) -> None:
        """They are opened again by the next call, without a profile."""
        self._process = None

    def _open(self, profile: bool) -> None:
        import torch

        asked = replace(self.options, threads=torch.get_num_threads(), profile=profile)
        begin = time.perf_counter()
        self._process = os.getpid()
        found = [settings for part in self.parts for settings in part.open(asked)]
        self.load_s = time.perf_counter() - begin
        for settings in found:
            base.check(asked, settings)
        self.settings = found[0] if found else None
