"""What an engine is: it knows machines, places a job on one of them, and says what became of it.

`local`, `on_ray` and `on_slurm` are engines; each imports its own library inside its functions.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from profiler.errors import UserError
from profiler.execution.fleet.job import EngineOptions, Machine
from profiler.execution.fleet.node import Files, Look, Seen, Spec

KINDS = ("local", "ray", "slurm")


@dataclass
class State:
    """Of a placed job."""

    state: str  # waiting, running, ended, lost
    reason: str = ""
    machine: str = ""
    look: Look = field(default_factory=Look)
    queued: bool = False  # waits for its turn in a queue, however long that takes
    node: Machine | None = None  # as the node describes itself, where that was not known before


class NotThere(Exception):
    """A node does not answer now; whether it is lost, the state of the job tells."""


class Placed(Protocol):
    """A job that an engine took."""

    handle: str

    def state(self) -> State: ...

    def changed(self, seen: Seen, results_only: bool) -> tuple[Files, Seen]:
        """Files of its run that are new since they were `seen`. Raises NotThere."""

    def stop(self) -> None:
        """Have the program end in order."""

    def forget(self) -> None:
        """All is collected: leave nothing behind."""


class Engine(Protocol):
    def machines(self, recipes: Collection[tuple[str, str]], alone: Collection[str] = ()) -> list[Machine]:
        """Those that are there now, as they describe themselves. `alone`: a job of ours may be running there, and
        nothing may run beside it: they are not asked."""

    def alive(self) -> set[str]:
        """The names of those that are there now, without asking them anything."""

    def place(self, name: str, spec: Spec, earlier: Files, allowed: Collection[str] | None) -> Placed | str:
        """Start a job on one of the machines, or say why none can take it now."""

    def attach(self, handle: str) -> Placed | None:
        """A job that was placed before the driver was started again; None where it is gone."""

    def close(self) -> None: ...


def require(module: str, extra: str) -> None:
    """Raise UserError unless the engine's library is installed."""
    if importlib.util.find_spec(module) is None:
        raise UserError(
            f"--on {extra} needs {module}, which is not installed: pip install 'speech-profiler[{extra}]', or from a "
            f"checkout: pip install -e .[{extra}]"
        )


def make_engine(kind: str, folder: Path, device: str, options: EngineOptions) -> Engine:
    """`folder`: of the fleet, seen by all nodes where the engine needs that."""
    if kind == "ray":
        from profiler.execution.fleet.on_ray import RayEngine

        return RayEngine(device, options)
    if kind == "slurm":
        from profiler.execution.fleet.on_slurm import SlurmEngine

        return SlurmEngine(folder, device, options)
    from profiler.execution.fleet.local import LocalEngine

    return LocalEngine(folder)
