"""A fleet on Ray and on SLURM against one on this machine: the same figures, what a job costs, what a dead node costs.

    .venv/bin/python -m benchmarks.fleet [--turns N]

A Ray cluster and a SLURM of two nodes each are started on this machine, as in the tests. Three questions:

- The same recipe, turn by turn, local, on Ray, on SLURM: does `compare` call any cell faster or slower?
- Jobs of a recipe that takes no time, one after the other: seconds from the placing of a job to its results at home,
  less what the same program takes when it is started by hand, start of Python included.
- A node is killed while its job runs: how many finished cells are lost?

SLURM needs root, slurm-wlm and munge; without them its rows say so. About ten minutes.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from profiler import compare, load_run
from profiler.execution.fleet.driver import Driver
from profiler.execution.fleet.engine import make_engine
from profiler.execution.fleet.job import FILE, EngineOptions, Fleet, Job, read_fleet
from profiler.execution.fleet.node import Spec, check_recipe
from profiler.report.table import Table
from profiler.results.runs import summarise
from profiler.results.types import Results
from profiler.shipped import recipe_path, shipped_folder
from tests.helpers import ray_cluster, slurm

RECIPE = "wav2vec2"
SETTINGS = (
    "audio_mockup_secs=[1,2]",
    "batch_sizes=[1,2]",
    "measure.budget=5",
    "trace.breakdown=False",
    "export_logs=False",
)
TURNS = 3
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
    runs: dict[str, list[Results]] = {name: [] for name in there.names}
    for turn in range(turns):
        for name in there.names:
            logs = folder / f"{name}-{turn}"
            (job,) = finished(start(there, name, logs, RECIPE, *SETTINGS), logs).jobs
            runs[name].append(load_run(logs / job.run).results)
    rows = []
    local = runs["local"]
    pairs = {"local, the next turn": list(itertools.pairwise(local))}
    pairs |= {name: list(zip(local, found, strict=True)) for name, found in runs.items() if name != "local"}
    for name, each in pairs.items():
        found = [cell for before, after in each for cell in compare(before, after).others[0].cells]
        verdicts = Counter(cell.speed.verdict for cell in found)
        ratios = [cell.latency_s[1] / cell.latency_s[0] for cell in found if cell.latency_s[0] and cell.latency_s[1]]
        called = verdicts["faster"] + verdicts["slower"]
        span = f"{min(ratios):.3f} to {max(ratios):.3f}" if ratios else "-"
        words = [str(verdicts[word]) for word in ("faster", "slower", "same", "unclear")]
        rows.append([name, str(len(found)), *words, span, "NO" if called else "yes"])
    header = ["against local", "cells", "faster", "slower", "same", "unclear", "ratios", "none called"]
    title = f"The same recipe on other engines, {turns} turns, as compare sees it"
    return Table(title, header, rows, [] if there.slurm else [slurm.MISSING])


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
        command = [sys.executable, str(shipped_folder() / "profile.py"), str(recipe), *LITTLE, "--quiet"]
        subprocess.run(
            [*command, "--logdir", str(logs)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
    return (time.perf_counter() - begin) / JOBS


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
    process = start(there, name, logs, RECIPE, *SETTINGS)
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
    with tempfile.TemporaryDirectory() as name, engines(Path(name)) as there:
        folder = Path(name)
        tables = [figures(there, folder, arguments.turns), overhead(there, folder), deaths(there, folder)]
        print("\n\n".join(table.markdown() for table in tables))


if __name__ == "__main__":
    main()
