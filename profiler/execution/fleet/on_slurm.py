"""SLURM as an engine, through submitit: one job on one whole node, or on what `gres` asks for.

SLURM's own accounting is often not there, so what became of jobs is asked of `squeue`, once for all of them. The
fleet's folder must be seen by all nodes, which submitit needs anyway. Before the time limit SLURM sends a signal: our
program then ends in order, and the driver submits the rest again.

Nodes that have room describe themselves before anything runs. A node that others use all of could answer hours later:
it describes itself when a job of ours begins there.
"""

from __future__ import annotations

import contextlib
import io
import logging
import math
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec

from profiler.errors import UserError
from profiler.execution.fleet.engine import Placed, State, require
from profiler.execution.fleet.job import EngineOptions, Machine
from profiler.execution.fleet.node import Files, Look, Program, Seen, Spec, changed, describe, free_cpus, progress_in
from profiler.results.store import write_atomically

ASK_SECONDS = 2.0  # between two questions to the scheduler
LOOK_SECONDS = 10.0  # between two looks at the nodes
BEGIN_SECONDS = 60.0  # for the job in which a node describes itself to begin; the queue may be long
ANSWER_SECONDS = 300.0  # for its answer then: Python on a shared file system may be slow
GONE_SECONDS = 15.0  # a result may reach a shared file system later than the end of its job is known
SIGNAL_SECONDS = 30  # before the time limit, or up to a minute more: SLURM looks once a minute
TIME_LIMIT = "the time limit of its SLURM job (--time), or a preemption"
MOST_MINUTES = 720  # of a job, where nothing else is said and the partition allows it
DESCRIBE_MINUTES = 10
MOST_QUEUED = 200  # jobs of a fleet in the queue at once
NODE = "node.json"  # in the folder of a job: how its node describes itself
ROOM = ("idle", "mixed")  # states of nodes on which a small job can begin at once
# Why jobs wait in the ordinary course of things: others are before them.
ITS_TURN = ("None", "Priority", "Resources", "QOSMaxJobsPerUserLimit", "AssocMaxJobsLimit")
SHARED = "the log folder must lie on a file system that all nodes see at the same path (--logdir)"


def run_on_node(spec: Spec, spool: str, earlier: Files) -> Look:
    """What a SLURM job does. Signals mean that its time is over."""
    folder = Path(spool)
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / NODE, msgspec.json.encode(describe([(spec.recipe, spec.sha256)])).decode())
    program = Program(spec, folder, earlier, free_cpus())

    def stop(number: int, frame: FrameType | None) -> None:
        program.stop(TIME_LIMIT)

    for name in ("SIGUSR1", "SIGUSR2", "SIGTERM"):  # instead of submitit's own handlers, which submit the job again
        signal.signal(getattr(signal, name), stop)
    return program.wait()


def describe_node(recipes: Sequence[tuple[str, str]]) -> Machine:
    return describe(recipes)


