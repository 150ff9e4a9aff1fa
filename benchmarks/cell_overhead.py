"""What a cell costs beyond the model's own work: a model that does nothing, at 10, 100 and 1,000 cells.

    .venv/bin/python -m benchmarks.cell_overhead

Each cell goes through a timing pass in each of two rounds, each in a process of its own, and a memory pass. All of
that is counted, up to 200 timed calls of next to nothing included; the parent's memory is read before and after.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import psutil

from profiler.execution.display import Display
from profiler.execution.run import Execution, Options
from profiler.recipe.load import load_recipe
from profiler.report.table import Table

WANTED_MS = 50.0
SIZES = (10, 100, 1000)
RECIPE = """
pretrained_model: {source: benchmarks.models.Nothing, type: Module}
profiling_dimensions:
  audio_mockup_secs: SECONDS
  batch_sizes: [1, 2, 3, 4, 5]
measure: {rounds: 2}
"""


class Clock(Display):
    """Notes when the first cell starts and the last one is done: what comes before and after is paid once a run."""

    def __init__(self) -> None:
        self.began = self.ended = 0.0

    def begin(self, steps: int) -> None:
        self.began = time.perf_counter()

    def cell_done(self, result: object, number: int) -> None:
        self.ended = time.perf_counter()


def measure(folder: Path, count: int) -> tuple[float, float]:
    """Seconds a cell, and MB by which the parent grew."""
    recipe = folder / f"cells-{count}.yaml"
    seconds = [
        round(0.1 + 0.0001 * number, 4) for number in range(count // 5)
    ]  # all alike: more cells, not larger ones
    recipe.write_text(RECIPE.replace("SECONDS", str(seconds)))
    clock = Clock()
    execution = Execution(load_recipe(recipe, trust=True), Options(logdir=folder / "logs"), clock)
    before = psutil.Process().memory_info().rss
    results = execution.execute()
    assert all(cell.status == "ok" for cell in results.cells)
    return (clock.ended - clock.began) / count, (psutil.Process().memory_info().rss - before) / 1e6


def main() -> None:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder), SIZES[0])  # imports and first uses are not what is asked
        for count in SIZES:
            each, grown = measure(Path(folder), count)
            good = "yes" if each * 1e3 <= WANTED_MS else "NO"
            rows.append([str(count), f"{each * 1e3:.1f} ms", f"{each * 1e3 / WANTED_MS:.2f}", good, f"{grown:+.1f} MB"])
    header = ["cells", "overhead a cell", f"over {WANTED_MS:g} ms", "within", "parent's memory"]
    print(Table("Overhead of a cell whose model does nothing", header, rows).markdown())


if __name__ == "__main__":
    main()
