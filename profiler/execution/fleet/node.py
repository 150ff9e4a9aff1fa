"""What runs on a node, whatever the engine: the ordinary program, as a process of its own, and the files it writes.

An engine starts jobs under settings of its own: Ray sets OMP_NUM_THREADS, SLURM may hold processes to some CPUs. What
would change the figures is taken back before the program starts, and said.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Collection, Mapping
from pathlib import Path

import msgspec

from profiler.conditions.floor import read_floor
from profiler.environment import (
    PROC,
    allowed_cpus,
    cpu_name,
    read_commit,
    read_environment,
    read_text,
    search_path,
    versions,
)
from profiler.execution.fleet.job import Machine
from profiler.processes import die_with_parent
from profiler.results.types import FILE, JOURNAL
from profiler.shipped import shipped_folder
from profiler.units import bytes_text

THREAD_SETTINGS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
OF_ENGINES = ("RAY_", "SLURM_", "SUBMITIT_")
LOG = "node.log"  # what the program printed
LAST = 4000  # bytes of it that are looked at
PROGRESS = re.compile(r"\[([\w/:,. ]+)\]")  # how a line of a run's progress begins
# In this order a copy lacks no finished cell: what leaves the journal while files are read stands in the results.
FIRST = (JOURNAL, FILE)
Seen = dict[str, tuple[int, int]]  # file -> when it was changed and its size
Files = dict[str, bytes]
PORTION = 64 << 20  # bytes that are brought home at once, or one file that is larger
NOT_YET = (0, 0)  # in Seen: a file that is there, for a later portion


class Spec(msgspec.Struct):
    """What a node needs to know of a job."""

    recipe: str
    sha256: str
    arguments: list[str]
    environment: dict[str, str] = {}  # thread settings of whoever started the fleet
    resume: str = ""  # <recipe>/<run id>
    doctor: bool = False  # measure the noise floor first, where the machine has none yet


class Look(msgspec.Struct):
    """What became of a program so far."""

    ended: int | None = None  # its exit status
    log: str = ""  # its last lines, once it has ended
    stopped: str = ""  # why the engine had it stop
    undone: dict[str, str] = {}
    progress: str = ""  # while it runs: '3/9, 0:41, about 2:10 left'


class Program:
    """The ordinary program on this machine. `spool` is the log folder that it writes to."""

    def __init__(
        self, spec: Spec, spool: Path, earlier: Mapping[str, bytes], undone: Mapping[str, str] | None = None
    ) -> None:
        self.spool, self.stopped = spool, ""
        check_recipe(spec)
        spool.mkdir(parents=True, exist_ok=True)
        for name, content in earlier.items():
            (spool / name).parent.mkdir(parents=True, exist_ok=True)
            (spool / name).write_bytes(content)
        environment, taken_back = clean_environment(os.environ, spec.environment)
        self.undone = {**taken_back, **(undone or {})}
        self.environment = environment | {"PYTHONPATH": search_path(environment.get("PYTHONPATH", ""))}
        command = [spec.recipe, *spec.arguments, "--logdir", str(spool)]
        command += ["--resume", Path(spec.resume).name] if spec.resume else []
        self.commands = [("starting", command)]
        if spec.doctor and read_floor() is None:
            doctor = ["doctor", "--quiet", "--logdir", str(spool), *_threads(spec.arguments)]
            self.commands.insert(0, ("measuring the noise floor", doctor))
        self.process = self._next()

    def _next(self) -> subprocess.Popen[bytes]:
        doing, words = self.commands.pop(0)
        program = [sys.executable, "-P", "-m", "profiler", *words]
        with (self.spool / LOG).open("ab", buffering=0) as log:
            log.write(f"[{doing}]\n".encode())
            return subprocess.Popen(
                program,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=_begin,
            )

    def look(self) -> Look:
        ended = self.process.poll()
        if ended is not None and self.commands and not self.stopped:  # whatever doctor says, the recipe is run
            self.process, ended = self._next(), None
        if ended is None:
            return Look(undone=self.undone, progress=progress_in(self.spool))
        return Look(ended, last_lines(self.spool), self.stopped, self.undone)

    def stop(self, why: str = "it was asked to stop") -> None:
        """Ask it to end in order: it writes what it has."""
        self.stopped = why
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)

    def wait(self) -> Look:
        while (look := self.look()).ended is None:
            self.process.wait()
        return look


def _begin() -> None:
    """In the program's process: it ends with this one, and leaves this one to answer an engine's signals. SLURM sends
    them to all processes of a job."""
    die_with_parent()
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)


def _threads(arguments: list[str]) -> list[str]:
    """The option of a run that doctor has too."""
    place = arguments.index("--threads") if "--threads" in arguments else len(arguments)
    return arguments[place : place + 2]


def check_recipe(spec: Spec) -> None:
    """Raise OSError unless this machine sees the recipe that was meant."""
    try:
        found = hashlib.sha256(Path(spec.recipe).read_bytes()).hexdigest()
    except OSError as error:
        raise OSError(
            f"{spec.recipe} is not there ({error.strerror}): recipes and what they name must lie at the same path on "
            "every node, on a shared file system or in a copy of the same checkout"
        ) from None
    if found != spec.sha256:
        raise OSError(f"{spec.recipe} differs from the one that the fleet was started with")


def clean_environment(given: Mapping[str, str], wanted: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The environment without what the engine set, but with what the person set; and what was taken back."""
    kept = {name: value for name, value in given.items() if not name.startswith(OF_ENGINES)}
    undone = {
        name: f"{kept[name]} instead of {wanted.get(name, 'no setting')}, taken back"
        for name in THREAD_SETTINGS
        if name in kept and kept[name] != wanted.get(name)
    }
    for name in THREAD_SETTINGS:
        kept.pop(name, None)
    return {**kept, **wanted}, undone


