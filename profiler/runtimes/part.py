"""A module of the model whose forward is a session of an engine; and all such modules of a model.

    arguments --> tensors --session.run--> tensors --put together--> what the module's own forward gives: see tensors.py

Sessions are opened at the first call in each process: an engine has threads, which do not survive a fork, so the
process that is forked for every cell never has one.
"""

from __future__ import annotations

import inspect
import os
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from profiler.errors import NotSupported
from profiler.runtimes import ENGINES, base
from profiler.runtimes.tensors import CacheOutput, Given, Leaves, given, put_together

if TYPE_CHECKING:
    import torch

    from profiler.runtimes.base import Engine, EngineCall, Options, Session, Settings

MANIFEST = "manifest.json"
Shapes = tuple[tuple[int | None, ...], ...]  # of the inputs; None: of any size


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
    leaves: Leaves  # of the structure
    export_s: float
    export_peak_bytes: int
    full_rows: bool = False  # made for rows of one length: recurrent layers get them whole, and not packed
    takes: list[int] | None = None  # the inputs that are used, where that is not all of them


@dataclass
class Export:
    """One file: of one way in which the module is called, and for an engine of fixed shapes of one shape."""

    how: str  # as `Given` tells
    shapes: Shapes
    folder: Path
    manifest: Manifest
    cached: bool
    in_a_call: bool = True  # whether one call of the model uses it; else it is for calls of another shape

    def misfits(self, shapes: tuple[tuple[int, ...], ...]) -> list[int]:
        """The inputs whose shape it does not take."""
        return [
            place
            for place, (own, given) in enumerate(zip(self.shapes, shapes, strict=True))
            if any(size not in (None, other) for size, other in zip(own, given, strict=True))
        ]


@dataclass
class ExportedPart:
    """Takes the place of a module's forward."""

    name: str
    runtime: Runtime
    exports: list[Export]
    _sessions: dict[int, Session] = field(default_factory=dict)
    _structures: dict[int, Any] = field(default_factory=dict)
    _order: list[int] = field(default_factory=list)  # of the sessions that were called under a profile

    @property
    def takes_steps(self) -> bool:
        """Whether it is called step by step, with a cache."""
        leaves = [leaf for export in self.exports for leaf in export.manifest.leaves]
        return any(isinstance(leaf, CacheOutput) for leaf in leaves)

    def put(self, module: Any) -> None:
        """Take its place. What the module takes stays to be seen: libraries look before they call."""
        self.__signature__ = inspect.signature(module.forward)
        module.forward = self

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        self.runtime.open()
        call = given(arguments, named)
        number = self._find(call)
        manifest = self.exports[number].manifest
        if manifest.full_rows and any(map(_differs, call.tensors)):
            raise NotSupported(
                f"{self.name} packs rows of different lengths for its recurrent layers, which engines do not: set "
                "batch_size: 1 or padding: 0"
            )
        takes = call.tensors if manifest.takes is None else [call.tensors[place] for place in manifest.takes]
        return self._put_together(number, self._run(number, takes), call)

    def _run(self, number: int, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        if self.runtime.profiling:
            self._order.append(number)
        with self.runtime.span(self):
            return self._sessions[number].run(tensors)

    def _find(self, call: Given) -> int:
        shapes = call.shapes
        known = [number for number, export in enumerate(self.exports) if export.how == call.how]
        for number in known:
            if not self.exports[number].misfits(shapes):
                return number
        if not known:
            raise NotSupported(f"{self.name} was exported for another kind of call: with other arguments than here")
        wrong = self.exports[known[0]].misfits(shapes)
        made = ", or ".join(_shapes_text([self.exports[number].shapes[place] for place in wrong]) for number in known)
        raise NotSupported(
            f"{self.name} was compiled for {made}, and this call has {_shapes_text([shapes[p] for p in wrong])}"
        )

    def _put_together(self, number: int, made: list[torch.Tensor], call: Given) -> Any:
        from torch.utils import _pytree

        manifest = self.exports[number].manifest
        if number not in self._structures:
            self._structures[number] = _pytree.treespec_loads(manifest.output)
        return put_together(manifest.leaves, self._structures[number], made, call)

    def open(self, options: Options) -> list[Settings]:
        """Open all files; gives what the engine says that it took."""
        self._sessions.clear()
        self._order.clear()
        found = []
        for number, export in enumerate(self.exports):
            session = self.runtime.engine.load(export.folder / export.manifest.file, options)
            self._sessions[number] = session
            found.append(session.describe())
        return found

    def calls(self) -> list[EngineCall]:
        """In the order in which they were made."""
        told = {number: iter(session.calls()) for number, session in self._sessions.items()}
        return [call for number in self._order if (call := next(told[number], None)) is not None]


def _differs(lengths: torch.Tensor) -> bool:
    return lengths.dim() == 1 and bool((lengths != lengths[0]).any())


def _shapes_text(shapes: Sequence[Sequence[int | None]]) -> str:
    return " and ".join(
        " x ".join("any" if size is None else str(size) for size in shape) or "one number" for shape in shapes
    )


@dataclass
class Runtime:
    """All parts of a model that an engine runs."""

    name: str
    engine: Engine
    options: Options  # but for the threads, which are torch's of the process
    parts: list[ExportedPart] = field(default_factory=list)
    profiling: bool = False  # whether its sessions keep the engine's own profile
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

    def span(self, part: ExportedPart) -> AbstractContextManager[Any]:
        """Around a call of a part: what torch's recording has of it, if there is one."""
        if not self.traced:
            return nullcontext()
        from torch.profiler import record_function

        span: AbstractContextManager[Any] = record_function(self.span_of(part))
        return span

    def closed(self) -> None:
        """They are opened again by the next call, without a profile."""
        self._process = None

    def _open(self, profile: bool) -> None:
        import torch

        asked = replace(self.options, threads=torch.get_num_threads(), profile=profile)
        begin = time.perf_counter()
        self._process, self.profiling = os.getpid(), profile
        found = [settings for part in self.parts for settings in part.open(asked)]
        self.load_s = time.perf_counter() - begin
        for settings in found:
            base.check(asked, settings)
        self.settings = found[0] if found else None
