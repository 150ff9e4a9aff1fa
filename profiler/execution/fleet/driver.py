"""Drives a fleet: places jobs, brings their results home while they run, takes lost ones up again.

    each second: look at what runs -> copy what is new into logs/<recipe>/<run id> -> place what waits -> fleet.json

What counts is on this side's disk: a node, the engine or this very process may die, and the next driver goes on from
fleet.json and the runs. A run goes on only on the machine that it began on; elsewhere its recipe starts anew, and what
was measured before stays on disk as an interrupted run.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path

from profiler.errors import StorageError, UserError
from profiler.execution.fleet.engine import Engine, NotThere, Placed, State
from profiler.execution.fleet.job import GONE, Attempt, Fleet, Job, Machine
from profiler.execution.fleet.node import FIRST, Files, Seen, Spec, is_portion
from profiler.results.runs import now, summarise
from profiler.results.store import read_results, replacing
from profiler.results.untrusted import inside

POLL_SECONDS = 1.0
MOST_ATTEMPTS = 3
TAKEN = "the machines that it may run on are taken by other jobs of this fleet"
SEE_SECONDS = 15.0  # between two looks at which machines are there, while jobs wait
NOBODY = "no machine that it may run on is there"
MOST_NAMED = 3  # machines in a reason
CANNOT = "cannot be resumed"  # what a run says on a machine that has changed since it began
DRIVER_ENDED = "the driver ended"
INTERRUPTED = 130  # exit status of a program that was stopped in order
Watch = Callable[["Driver"], None]


@dataclass
class Live:
    """A job that an engine has."""

    job: Job
    placed: Placed
    resumes: bool = False  # a run that was begun before
    seen: Seen = field(default_factory=dict)
    state: State = field(default_factory=lambda: State("waiting"))


class Driver:
    def __init__(
        self,
        fleet: Fleet,
        folder: Path,
        logdir: Path,
        engine: Engine,
        environment: dict[str, str],
        patience: float,
        watch: Watch = lambda driver: None,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.fleet, self.folder, self.logdir, self.engine = fleet, folder, logdir, engine
        self.environment = environment  # thread settings of whoever started the fleet
        self.patience, self.watch, self.sleep, self.clock = patience, watch, sleep, clock
        self.live: dict[str, Live] = {}
        self.met: list[Machine] = []  # that described themselves when a job began there
        self.moved = clock()  # when something last happened
        self.seen_machines = clock()

    # -- the loop

    def run(self) -> None:
        """Until no job is open. An interruption, or a full disk, stops what runs in order, then is raised again."""
        try:
            self._attach()
            while any(job.open for job in self.fleet.jobs):
                self.step()
                self.watch(self)
                if any(job.open for job in self.fleet.jobs):
                    self.sleep(POLL_SECONDS)
        except (KeyboardInterrupt, StorageError):
            self._stop()
            raise
        finally:
            self.fleet.write(self.folder)

    def step(self) -> None:
        """One look at everything."""
        before = self._standing()
        for live in list(self.live.values()):
            try:
                self._look(live)
            except UserError as error:  # what a node sent is not what a run writes
                live.job.status, live.job.reason = "failed", str(error)
                self._end(live, "refused")
        self._place()
        if before != self._standing():
            self.moved = self.clock()
            self.fleet.write(self.folder)
        elif not any(live.state.state == "running" or live.state.queued for live in self.live.values()):
            self._lose_patience()

    def _standing(self) -> list[tuple[object, ...]]:
        return [(job.status, job.reason, job.cells, job.handle, len(job.attempts)) for job in self.fleet.jobs]

    def _attach(self) -> None:
        """Find again what a driver before this one had placed."""
        for job in self.fleet.jobs:
            placed = self.engine.attach(job.handle) if job.open and job.handle else None
            if placed is not None:
                self.live[job.id] = Live(job, placed, bool(job.run))
            elif job.status == "running":
                _over(job, DRIVER_ENDED)
                self._again(job, DRIVER_ENDED)

    def _place(self) -> None:
        """Jobs in their order: none overtakes another that waits for the same machines."""
        full: dict[tuple[str, str], str] = {}  # what a job may run on -> why it has to wait
        waiting = any(job.status == "waiting" and job.id not in self.live for job in self.fleet.jobs)
        if waiting and self.clock() - self.seen_machines >= SEE_SECONDS:
            self._see_machines()
        for job in self.fleet.jobs:
            if job.status != "waiting" or job.id in self.live:
                continue
            resume = job.run if job.run and self._goes_on(job) else ""
            where = (job.kind, self.fleet.machines[job.machine].boot if resume else "")
            placed = full.get(where) or self._placed(job, resume)
            if isinstance(placed, str):
                job.reason = full[where] = placed
                continue
            job.handle, job.reason = placed.handle, ""
            if not resume:
                job.run, job.cells, job.measured = "", 0, 0
            self.live[job.id] = Live(job, placed, bool(resume))

    def _placed(self, job: Job, resume: str) -> Placed | str:
        """The job on a machine, or why it has to wait."""
        fitting = self._allowed(job, resume)
        allowed = self._alone(fitting)
        if not allowed:
            return TAKEN if fitting else self._nobody(job)
        return self.engine.place(job.id, self._spec(job, resume), self._earlier(resume), allowed)

    def _nobody(self, job: Job) -> str:
        """Why there is no machine for it."""
        problems = Counter(
            f"{name}: {machine.problem}"
            for name, machine in self.fleet.machines.items()
            if machine.problem and (not job.kind or machine.kind == job.kind)
        )
        named = "; ".join(list(problems)[:MOST_NAMED])
        more = f"; and {len(problems) - MOST_NAMED} more" if len(problems) > MOST_NAMED else ""
        return f"{NOBODY}: {named}{more}" if named else NOBODY

    def _spec(self, job: Job, resume: str) -> Spec:
        fleet = self.fleet
        threads = ["--threads", str(fleet.threads)] if fleet.threads else []
        options = ["--device", fleet.device, *threads, *(["--trust"] if fleet.trust else [])]
        return Spec(
            job.recipe,
            job.sha256,
            [*fleet.overrides, *job.arguments, *options],
            self.environment,
            resume,
            fleet.doctor and not resume,
        )

    def _fit(self) -> list[str]:
        return [name for name, machine in self.fleet.machines.items() if not machine.problem]

    def _allowed(self, job: Job, resume: str) -> Collection[str]:
        machines = self.fleet.machines
        if resume:
            return [name for name in self._fit() if machines[name].boot == machines[job.machine].boot]
        return [name for name in self._fit() if not job.kind or machines[name].kind == job.kind]

    def _alone(self, names: Collection[str]) -> list[str]:
        """Without nodes that are the same machine as one where a job of ours runs, or is about to."""
        if self.fleet.device != "cpu":  # a job has a device to itself, and a machine several
            return list(names)
        machines = self.fleet.machines
        counts = Counter(machine.boot for machine in machines.values() if machine.described)
        live = [machines.get(live.state.machine) for live in self.live.values()]
        taken = {machine.boot for machine in live if machine is not None}
        if None in live:  # placed, nobody knows yet where
            taken |= {boot for boot, count in counts.items() if count > 1}
        return [name for name in names if counts[machines[name].boot] < 2 or machines[name].boot not in taken]

    def _goes_on(self, job: Job) -> bool:
        """Whether the machine that has begun this run is there, under this name or another."""
        begun = self.fleet.machines.get(job.machine)
        if begun is None or not begun.described or not (self.logdir / job.run / FIRST[1]).is_file():
            return False
        return any(self.fleet.machines[name].boot == begun.boot for name in self._fit())

    def _earlier(self, run: str) -> Files:
        if not run:
            return {}
        folder = self.logdir / run
        return {f"{run}/{name}": (folder / name).read_bytes() for name in FIRST if (folder / name).is_file()}

    # -- one job

    def _look(self, live: Live) -> None:
        job, state = live.job, live.placed.state()
        live.state, job.progress = state, state.look.progress
        if state.node is not None:
            self._meet(state.node)
        if state.state == "waiting":
            job.status, job.reason = "waiting", state.reason
            return
        if state.machine and (job.status == "waiting" or job.machine != state.machine):
            job.attempts.append(Attempt(state.machine, now()))
            job.tries += 1
            job.status, job.reason = "running", ""
        if job.attempts and state.look.undone:
            job.attempts[-1].undone = state.look.undone
        if state.state == "lost":
            self._end(live, state.reason)
            self._see_machines()
            self._again(job, state.reason)
            return
        try:
            self._collect(live, results_only=state.state == "running")
        except NotThere:
            return
        if state.state == "ended":
            self._ended(live, state)

    def _ended(self, live: Live, state: State) -> None:
        job, look = live.job, state.look
        self._learn(job)
        if look.ended == INTERRUPTED and look.stopped:
            self._end(live, look.stopped)
            self._again(job, look.stopped)
        elif look.ended == 0:
            job.status, job.reason = "done", ""
            self._end(live, "done")
        elif live.resumes and look.ended == 2 and CANNOT in look.log:
            why = f"{job.machine} has changed since the run {job.run} began, which stays as it is"
            self._end(live, why)
            job.run, job.cells, job.measured = "", 0, 0
            self._again(job, why)
        else:
            lines = look.log.splitlines()
            why = next(
                (line for line in reversed(lines) if line.startswith("profile.py: ")), lines[-1] if lines else ""
            )
            has_run = bool(job.run) and look.ended == 1
            job.status = "failed"
            job.reason = (
                "some cells failed" if has_run else f"exit status {look.ended}: {why.removeprefix('profile.py: ')}"
            )
            self._end(live, job.reason)

    def _measured(self, job: Job) -> int:
        """How far its run is."""
        try:
            found = read_results(self.logdir / job.run)
        except UserError:
            return 0
        rounds = sum(len(cell.latency_s.rounds) for cell in found.cells if cell.latency_s)
        batches = sum(len(batch.latency_s) for data in found.datasets for batch in data.samples)
        return rounds + batches + sum(len(load.steps) for load in found.serving)

    def _meet(self, node: Machine) -> None:
        """A node that nobody could ask before, or one with a problem that it did not have."""
        known = self.fleet.machines.get(node.name)
        if known is None or not known.described or (node.problem and node.problem != known.problem):
            self.fleet.machines[node.name] = node
            self.met.append(node)

    def _learn(self, job: Job) -> None:
        """What a run tells of its machine."""
        machine = self.fleet.machines.get(job.machine)
        with contextlib.suppress(UserError):
            environment = read_results(self.logdir / job.run).environment if job.run else None
            if machine is not None and environment is not None:
                machine.gflops = max(
                    (found.gflops for found in environment.references.values() if found.gflops), default=None
                )
                machine.floor = environment.noise_floor.value if environment.noise_floor else machine.floor

    def _end(self, live: Live, how: str) -> None:
        job = live.job
        _over(job, how)
        job.handle = job.progress = ""
        live.placed.forget()
        del self.live[job.id]

    def _again(self, job: Job, why: str) -> None:
        """A job whose machine or driver went away waits for its next turn. An attempt after which its run goes on, and
        is further than before, does not count: a recipe may need many time limits."""
        job.handle = ""
        measured = self._measured(job) if job.run else 0
        if measured > job.measured and self._goes_on(job):
            job.tries = 0
        job.measured = measured
        if job.tries >= MOST_ATTEMPTS:
            job.status = "failed"
            job.reason = f"given up after {MOST_ATTEMPTS} attempts that got no further; the last one: {why}"
        else:
            job.status, job.reason = "waiting", f"to be taken up again: {why}"

    def _see_machines(self) -> None:
        """Who is still there, and who is back."""
        self.seen_machines, alive = self.clock(), self.engine.alive()
        for name, machine in self.fleet.machines.items():
            if name not in alive:
                machine.problem = machine.problem or GONE
            elif machine.problem == GONE:
                machine.problem = ""

    def _collect(self, live: Live, results_only: bool) -> None:
        """Bring home what is new of the run, a portion at a time; names come from another machine and are checked."""
        more = True
        while more:
            before = live.seen
            files, live.seen = live.placed.changed(before, results_only)
            for name in before.keys() - live.seen.keys():  # the journal of a run that is over
                inside(self.logdir, name).unlink(missing_ok=True)
            for name, content in files.items():
                target = inside(self.logdir, name)
                try:
                    target.parent.mkdir(parents=True, exist_ok=True)
                    with replacing(target, to_disk=not results_only) as file:
                        file.write(content)
                except OSError as error:
                    raise StorageError(f"Cannot write {target}: {error.strerror}.") from None
            runs = {"/".join(Path(name).parts[:2]) for name in files}
            if runs:
                live.job.run = max(runs)
                live.job.cells = sum(summarise(self.logdir / live.job.run).cells.values())
            more = is_portion(files)

    # -- the end

    def _lose_patience(self) -> None:
        if self.clock() - self.moved < self.patience:
            return
        for job in self.fleet.jobs:
            if job.status == "waiting":
                job.status = "failed"
                job.reason = f"not placed within {self.patience / 60:g} min: {job.reason}"
                if (live := self.live.get(job.id)) is not None:
                    self._end(live, job.reason)

    def _stop(self) -> None:
        """Everything that runs ends in order, and what it has comes home."""
        for live in self.live.values():
            live.placed.stop()
        deadline = self.clock() + 30.0
        while self.live and self.clock() < deadline:
            for live in list(self.live.values()):
                live.state = live.placed.state()
                if live.state.state in ("ended", "lost", "waiting"):
                    if live.state.state == "ended":
                        with contextlib.suppress(NotThere, StorageError):
                            self._collect(live, results_only=False)
                    self._end(live, "interrupted")
            if self.live:
                self.sleep(0.2)
        for job in self.fleet.jobs:
            if job.open:
                job.status, job.reason = "interrupted", ""


def _over(job: Job, how: str) -> None:
    """Its last attempt has ended."""
    if job.attempts and not job.attempts[-1].ended:
        job.attempts[-1].ended, job.attempts[-1].end = now(), how


def take_up(fleet: Fleet) -> None:
    """Jobs that were interrupted, or failed, wait again; no attempt counts that was made before."""
    for job in fleet.jobs:
        job.tries = 0
        if job.status in ("interrupted", "failed"):
            job.status, job.reason = "waiting", ""
    if not any(job.open for job in fleet.jobs):
        raise UserError(f"The fleet {fleet.id} is finished: no job is left to resume.")