def free_cpus() -> dict[str, str]:
    """Let this process use all CPUs that the machine gives it; what that changed, or could not change."""
    before = allowed_cpus()
    with contextlib.suppress(OSError, AttributeError):
        os.sched_setaffinity(0, range(os.cpu_count() or 1))
    after = allowed_cpus()
    if len(after) > len(before):
        return {"CPUs": f"held to {len(before)} of {len(after)}, taken back"}
    all_there = os.cpu_count() or 1  # a cgroup cannot be left
    return {"CPUs": f"{len(after)} of {all_there} are given to the job"} if len(after) < all_there else {}


def last_lines(spool: Path) -> str:
    with contextlib.suppress(OSError), (spool / LOG).open("rb") as log:
        log.seek(max(0, log.seek(0, os.SEEK_END) - LAST))
        return log.read().decode(errors="replace").strip()
    return ""


def progress_in(spool: Path) -> str:
    """How far a program is, by the last line of its own that says so."""
    found = (PROGRESS.match(line) for line in reversed(last_lines(spool).splitlines()))
    return next((line[1] for line in found if line), "")


def changed(spool: Path, seen: Seen, results_only: bool) -> tuple[Files, Seen]:
    """The files of the run that are new or differ since they were `seen`, and all that are there now; `results_only`:
    while it goes on. What is more than a portion is for the next time: `is_portion`."""
    files: Files = {}
    now: Seen = {}
    size = 0
    found = [file for file in spool.glob("*/*/**/*") if file.is_file() and not file.name.startswith(".")]
    for file in sorted(found, key=lambda file: FIRST.index(file.name) if file.name in FIRST else len(FIRST)):
        if results_only and file.name not in FIRST:
            continue
        name = str(file.relative_to(spool))
        with contextlib.suppress(FileNotFoundError):
            about = file.stat()
            now[name] = (about.st_mtime_ns, about.st_size)
            if seen.get(name) == now[name]:
                continue
            if size >= PORTION:
                now[name] = seen.get(name, NOT_YET)
                continue
            files[name] = file.read_bytes()
            size += len(files[name])
    return files, now


def is_portion(files: Files) -> bool:
    """Whether there may be more."""
    return sum(map(len, files.values())) >= PORTION


def describe(recipes: Collection[tuple[str, str]] = ()) -> Machine:
    """This machine, and what keeps it from running these recipes (path, hash)."""
    environment = read_environment()
    cores = os.cpu_count() or 0  # of the machine: an engine may hold this very process to one
    gpus = ", ".join(f"{gpu.name}" for gpu in environment.gpu)
    memory = bytes_text(environment.memory_bytes or 0)
    kind = ", ".join(part for part in (cpu_name() or "unknown CPU", f"{cores} cores", memory, gpus) if part)
    commit = read_commit(shipped_folder())
    machine = Machine(
        name="",
        kind=kind,
        boot=read_text(PROC / "sys/kernel/random/boot_id") or environment.host or "",
        cores=cores,
        load=(environment.load or (0.0,))[0],
        versions=versions(),
        commit=f"{commit.commit or 'no checkout'}{'+' if commit.modified else ''}",
    )
    for recipe, sha256 in recipes:
        try:
            check_recipe(Spec(recipe, sha256, []))
        except OSError as error:
            machine.problem = str(error)
            break
    return machine
