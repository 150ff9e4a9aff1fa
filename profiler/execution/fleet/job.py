"""What a fleet is made of: jobs, machines, and fleet.json, the file from which an interrupted fleet is taken up."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from profiler.errors import UserError
from profiler.results.store import write_atomically
from profiler.results.untrusted import inside, read_bytes

if TYPE_CHECKING:
    from profiler.recipe.schema import Variant

FILE = "fleet.json"
FOLDER = "fleets"  # in the log folder
GONE = "is gone"  # the problem of a machine
BUSY = 0.5  # of the cores, before anything of ours runs there
Status = Literal["waiting", "running", "done", "failed", "interrupted"]


class Machine(msgspec.Struct):
    """A node, as it describes itself before anything runs there."""

    name: str
    kind: str = ""  # what equal machines have in common
    boot: str = ""  # of the running system: two nodes of one machine have the same
    cores: int = 0
    load: float = 0.0  # mean of the last minute, in CPUs
    versions: dict[str, str] = {}
    commit: str = ""  # of the profiler's code, with a + where files differ from it
    gflops: float | None = None  # of the reference workload, in the run that was made last
    floor: float | None = None  # the noise floor that was recorded with that run
    problem: str = ""  # why no job is sent there

    @property
    def busy(self) -> bool:
        return bool(self.cores) and self.load > BUSY * self.cores

    @property
    def described(self) -> bool:
        """A node that others use all of is described by the first job that begins there."""
        return bool(self.boot)


class EngineOptions(msgspec.Struct, frozen=True):
    """What the command line says about the engine."""

    address: str | None = None  # of Ray
    partition: str | None = None  # of SLURM, and what follows
    constraint: str | None = None
    time: int | None = None  # minutes
    exclusive: bool = True
    gres: str | None = None


class Attempt(msgspec.Struct):
    """One placing of a job."""

    machine: str
    started: str
    ended: str = ""
    end: str = ""  # what became of it
    undone: dict[str, str] = {}  # settings of the engine that were taken back, and what they were


class Job(msgspec.Struct):
    """One recipe on one machine."""

    id: str
    recipe: str  # an absolute path
    sha256: str  # of the file
    arguments: list[str] = []  # overrides of this job alone
    kind: str = ""  # of machine that it is for; none: any
    status: Status = "waiting"
    reason: str = ""  # why it waits, or failed
    run: str = ""  # <recipe>/<run id>, in the log folder
    cells: int = 0  # finished so far
    progress: str = ""  # of the run that goes on, as it says itself
    handle: str = ""  # by which the engine finds it again
    attempts: list[Attempt] = []
    tries: int = 0  # attempts since the fleet was started or taken up again, or one that was stopped got further
    measured: int = 0  # figures of rounds, batches and loads that its run had when it was last stopped

    @property
    def open(self) -> bool:
        return self.status in ("waiting", "running")

    @property
    def machine(self) -> str:
        return self.attempts[-1].machine if self.attempts else ""


class Fleet(msgspec.Struct):
    """The whole of it, as it stands in fleet.json."""

    id: str
    engine: str
    started: str
    overrides: list[str] = []
    device: str = "cpu"
    threads: int | None = None
    trust: bool = False
    options: EngineOptions = msgspec.field(default_factory=EngineOptions)
    doctor: bool = True  # whether the noise floor is measured on machines that have none
    here: Machine | None = None  # this machine, whose versions and commit the others are checked against
    jobs: list[Job] = []
    machines: dict[str, Machine] = {}

    def write(self, folder: Path) -> None:
        write_atomically(folder / FILE, msgspec.json.format(msgspec.json.encode(self), indent=1).decode() + "\n")


def only_variants(variants: Iterable[Variant]) -> str:
    """The override that leaves a recipe these variants alone."""
    found = [each.model_dump(mode="json", exclude_defaults=True, exclude={"baseline"}) for each in variants]
    return f"variants={json.dumps(found)}"


def read_fleet(folder: Path) -> Fleet:
    try:
        return msgspec.json.decode(read_bytes(inside(folder, FILE)), type=Fleet)
    except FileNotFoundError:
        raise UserError(f"{folder} is no fleet: there is no {FILE} in it.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{folder / FILE} cannot be read: {error}") from None


def find_fleet(name: str, logdir: Path) -> Path:
    """The folder of a fleet by its path, its id or a part of it, or `latest`."""
    if (Path(name) / FILE).is_file():
        return Path(name)
    found = sorted(file.parent for file in (logdir / FOLDER).glob(f"*/{FILE}"))
    fitting = found[-1:] if name == "latest" else [folder for folder in found if name in folder.name]
    if len(fitting) == 1:
        return fitting[0]
    known = ", ".join(folder.name for folder in (fitting or found)[-5:]) or "none"
    few = "several fleets fit" if fitting else "there is no fleet"
    raise UserError(f"--resume {name}: {few} in {logdir / FOLDER}. Known: {known}.")
