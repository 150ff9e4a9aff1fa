"""SLURM as an engine, through submitit: one job on one whole node, or on what `gres` asks for.

SLURM's own accounting is often not there, so what became of jobs is asked of `squeue`, once for all of them. The
fleet's folder must be seen by all nodes, which submitit needs anyway. Before the time limit SLURM sends a signal: our
program then ends in order, and the driver submits the rest again.
"""

from __future__ import annotations

import contextlib
import io
import logging
import shutil
import signal
import subprocess
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from profiler.errors import UserError
from profiler.execution.fleet.engine import Placed, State, require
from profiler.execution.fleet.job import EngineOptions, Machine
from profiler.execution.fleet.node import Files, Look, Program, Seen, Spec, changed, describe

ASK_SECONDS = 2.0  # between two questions to the scheduler
LOOK_SECONDS = 10.0  # between two looks at the nodes
ANSWER_SECONDS = 300.0  # for a node to describe itself: the queue may be long
GONE_SECONDS = 15.0  # a result may reach a shared file system later than the end of its job is known
TIME_LIMIT = "the time limit of its SLURM job, or a preemption"
MOST_QUEUED = 200  # jobs of a fleet in the queue at once
SHARED = "the log folder must lie on a file system that all nodes see at the same path (--logdir)"


def run_on_node(spec: Spec, spool: str, earlier: Files) -> Look:
    """What a SLURM job does. Signals mean that its time is over."""
    program = Program(spec, Path(spool), earlier)

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
        self.placed: dict[str, SlurmJob] = {}
        self._queue: dict[str, tuple[str, str, str]] = {}
        self._working = set(self.names)
        self._asked = self._looked = 0.0

    def _executor(self, minutes: int, **more: Any) -> Any:
        executor = self.submitit.AutoExecutor(folder=self.folder / "%j", cluster="slurm")
        options = self.options
        wanted = {"partition": options.partition, "constraint": options.constraint, "gres": options.gres, **more}
        given = {f"slurm_{name}": value for name, value in wanted.items() if value}
        executor.update_parameters(timeout_min=minutes, nodes=1, tasks_per_node=1, **given)
        return executor

    def _submit(self, executor: Any, *call: Any) -> Any:
        """The job, or why sbatch refuses it: features, gres, limits."""
        try:
            with contextlib.redirect_stderr(io.StringIO()):  # submitit prints it, too
                return executor.submit(*call)
        except self.submitit.core.utils.FailedJobError as error:
            return f"sbatch refuses a job: {_last_line(error).removeprefix('sbatch: error: ')}"

    def machines(self, recipes: Collection[tuple[str, str]]) -> list[Machine]:
        """Each node is asked by a short job of its own, beside whatever runs there."""
        found = [Machine(name, problem=f"is {state}") for name, state in self.names.items() if not _works(state)]
        jobs: dict[str, Any] = {}
        try:
            for name in self.names.keys() - {machine.name for machine in found}:
                executor = self._executor(10, additional_parameters={"nodelist": name, "oversubscribe": True})
                job = self._submit(executor, describe_node, list(recipes))
                if isinstance(job, str):
                    found.append(Machine(name, problem=job))
                else:
                    jobs[name] = job
            deadline = time.monotonic() + ANSWER_SECONDS
            for name, job in jobs.items():
                machine = self._described(name, job, deadline)
                machine.name = name
                found.append(machine)
        finally:  # whatever is left in the queue: of nodes that gave no answer, or after an interruption
            left = [job.job_id for job in jobs.values() if not job.paths.result_pickle.exists()]
            if left:
                _ask("scancel", *left)
        return sorted(found, key=lambda machine: machine.name)

    def _described(self, name: str, job: Any, deadline: float) -> Machine:
        """What a node says of itself, or why it says nothing."""
        answer, over_since = job.paths.result_pickle, 0.0
        while not answer.exists():
            if time.monotonic() > deadline:
                why = _ask("squeue", "-h", "-j", job.job_id, "-o", "%r") or ""
                return Machine(
                    name, problem=f"gave no answer within {ANSWER_SECONDS:g} s ({why.strip() or 'no reason'})"
                )
            if not _ask("squeue", "-h", "-j", job.job_id, "-o", "%T"):
                over_since = over_since or time.monotonic()
                if time.monotonic() - over_since > GONE_SECONDS:
                    return Machine(name, problem=f"left no answer in {self.folder.name}: {SHARED}")
            time.sleep(0.5)
        try:
            machine: Machine = job.result()
        except Exception as error:  # whatever the node's Python said
            machine = Machine(name, problem=f"cannot run the profiler: {_last_line(error)}")
        return machine

    def alive(self) -> set[str]:
        return {name for name, state in _nodes(self.options.partition).items() if _works(state)}

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
        spool = self.folder.parent / "spool" / f"{name}-{time.time_ns()}"
        executor = self._executor(self.options.time or 720, additional_parameters=parameters, **more)
        job = self._submit(executor, run_on_node, spec, str(spool), earlier)
        return job if isinstance(job, str) else self._take(job, spool)

    def attach(self, handle: str) -> Placed | None:
        identity, _, spool = handle.partition(" ")
        if not spool or not Path(spool).parent.is_dir():
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
        result = self.job.paths.result_pickle
        if not result.exists():
            status, node, why = self.engine.queue().get(self.job.job_id, ("GONE", "", ""))
            self.machine = node or self.machine
            if status in ("PENDING", "CONFIGURING"):
                return State("waiting", f"in SLURM's queue: {why}")
            going_on = status not in OVER and status not in ("GONE", "COMPLETING")
            if going_on and self.machine in self.engine.working():
                self.gone_since = 0.0
                return State("running", machine=self.machine)
            self.gone_since = self.gone_since or time.monotonic()
            if time.monotonic() - self.gone_since < GONE_SECONDS:
                return State("running", machine=self.machine)
            if not result.exists():
                self.forget_job()
                what = f"{self.machine} does not answer" if going_on else status.lower().replace("_", " ")
                return State("lost", f"SLURM ended it, or lost its node: {what} ({why})", self.machine)
        self.over = True
        try:
            return State("ended", machine=self.machine, look=self.job.result())
        except Exception as error:  # whatever the node's Python said
            return State("lost", _last_line(error), self.machine)

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


WORKING = ("idle", "mixed", "allocated", "completing")


def _works(state: str) -> bool:
    """A state of sinfo; an asterisk stands behind that of a node which does not answer."""
    return state.rstrip("~#!%$@^-+") in WORKING


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


def _ask(*command: str) -> str | None:
    """What a command of SLURM's prints; None where it fails."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
