"""What an engine is: a file in this folder that offers the protocol `Engine`, and the sessions that it opens.

Threads, precision and spinning are asked for alike of all engines (`Options`), and what the engine says that it took is
read back (`Settings`): one that does something else than asked is refused by `check`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from profiler.errors import NotSupported

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram

Precision = Literal["float32", "bfloat16", "float16"]


@dataclass(frozen=True)
class Options:
    """What is asked of an engine."""

    threads: int = 1
    precision: Precision = "float32"
    quantize: Literal["dynamic"] | None = None
    profile: bool = False  # whether the engine keeps its own profile; slower


@dataclass(frozen=True)
class Settings:
    """What an engine says that it does; None where it does not tell."""

    threads: int | None = None
    precision: str | None = None
    spinning: bool | None = None  # whether its setting has waiting threads keep a CPU busy; what they do is measured
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class TensorInfo:
    """An input or output of a file. Of the shape, None is any size."""

    name: str
    dtype: str  # as torch calls it: float32, int64
    shape: tuple[int | None, ...]


@dataclass
class Node:
    """One operator that the engine ran, or all of its kind in a call."""

    operator: str
    seconds: float
    name: str = ""
    start: float | None = None  # seconds after the call began; None where the engine does not tell
    thread: int = 0


@dataclass
class EngineCall:
    """One call of a session under the engine's own profile."""

    seconds: float
    nodes: list[Node] = field(default_factory=list)


class Session(Protocol):
    """A file that is loaded and ready to run."""

    inputs: list[TensorInfo]
    outputs: list[TensorInfo]

    def run(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """One call: inputs and outputs in the order of the file."""

    def describe(self) -> Settings:
        """What the engine took of what was asked."""

    def calls(self) -> list[EngineCall]:
        """What the engine's own profile has on each call so far, if it was loaded with `profile`; ends the session."""


class Engine(Protocol):
    """What a file in this folder offers."""

    SUFFIX: str  # of its files
    PACKAGES: Sequence[str]  # distributions whose versions decide what is exported
    DYNAMIC: bool  # whether a file takes any length and batch; else it is made for each shape
    PRECISIONS: Sequence[str]
    QUANTIZES: Sequence[str]
    PROFILE: str  # why there is no profile of operators; empty where there is one
    TIMELINE: str  # why its operators are in no trace; empty where they are

    def export(self, program: ExportedProgram, file: Path, options: Options) -> None:
        """Write the file. Raises NotSupported."""

    def options(self, options: Options) -> str:
        """What of the options decides what the file holds, for the name that it is cached by."""

    def load(self, file: Path, options: Options) -> Session:
        """Open the file. Raises NotSupported."""


def precision_of(tensors: Iterable[TensorInfo]) -> str | None:
    """By the inputs and outputs of a file, of an engine that computes in what the file has; None where they differ."""
    floats = {info.dtype for info in tensors if "float" in info.dtype}
    return floats.pop() if len(floats) == 1 else None


def check(asked: Options, found: Settings) -> None:
    """Raise NotSupported where an engine does something else than it was asked for."""
    wrong = []
    if found.threads is not None and found.threads != asked.threads:
        wrong.append(f"{asked.threads} threads were asked for and it uses {found.threads}")
    if found.precision is not None and found.precision != asked.precision:
        wrong.append(f"{asked.precision} was asked for and it computes in {found.precision}")
    if found.spinning:
        wrong.append("its waiting threads spin, though that was switched off")
    if wrong:
        raise NotSupported(f"the engine does something else than asked: {'; '.join(wrong)}")
