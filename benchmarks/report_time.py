"""How long the commands that need no model take to answer, beyond the start of Python itself.

    .venv/bin/python -m benchmarks.report_time [RUN...]

`show` and `compare` are to answer within 0.5 s, `report` and `history` within 1 s. The best of five starts of the whole
program. `report` and `history` write files too: `first` is without them, when all plots are drawn and every view is
written; otherwise they are up to date, as after a run. Of each RUN `report` alone; without one, a run that the tests
keep. About a minute.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from profiler.report.table import Table
from profiler.results.runs import find_run
from profiler.results.store import read_results
from profiler.results.types import FILE
from profiler.shipped import shipped_folder
from tests.helpers.synthetic import Made, make, save

WANTED = 0.5
WANTED_WITH_FILES = 1.0
RUNS = 12  # of one recipe, for history
TIMES = 5
HEADER = ["command", "wall time", "of the processor", "beyond Python", "wanted", "within"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", metavar="RUN", nargs="*", help="a run's folder, its id, or latest")
    given = parser.parse_args().runs
    root = shipped_folder()
    files = [find_run(name, Path("logs")) / FILE for name in given] or [root / "tests/data/schema-1-breakdown.json"]
    with tempfile.TemporaryDirectory() as folder:
        print(Table("From a command to its answer", HEADER, all_rows(root, files, Path(folder))).markdown())


def all_rows(root: Path, files: list[Path], folder: Path) -> list[list[str]]:
    first, second = [
        save(make(Made(seed=seed, started=f"2026-01-{seed:02}T00:00:00+00:00")), folder) for seed in range(1, RUNS + 1)
    ][:2]
    program = (sys.executable, str(root / "profile.py"))
    python, _ = best((sys.executable, "-c", "pass"))

    def row(name: str, wanted: float, *arguments: str, remove: str = "") -> list[str]:
        wall, work = best((*program, *arguments), folder, remove)
        beyond = wall - python
        good = "yes" if beyond <= wanted else "NO"
        return [name, f"{wall:.2f} s", f"{work:.2f} s", f"{beyond:.2f} s", f"{wanted:g} s", good]

    rows = [
        row(" ".join(arguments), WANTED, *arguments)
        for arguments in (
            ["--help"],
            ["ls"],
            ["show", "recipes/wav2vec2.yaml"],
            ["show", "recipes/crdnn.yaml", "--json"],
        )
    ]
    cells = len(read_results(first).cells)
    rows.append(row(f"compare, 2 runs of {cells} cells", WANTED, "compare", str(first), str(second)))
    rows.append(row(f"machines, 2 runs of {cells} cells", WANTED, "machines", str(first), str(second)))
    for file in files:
        run = folder / "report" / file.parent.name
        run.mkdir(parents=True)
        shutil.copy(file, run / FILE)
        arguments = ("report", str(run))
        begun = row("", WANTED_WITH_FILES, *arguments, remove=f"{run.relative_to(folder)}/*.svg")
        plots = len(list(run.glob("*.svg")))
        name = f"report, {len(read_results(run).cells)} cells, {plots} plots"
        rows += [row(name, WANTED_WITH_FILES, *arguments), [f"{name}, first", *begun[1:]]]
    history = ("history", "synthetic", "--logdir", str(folder))
    begun = row(f"history, {RUNS} runs, first", WANTED_WITH_FILES, *history, remove="*.svg")
    return [*rows, row(f"history, {RUNS} runs", WANTED_WITH_FILES, *history), begun]


def best(command: tuple[str, ...], folder: Path = Path(), remove: str = "") -> tuple[float, float]:
    """The least wall time and the least processor time of some starts; `remove`: files that each start lacks."""
    walls, works = [], []
    for _ in range(TIMES):
        for file in folder.glob(remove) if remove else ():
            file.unlink()
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        start = time.perf_counter()
        subprocess.run(command, capture_output=True, check=True)
        walls.append(time.perf_counter() - start)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        works.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(walls), min(works)


if __name__ == "__main__":
    main()
