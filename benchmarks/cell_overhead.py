"""What a round of a cell costs beyond the model's own work: a model that does nothing, at 10 to 10,000 cells.

    .venv/bin/python -m benchmarks.cell_overhead [--cells 10 100 1000 10000]

Each cell has two rounds, each in a process of its own. The first also has the memory pass; the second is what every
further round costs. Calls of next to nothing are counted too. The parent's memory is read before and after. Then the
same cells once more without processes: what it costs to have a cell on disk, to read it, as `report` and `--resume` do,
and to write it to all tables, plots and pages. None of it may grow with the number of cells.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import psutil

from profiler.execution.display import Display
from profiler.execution.run import Execution, Options
from profiler.recipe.load import load_recipe
from profiler.report.table import Table
from profiler.report.write import write_views
from profiler.results.store import ResultsFile, read_results
from profiler.results.types import Results

WANTED_MS = 15.0
SIZES = (10, 100, 1000, 10000)
RECIPE = """
pretrained_model: {source: benchmarks.models.Nothing, type: Module}
profiling_dimensions:
  audio_mockup_secs: SECONDS
  batch_sizes: [1, 2, 3, 4, 5]
measure: {rounds: 2, operations: false, energy: false}
trace: {breakdown: false}
"""


class Clock(Display):
    """Notes when each round is done, and the memory then: what comes before and after is paid once per run."""

    def __init__(self) -> None:
        self.at: list[float] = []
        self.memory: list[int] = []

    def begin(self, steps: int) -> None:
        self.mark()

    def round_done(self, number: int, wanted: int, progress: str) -> None:
        self.mark()

    def mark(self) -> None:
        self.at.append(time.perf_counter())
        self.memory.append(psutil.Process().memory_info().rss)


def measure(folder: Path, count: int) -> tuple[float, float, float, Results]:
    """Seconds per cell of the first and of the second round, MB by which the parent grew, and what was measured."""
    recipe = folder / f"cells-{count}.yaml"
    seconds = [round(0.1 + 0.0001 * number, 4) for number in range(count // 5)]  # more cells, hardly larger ones
    recipe.write_text(RECIPE.replace("SECONDS", str(seconds)))
    clock = Clock()
    execution = Execution(load_recipe(recipe, trust=True), Options(logdir=folder / "logs"), clock)
    results = execution.execute()
    grown = clock.memory[-1] - clock.memory[0]
    assert not results.has_failures
    first, second = (later - earlier for earlier, later in zip(clock.at, clock.at[1:], strict=False))
    return first / count, second / count, grown / 1e6, results


def on_disk(folder: Path, results: Results) -> list[float]:
    """Seconds per cell of writing it to disk, as after every round; of reading it back; of all views."""
    folder.mkdir()
    file = ResultsFile(folder, results.model_copy(update={"cells": []}))
    marks = [time.perf_counter()]
    for cell in results.cells:
        file.put(cell)
    marks.append(time.perf_counter())
    file.write()
    file.close()
    marks.append(time.perf_counter())
    assert len(read_results(folder).cells) == len(results.cells)
    marks.append(time.perf_counter())
    write_views(results, folder)
    marks.append(time.perf_counter())
    put, _, read, views = (later - earlier for earlier, later in pairwise(marks))
    return [seconds / len(results.cells) for seconds in (put, read, views)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, nargs="+", default=SIZES)
    rows, disk = [], []
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder), SIZES[0])  # imports and first uses are not what is asked
        for count in parser.parse_args().cells:
            first, second, grown, results = measure(Path(folder), count)
            good = "yes" if second * 1e3 <= WANTED_MS else "NO"
            rows.append([str(count), f"{first * 1e3:.1f} ms", f"{second * 1e3:.1f} ms", good, f"{grown:+.1f} MB"])
            figures = on_disk(Path(folder) / str(count), results)
            disk.append([str(count), *(f"{seconds * 1e3:.2f} ms" for seconds in figures)])
    header = ["cells", "first round", "each further round", f"within {WANTED_MS:g} ms", "parent's memory"]
    print(Table("Overhead of a round of a cell whose model does nothing", header, rows).markdown(), end="\n\n")
    header = ["cells", "write of a cell", "reading a cell", "views of a cell"]
    print(Table("What a cell costs on disk, in runs of so many", header, disk).markdown())


if __name__ == "__main__":
    main()