class SlurmEngine:
    def __init__(self, folder: Path, device: str, options: EngineOptions) -> None:
        require("submitit", "slurm")
        for command in ("sinfo", "squeue", "sbatch"):
            if shutil.which(command) is None:
                raise UserError(
                    f"--on slurm: there is no {command} here. Start the fleet on a login node of the cluster."
                )
        import submitit

        logging.getLogger("submitit").setLevel(logging.ERROR)
        self.submitit, self.folder, self.options, self.device = submitit, folder / "slurm", options, device
        self.names = _nodes(options.partition)
        limit = _time_limit(options.partition)
        if options.time and options.time > limit:
            raise UserError(f"--time {options.time}: a job may take {limit:g} minutes at most in this partition.")
        self.minutes = int(min(options.time or MOST_MINUTES, limit))
        self.spools = folder / "spool"
        self.placed: dict[str, SlurmJob] = {}
        self._queue: dict[str, tuple[str, str, str]] = {}
        self._working = set(self.names)
        self._asked = self._looked = 0.0

    def _executor(self, minutes: int, **more: Any) -> Any:
        executor = self.submitit.AutoExecutor(folder=self.folder / "%j", cluster="slurm")
        options = self.options
        wanted = {"partition": options.partition, "constraint": options.constraint, "gres": options.gres, **more}
        given = {f"slurm_{name}": value for name, value in wanted.items() if value}
        executor.update_parameters(
            timeout_min=minutes, nodes=1, tasks_per_node=1, slurm_signal_delay_s=SIGNAL_SECONDS, **given
        )
        return executor

    def _submit(self, executor: Any, *call: Any) -> Any:
        """The job, or why sbatch refuses it: features, gres, limits."""
        try:
            with contextlib.redirect_stderr(io.StringIO()):  # submitit prints it, too
                return executor.submit(*call)
        except self.submitit.core.utils.FailedJobError as error:
            return f"sbatch refuses a job: {_last_line(error).removeprefix('sbatch: error: ')}"

    def machines(self, recipes: Collection[tuple[str, str]], alone: Collection[str] = ()) -> list[Machine]:
        """Each node that has room is asked by a short job of its own; of the others only the name is known."""
        room = [name for name, state in self.names.items() if _is(state, ROOM) and name not in alone]
        asked = room[:MOST_QUEUED]
        found = [
            Machine(name, problem="" if _is(state, WORKING) else f"is {state}")
            for name, state in self.names.items()
            if name not in asked
        ]
        jobs: dict[str, Any] = {}
        try:
            for name in asked:
                parameters = {"nodelist": name, "oversubscribe": True}
                executor = self._executor(min(DESCRIBE_MINUTES, self.minutes), additional_parameters=parameters)
                job = self._submit(executor, describe_node, list(recipes))
                if isinstance(job, str):
                    found.append(Machine(name, problem=job))
                else:
                    jobs[name] = job
            begin = time.monotonic()
            found += [self._described(name, job, begin) for name, job in jobs.items()]
        finally:  # whatever is left in the queue: of nodes that gave no answer, or after an interruption
            left = [job.job_id for job in jobs.values() if not job.paths.result_pickle.exists()]
            if left:
                _ask("scancel", *left)
        return sorted(found, key=lambda machine: machine.name)

    def _described(self, name: str, job: Any, begin: float) -> Machine:
        """What a node says of itself, or why it says nothing."""
        answer, over_since = job.paths.result_pickle, 0.0
        while not answer.exists():
            state = (_ask("squeue", "-h", "-j", job.job_id, "-o", "%T") or "").strip()
            waited = time.monotonic() - begin
            if state == "PENDING" and waited > BEGIN_SECONDS:
                return Machine(name)
            if waited > BEGIN_SECONDS + ANSWER_SECONDS:
                return Machine(name, problem=f"gave no answer within {ANSWER_SECONDS:g} s")
            if not state:
                over_since = over_since or time.monotonic()
                if time.monotonic() - over_since > GONE_SECONDS:
                    return Machine(name, problem=f"left no answer in {self.folder.name}: {SHARED}")
            time.sleep(0.5)
        try:
            machine: Machine = job.result()
        except Exception as error:  # whatever the node's Python said
            machine = Machine(name, problem=f"cannot run the profiler: {_last_line(error)}")
        machine.name = name
        return machine

    def alive(self) -> set[str]:
        return {name for name, state in _nodes(self.options.partition).items() if _is(state, WORKING)}

    def working(self) -> set[str]:
        """The same, asked now and then."""
        if time.monotonic() - self._looked >= LOOK_SECONDS:
            self._looked, self._working = time.monotonic(), self.alive()
        return self._working

    def place(self, name: str, spec: Spec, earlier: Files, allowed: Collection[str] | None) -> Placed | str:
        mine = [job for job in self.placed.values() if not job.over]
        if len(mine) >= MOST_QUEUED:
            return f"{MOST_QUEUED} jobs of this fleet are in the queue"
        more: dict[str, Any] = {}
        parameters: dict[str, Any] = {"no-requeue": True}  # a job whose node died is the driver's business
        if allowed is not None:
            others = [node for node in self.names if node not in allowed]
            if len(others) == len(self.names):
                return f"none of the machines that it may run on is there: {', '.join(allowed)}"
            if others:
                parameters["exclude"] = ",".join(others)
        if self.options.exclusive:
            more["exclusive"] = True
        spool = self.spools / f"{name}-{time.time_ns()}"
        executor = self._executor(self.minutes, additional_parameters=parameters, **more)
        job = self._submit(executor, run_on_node, spec, str(spool), earlier)
        return job if isinstance(job, str) else self._take(job, spool)

    def attach(self, handle: str) -> Placed | None:
        identity, _, spool = handle.partition(" ")
        if Path(spool).parent != self.spools:  # the log folder was moved
            return None
        return self._take(self.submitit.SlurmJob(self.folder / "%j", identity), Path(spool))

    def _take(self, job: Any, spool: Path) -> SlurmJob:
        self.placed[job.job_id] = SlurmJob(self, job, spool)
        return self.placed[job.job_id]

    def queue(self) -> dict[str, tuple[str, str, str]]:
        """job -> its state, its node and why it waits."""
        if time.monotonic() - self._asked >= ASK_SECONDS:
            self._asked = time.monotonic()
            ids = ",".join(name for name, job in self.placed.items() if not job.over)
            answer = _ask("squeue", "-h", "-t", "all", "-j", ids, "-o", "%i|%T|%N|%r") if ids else ""
            if answer is not None:
                rows = [line.split("|") for line in answer.splitlines()]
                self._queue = {row[0]: (row[1], row[2], row[3]) for row in rows if len(row) == 4}
        return self._queue

    def close(self) -> None:
        for job in self.placed.values():
            job.forget()


