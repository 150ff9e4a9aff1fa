"""Fleets against the program started by hand: the same figures, what an engine adds to a job, what a dead node costs.

    .venv/bin/python -m benchmarks.fleet [--turns N]

A Ray cluster and a SLURM of two nodes each are started on this machine, as in the tests. Three questions:

- The same recipe, turn by turn, by hand and as a fleet here, on Ray, on SLURM, every second turn backwards: does
  `compare` call any cell faster or slower than by hand, and how far from 1 can the ratio be? Its interval is over
  turns: what this machine does for minutes, it does to all four. By hand against the next turn stands beside it.
- Jobs of a recipe that takes no time, one after the other: seconds from the placing of a job to its results at home,
  less what the same program takes when it is started by hand, start of Python included.
- A node is killed while its job runs: how many finished cells are lost?

SLURM needs root, slurm-wlm and munge; without them its rows say so. About a quarter of an hour.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from profiler import compare, load_run
from profiler.comparison.judge import Shift
from profiler.execution.fleet.driver import Driver
from profiler.execution.fleet.engine import make_engine
from profiler.execution.fleet.job import FILE, EngineOptions, Fleet, Job, read_fleet
from profiler.execution.fleet.node import Spec, check_recipe
from profiler.report.table import Table
from profiler.results.runs import list_runs, summarise
from profiler.results.statistics import CONFIDENCE
from profiler.results.types import Results
from profiler.shipped import recipe_path, shipped_folder
from tests.helpers import ray_cluster, slurm

RECIPE = "wav2vec2"
PLAIN = ("trace.breakdown=False", "export_logs=False", "measure.operations=False", "measure.rounds=6")
SHORT = ("audio_mockup_secs=[1,2]", "batch_sizes=[1]", "measure.budget=2", *PLAIN)
TO_LOSE = ("audio_mockup_secs=[1,2]", "batch_sizes=[1,2]", "measure.budget=5", *PLAIN)
BY_HAND = "by hand"
TURNS = 8
FEWEST_TURNS = 3
NOTHING = "log-mel"  # takes no time worth mentioning
LITTLE = ["profiling_dimensions.audio_mockup_secs=[1]", "profiling_dimensions.batch_sizes=[1]", "measure.rounds=1"]
LITTLE += ["measure.warmup=1", "measure.budget=0.1", "trace.breakdown=False", "profiling_dimensions.export_logs=False"]
JOBS = 4
MOST_OVERHEAD = 10.0
MOST_WAIT = 300.0
MINUTES = 30  # of a SLURM job: the partition has 60 at most


class Engines:
    """Where fleets run: name -> options of the command line, and the kill of a node."""

    def __init__(self, ray: ray_cluster.RayCluster, other: slurm.Slurm | None) -> None:
        self.ray, self.slurm = ray, other
        self.names = ["local", "ray", *(["slurm"] if other else [])]

    def options(self, name: str) -> list[str]:
        more = {"ray": ["--address", self.ray.address], "slurm": ["--time", str(MINUTES)]}
        return ["--on", name, *more.get(name, [])]

    def kill(self, name: str, machine: str) -> None:
        if name == "ray":
            self.ray.kill(machine.rsplit("-", 1)[1])
        elif self.slurm is not None:
            self.slurm.kill(machine)


@contextlib.contextmanager
def engines(folder: Path) -> Iterator[Engines]:
    with contextlib.ExitStack() as stack:
        (folder / "ray").mkdir()
        found = stack.enter_context(ray_cluster.running(folder / "ray"))
        other = None
        if slurm.installed():
            (folder / "slurm").mkdir()
            other = stack.enter_context(slurm.running(folder / "slurm"))
            os.environ |= other.environment
        yield Engines(found, other)


def start(there: Engines, name: str, logs: Path, *words: str) -> subprocess.Popen[str]:
    program = [sys.executable, str(shipped_folder() / "profile.py"), "fleet", *words, *there.options(name)]
    return subprocess.Popen(
        [*program, "--no-doctor", "--quiet", "--logdir", str(logs)],
        cwd=shipped_folder(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finished(process: subprocess.Popen[str], logs: Path) -> Fleet:
    said, _ = process.communicate()
    if process.returncode != 0:
        raise SystemExit(f"the fleet ended with status {process.returncode}:\n{said}")
    return fleet_in(logs)


def fleet_in(logs: Path) -> Fleet:
    (file,) = logs.glob(f"fleets/*/{FILE}")
    return read_fleet(file.parent)


# -- figures


def figures(there: Engines, folder: Path, turns: int) -> Table:
    runs: dict[str, list[Results]] = {name: [] for name in (BY_HAND, *there.names)}
    for turn in range(turns):
        for name in list(runs)[:: -1 if turn % 2 else 1]:
            runs[name].append(one_run(there, name, folder / f"figures-{name}-{turn}"))
    by_hand = runs[BY_HAND]
    rows = [_row("by hand, the next turn", by_hand[:-1], by_hand[1:])]
    rows += [_row(name, by_hand, found) for name, found in runs.items() if name != BY_HAND]
    header = ["against by hand", "cells", "faster", "slower", "same", "unclear", "ratio [95 % CI]", "none called"]
    title = f"The same recipe, {turns} turns, as compare sees it"
    return Table(title, header, rows, [] if there.slurm else [slurm.MISSING])


def one_run(there: Engines, name: str, logs: Path) -> Results:
    if name == BY_HAND:
        (run,) = list_runs(run_by_hand(recipe_path(RECIPE), SHORT, logs))
    else:
        (job,) = finished(start(there, name, logs, RECIPE, *SHORT), logs).jobs
        run = logs / job.run
    return load_run(run).results


def _row(name: str, before: list[Results], after: list[Results]) -> list[str]:
    compared = [compare(*pair).others[0].cells for pair in zip(before, after, strict=True)]
    found = [cell for cells in compared for cell in cells]
    verdicts = Counter(cell.speed.verdict for cell in found)
    called = verdicts["faster"] + verdicts["slower"]
    words = [str(verdicts[word]) for word in ("faster", "slower", "same", "unclear")]
    shift = Shift.of([_latencies(run) for run in before], [_latencies(run) for run in after], log_ratio)
    low, high = shift.ci(CONFIDENCE)
    ratio = f"{math.exp(shift.value):.3f} [{low:.3f}, {high:.3f}]"
    return [name, str(len(found)), *words, ratio, "NO" if called else "yes"]


def _latencies(run: Results) -> list[float]:
    return [cell.latency_s.median for cell in run.cells if cell.latency_s]


def log_ratio(before: Sequence[float], after: Sequence[float]) -> float:
    """Of one turn: the mean over cells."""
    return statistics.fmean(math.log(two / one) for one, two in zip(before, after, strict=True))


# -- overhead


def overhead(there: Engines, folder: Path) -> Table:
    recipe = recipe_path(NOTHING).resolve()
    alone = by_hand(recipe, folder / "by-hand")
    rows = []
    for name in there.names:
        each = job_seconds(there, name, recipe, folder / f"overhead-{name}")
        good = "yes" if each - alone < MOST_OVERHEAD else "NO"
        rows.append([name, f"{each:.1f} s", f"{alone:.1f} s", f"{each - alone:.1f} s", good])
    header = ["engine", "a job", "by hand", "overhead", f"below {MOST_OVERHEAD:g} s"]
    return Table(f"What an engine adds to a job, mean of {JOBS}", header, rows)


def by_hand(recipe: Path, logs: Path) -> float:
    """Seconds of the same program without a fleet."""
    begin = time.perf_counter()
    for _ in range(JOBS):
        run_by_hand(recipe, LITTLE, logs)
    return (time.perf_counter() - begin) / JOBS


def run_by_hand(recipe: Path, words: Sequence[str], logs: Path) -> Path:
    """The program as a person starts it; the log folder."""
    command = [sys.executable, str(shipped_folder() / "profile.py"), str(recipe), *words, "--quiet"]
    subprocess.run([*command, "--logdir", str(logs)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return logs


def job_seconds(there: Engines, name: str, recipe: Path, logs: Path) -> float:
    """Seconds of a job from its placing to its results at home: jobs of one machine take turns."""
    sha256 = hashlib.sha256(recipe.read_bytes()).hexdigest()
    check_recipe(Spec(str(recipe), sha256, []))
    folder = logs / "fleets" / "overhead"
    folder.mkdir(parents=True)
    jobs = [Job(f"job-{number}", str(recipe), sha256, LITTLE) for number in range(JOBS)]
    fleet = Fleet("overhead", name, "", doctor=False, jobs=jobs)
    options = EngineOptions(address=there.ray.address if name == "ray" else None, time=MINUTES)
    with contextlib.closing(make_engine(name, folder, "cpu", options)) as engine:
        fleet.machines = {machine.name: machine for machine in engine.machines([(str(recipe), sha256)])}
        begin = time.perf_counter()
        Driver(fleet, folder, logs, engine, {}, MOST_WAIT).run()
        took = (time.perf_counter() - begin) / JOBS
    wrong = [job.reason for job in fleet.jobs if job.status != "done"]
    if wrong:
        raise SystemExit(f"a job on {name} did not end well: {wrong[0]}")
    return took


# -- a dead node


def deaths(there: Engines, folder: Path) -> Table:
    rows = [death(there, name, folder / f"death-{name}") for name in there.names if name != "local"]
    header = ["engine", "cells before", "of these lost", "attempts", "the same run went on", "0 lost"]
    return Table("A node is killed while its job runs", header, rows)


def death(there: Engines, name: str, logs: Path) -> list[str]:
    """Kills the node once two cells are at home."""
    process = start(there, name, logs, RECIPE, *TO_LOSE)
    deadline = time.monotonic() + MOST_WAIT
    before: dict[Path, int] = {}
    while sum(before.values()) < 2:
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            raise SystemExit(f"the fleet on {name} measured nothing to lose:\n{process.communicate()[0]}")
        time.sleep(0.2)
        before = {
            file.parent: summarise(file.parent).cells.get("ok", 0) for file in logs.glob(f"{RECIPE}/*/results.json")
        }
    there.kill(name, fleet_in(logs).jobs[0].machine)
    (job,) = finished(process, logs).jobs
    lost = sum(max(0, count - summarise(run).cells.get("ok", 0)) for run, count in before.items())
    same = "yes" if {logs / job.run} == set(before) else "no"
    count = str(sum(before.values()))
    return [name, count, str(lost), str(len(job.attempts)), same, "NO" if lost else "yes"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--turns", type=int, default=TURNS, metavar="N", help="of the comparison (default: %(default)s)"
    )
    arguments = parser.parse_args()
    if arguments.turns < FEWEST_TURNS:
        parser.error(f"--turns {arguments.turns}: an interval needs {FEWEST_TURNS}")
    with tempfile.TemporaryDirectory() as name, engines(Path(name)) as there:
        folder = Path(name)
        tables = [figures(there, folder, arguments.turns), overhead(there, folder), deaths(there, folder)]
        print("\n\n".join(table.markdown() for table in tables))


if __name__ == "__main__":
    main()
