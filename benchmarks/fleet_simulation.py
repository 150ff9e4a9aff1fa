"""A fleet of 1,000 recipes over 100 nodes: what the driver needs, the order of its jobs, and whether anything is lost.

    .venv/bin/python -m benchmarks.fleet_simulation [--recipes N] [--nodes N] [--deaths N]

The driver, fleet.json and the results store are the real ones; the engine is simulated and so is time. A job takes nine
cells of 20 s to 10 min each, and its results have the size of real ones. Nodes die in the middle: every second one
comes back after ten minutes, the others stay away. What engines themselves take (a call to an actor, a shared file
system) is no part of it. About two minutes.
"""

from __future__ import annotations

import argparse
import random
import resource
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from profiler.execution.fleet.driver import POLL_SECONDS, Driver
from profiler.execution.fleet.engine import Placed, State
from profiler.execution.fleet.job import FILE, Fleet, Job, Machine
from profiler.execution.fleet.node import Files, Look, Seen, Spec
from profiler.report.table import Table
from profiler.results.runs import list_runs, summarise
from profiler.units import clock_text
from tests.helpers.fleets import Clock
from tests.helpers.synthetic import STEADY, Made, make

CELLS = 9
START_SECONDS = 10.0  # from the placing of a job to its first call
CELL_SECONDS = (20.0, 600.0)
BACK_SECONDS = 600.0
MB = 1e6


def results_of(cells: int) -> list[bytes]:
    """results.json of a run that goes on, after 0, 1, 2, ... cells."""
    grid = tuple((float(number + 1), 1) for number in range(cells))
    whole = make(Made(grid=grid, machine=STEADY))
    found = []
    for number in range(cells + 1):
        part = whole.model_copy(update={"cells": whole.cells[:number]})
        found.append(part.model_dump_json(by_alias=True).encode())
    return found


class _Cells(msgspec.Struct):
    cells: list[msgspec.Raw] = []


@dataclass(eq=False)
class SimulatedJob:
    """A run on a node: cells are finished as time passes."""

    engine: SimulatedEngine
    name: str
    run: str
    machine: str
    before: int  # cells that an earlier attempt had
    start: float
    cell_seconds: float
    handle: str = ""
    lost: bool = False

    @property
    def cells(self) -> int:
        done = (self.engine.clock() - self.start - START_SECONDS) / self.cell_seconds
        return min(CELLS, self.before + max(0, int(done)))

    def state(self) -> State:
        self.engine.events()
        if self.lost:
            return State("lost", f"{self.machine} is gone", self.machine)
        ended = self.cells == CELLS
        return State("ended" if ended else "running", "", self.machine, Look(0 if ended else None))

    def changed(self, seen: Seen, results_only: bool) -> tuple[Files, Seen]:
        name, cells = f"{self.run}/results.json", self.cells
        text = self.engine.texts[cells]
        now = {name: (cells, len(text))}
        self.engine.home[self.run] = max(cells, self.engine.home[self.run])
        return ({name: text} if seen != now else {}), now

    def stop(self) -> None:
        raise AssertionError("nothing is stopped here")

    def forget(self) -> None:
        self.engine.busy.pop(self.machine, None)


@dataclass
class SimulatedEngine:
    """Nodes that take one job each, and die when it is their time."""

    clock: Clock
    there: dict[str, Machine]
    deaths: list[tuple[float, str]]  # when, which node
    texts: list[bytes]
    chance: random.Random
    cell_seconds: tuple[float, float]
    busy: dict[str, SimulatedJob] = field(default_factory=dict)
    back: list[tuple[float, Machine]] = field(default_factory=list)
    home: Counter[str] = field(default_factory=Counter)  # run -> cells that the driver has seen
    order: list[str] = field(default_factory=list)  # of jobs, as they were placed
    work: float = 0.0  # seconds of all nodes
    died: int = 0

    def events(self) -> None:
        """What has happened until now."""
        while self.deaths and self.deaths[0][0] <= self.clock():
            _, name = self.deaths.pop(0)
            machine = self.there.pop(name, None)
            if machine is None:
                continue
            self.died += 1
            if name in self.busy:
                self.busy[name].lost = True
            if self.died % 2:
                self.back.append((self.clock() + BACK_SECONDS, machine))
        while self.back and self.back[0][0] <= self.clock():
            _, machine = self.back.pop(0)
            self.there[machine.name] = machine

    def machines(self, recipes: Collection[tuple[str, str]], alone: Collection[str] = ()) -> list[Machine]:
        return list(self.there.values())

    def alive(self) -> set[str]:
        self.events()
        return set(self.there)

    def place(self, name: str, spec: Spec, earlier: Files, allowed: Collection[str] | None) -> Placed | str:
        self.events()
        free = next((each for each in allowed or () if each in self.there and each not in self.busy), None)
        if free is None:
            return "all machines are taken by other jobs of this fleet"
        before = len(msgspec.json.decode(next(iter(earlier.values())), type=_Cells).cells) if earlier else 0
        run = spec.resume or f"{name}/run-{len(self.order):05d}"
        job = SimulatedJob(self, name, run, free, before, self.clock(), self.chance.uniform(*self.cell_seconds))
        self.work += START_SECONDS + (CELLS - before) * job.cell_seconds
        self.busy[free] = job
        self.order.append(name)
        return job

    def attach(self, handle: str) -> Placed | None:
        return None

    def close(self) -> None:
        pass