OVER = {
    "COMPLETED",
    "FAILED",
    "CANCELLED",
    "TIMEOUT",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "PREEMPTED",
    "BOOT_FAIL",
    "DEADLINE",
}


class SlurmJob:
    def __init__(self, engine: SlurmEngine, job: Any, spool: Path) -> None:
        self.engine, self.job, self.spool = engine, job, spool
        self.handle, self.over, self.machine = f"{job.job_id} {spool}", False, ""
        self.gone_since = 0.0

    def state(self) -> State:
        state = self._state()
        state.node = (self._node() if self.machine else None) or state.node
        return state

    def _node(self) -> Machine | None:
        """The node as it described itself when the job began."""
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            return msgspec.structs.replace(
                msgspec.json.decode((self.spool / NODE).read_bytes(), type=Machine), name=self.machine
            )
        return None

    def _state(self) -> State:
        result = self.job.paths.result_pickle
        if not result.exists():
            status, name, why = self.engine.queue().get(self.job.job_id, ("GONE", "", ""))
            self.machine = name or self.machine
            if status in ("PENDING", "CONFIGURING"):
                return State("waiting", f"in SLURM's queue: {why}", queued=why in ITS_TURN)
            running = State("running", machine=self.machine, look=Look(progress=progress_in(self.spool)))
            going_on = status not in OVER and status not in ("GONE", "COMPLETING")
            if going_on and self.machine in self.engine.working():
                self.gone_since = 0.0
                return running
            self.gone_since = self.gone_since or time.monotonic()
            if time.monotonic() - self.gone_since < GONE_SECONDS:
                return running
            if not result.exists():
                self.forget_job()
                what = f"{self.machine} does not answer" if going_on else status.lower().replace("_", " ")
                return State("lost", f"SLURM ended it, or lost its node: {what} ({why})", self.machine)
        self.over = True
        try:
            return State("ended", machine=self.machine, look=self.job.result())
        except Exception as error:  # whatever the node's Python said
            why = _last_line(error)
            node = Machine(self.machine, problem=f"cannot run the profiler: {why}")
            return State("lost", why, self.machine, node=node)

    def changed(self, seen: Seen, results_only: bool) -> tuple[Files, Seen]:
        return changed(self.spool, seen, results_only)

    def stop(self) -> None:
        _ask("scancel", "--signal=USR2", self.job.job_id)

    def forget_job(self) -> None:
        if not self.over:
            _ask("scancel", self.job.job_id)
        self.over = True

    def forget(self) -> None:
        self.forget_job()
        shutil.rmtree(self.spool, ignore_errors=True)


def _last_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[-1] if lines else type(error).__name__


WORKING = (*ROOM, "allocated", "completing")


def _is(state: str, one_of: Collection[str]) -> bool:
    """Of a state that sinfo tells; an asterisk stands behind that of a node which does not answer."""
    return state.rstrip("~#!%$@^-+") in one_of


def _nodes(partition: str | None) -> dict[str, str]:
    """name -> state, of the nodes that the partition has."""
    answer = _ask("sinfo", "-h", "-N", "-o", "%N|%T", *(["-p", partition] if partition else []))
    if answer is None:
        raise UserError(
            "--on slurm: sinfo does not answer. Is this a login node of the cluster, and its controller up?"
        )
    nodes = dict(line.split("|", 1) for line in answer.split() if "|" in line)
    if not nodes:
        raise UserError(f"--on slurm: there are no nodes{f' in the partition {partition}' if partition else ''}.")
    return nodes


def _time_limit(partition: str | None) -> float:
    """Minutes that a job may take there; without a name, in the default partition, which has an asterisk."""
    rows = [line.split("|", 1) for line in (_ask("sinfo", "-h", "-o", "%P|%l") or "").split() if "|" in line]
    mine = [text for name, text in rows if (name.rstrip("*") == partition if partition else name.endswith("*"))]
    return max(map(_minutes, mine), default=math.inf)


def _minutes(text: str) -> float:
    """'infinite', '30:00', '2:30:00', '5-12:00:00'."""
    found = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", text)
    if not found:
        return math.inf
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return (days * 24 + hours) * 60 + minutes + seconds / 60


def _ask(*command: str) -> str | None:
    """What a command of SLURM's prints; None where it fails."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