@dataclass
class Simulated:
    """What became of it."""

    fleet: Fleet
    engine: SimulatedEngine
    logdir: Path
    steps: list[float]  # CPU seconds of each look at everything
    seconds: float  # of simulated time

    @property
    def lost(self) -> int:
        """Cells that had come home and are on disk no more."""
        on_disk = {run: sum(summarise(self.logdir / run).cells.values()) for run in self.engine.home}
        return sum(max(0, count - on_disk[run]) for run, count in self.engine.home.items())

    @property
    def in_order(self) -> bool:
        """Whether jobs began in the order in which they were given."""
        first = list(dict.fromkeys(self.engine.order))
        return first == [job.id for job in self.fleet.jobs]


def simulate(
    logdir: Path, recipes: int, nodes: int, deaths: int, cell_seconds: tuple[float, float] = CELL_SECONDS
) -> Simulated:
    clock, chance = Clock(), random.Random(0)
    machines = {f"n{number:03d}": Machine(f"n{number:03d}", "a kind", f"boot-{number}", 2) for number in range(nodes)}
    length = START_SECONDS + CELLS * statistics.fmean(cell_seconds)
    end = length * max(1.0, recipes / nodes)
    dying = sorted((chance.uniform(0, end), name) for name in chance.sample(list(machines), deaths))
    engine = SimulatedEngine(clock, dict(machines), dying, results_of(CELLS), chance, cell_seconds)
    jobs = [Job(f"recipe-{number:04d}", f"/recipes/recipe-{number:04d}.yaml", "0" * 64) for number in range(recipes)]
    fleet = Fleet("simulated", "simulated", "2026-01-01", jobs=jobs, machines=machines)
    folder = logdir / "fleets" / fleet.id
    folder.mkdir(parents=True)
    driver = Driver(fleet, folder, logdir, engine, {}, 3600.0, sleep=clock.sleep, clock=clock)
    steps = []
    while any(job.open for job in fleet.jobs):
        before = time.process_time()
        driver.step()
        steps.append(time.process_time() - before)
        clock.sleep(POLL_SECONDS)
    return Simulated(fleet, engine, logdir, steps, clock())


def table_of(found: Simulated, grown: float) -> Table:
    fleet, engine = found.fleet, found.engine
    attempts = Counter(len(job.attempts) for job in fleet.jobs)
    done = sum(job.status == "done" for job in fleet.jobs)
    runs = list_runs(found.logdir)
    begin = time.perf_counter()
    for run in runs:
        summarise(run)
    listing = time.perf_counter() - begin
    size = sum(file.stat().st_size for file in found.logdir.rglob("results.json"))
    ideal = engine.work / len(fleet.machines)
    mean, slowest = statistics.fmean(found.steps), sorted(found.steps)[int(0.99 * len(found.steps))]
    one = (found.logdir / "fleets" / fleet.id / FILE).stat().st_size
    rows = [
        ["jobs done", f"{done} of {len(fleet.jobs)}, {attempts[1]} of them at the first attempt"],
        ["nodes that died, and came back", f"{engine.died}, {(engine.died + 1) // 2}"],
        ["finished cells that were lost", str(found.lost)],
        ["jobs began in the order given", "yes" if found.in_order else "NO"],
        ["simulated time", f"{clock_text(found.seconds)}; all nodes busy throughout: {clock_text(ideal)}"],
        ["a look at everything, each second", f"{mean * 1e3:.1f} ms of CPU; p99 {slowest * 1e3:.1f} ms"],
        ["memory that the driver grew by", f"{grown / MB:.1f} MB"],
        ["fleet.json", f"{one / MB:.2f} MB"],
        ["results store", f"{len(runs)} runs, {size / MB:.0f} MB; reading all their heads takes {listing:.2f} s"],
    ]
    return Table(f"A fleet of {len(fleet.jobs)} recipes over {len(fleet.machines)} nodes, simulated", ["", ""], rows)


def peak() -> float:
    """Bytes that this process had at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipes", type=int, default=1000, metavar="N")
    parser.add_argument("--nodes", type=int, default=100, metavar="N")
    parser.add_argument("--deaths", type=int, default=20, metavar="N", help="nodes that die on the way")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        simulate(Path(folder) / "small", 10, 5, 1)  # what is imported and made once
        before = peak()
        found = simulate(Path(folder) / "logs", arguments.recipes, arguments.nodes, arguments.deaths)
        grown = peak() - before
        print(table_of(found, grown).markdown())
        if found.lost or not found.in_order or any(job.status != "done" for job in found.fleet.jobs):
            sys.exit(1)


if __name__ == "__main__":
    main()
