"""Does a repeat give the same tables, and where does the time of a run go? The same recipe, run twice as a user does.

    .venv/bin/python -m benchmarks.repeatability [RECIPE] [--logdir FOLDER]

How many cells' 95 % CIs overlap, what `compare` says of the two, and what the wall time of the first was spent on.
Overhead is everything that is neither model work nor the first import and loading: starting processes, making inputs,
messages, the display, writing results, the reference workload, tables.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from profiler import compare, load_run
from profiler.report.table import Table
from profiler.results.types import Results
from profiler.shipped import shipped_folder

LARGEST_OVERHEAD = 0.05


def run(recipe: str, logs: Path) -> tuple[Results, float]:
    """A run through the whole program, and its wall time from starting the program to its end."""
    before = set(logs.glob("*/*/results.json"))
    start = time.perf_counter()
    command = [sys.executable, str(shipped_folder() / "profile.py"), recipe, "--logdir", str(logs), "--quiet"]
    subprocess.run(command, check=True, stdout=sys.stderr)
    wall = time.perf_counter() - start
    (file,) = set(logs.glob("*/*/results.json")) - before
    return load_run(file.parent).results, wall


def twice(before: Results, after: Results) -> Table:
    rows, overlapping = [], 0
    for cell in compare(before, after).others[0].cells:
        (one, two), (first_ci, second_ci) = cell.latency_s, cell.latency_ci95
        assert one is not None
        assert two is not None
        assert first_ci is not None
        assert second_ci is not None
        overlap = first_ci[0] <= second_ci[1] and second_ci[0] <= first_ci[1]
        overlapping += overlap
        widths = [(high - low) / 2 / value for value, (low, high) in ((one, first_ci), (two, second_ci))]
        shown = [f"±{width:.1%}" for width in widths]
        rows.append([cell.label, f"{two / one:.3f}", *shown, "yes" if overlap else "no", cell.speed.verdict])
    marked = [sum(cell.verdict == "unstable" for cell in results.cells) for results in (before, after)]
    remark = (
        f"{overlapping} of {len(rows)} intervals overlap. Marked ~: {marked[0]} and {marked[1]} of {len(rows)} cells. "
        f"Rounds: {before.run.rounds} and {after.run.rounds}, stopped by {before.run.stopped_by} and "
        f"{after.run.stopped_by}."
    )
    header = ["cell", "second / first", "95 % CI, first", "second", "overlap", "compare says"]
    return Table("The same recipe twice", header, rows, [remark])


def spent(results: Results, wall: float, other: float) -> Table:
    cells = [(cell, cell.latency_s) for cell in results.cells if cell.latency_s]
    parts = {
        "timed calls": sum(sum(latency.samples) for _, latency in cells),
        "warm-up": sum(sum(latency.warmup) for _, latency in cells),
        "other passes": sum(sum(cell.work_s.values()) - cell.work_s.get("time", 0.0) for cell, _ in cells),
        "first import and loading": results.run.loading_s,
    }
    parts["overhead"] = wall - sum(parts.values())
    rows = [[name, f"{seconds:.1f} s", f"{seconds / wall:.1%}"] for name, seconds in parts.items()]
    share = parts["overhead"] / wall
    good = "yes" if share <= LARGEST_OVERHEAD else "NO"
    remark = f"Overhead is {share:.1%} of the wall time; at most {LARGEST_OVERHEAD:.0%} is wanted: {good}."
    title = f"Where {wall:.0f} s of wall time go, {len(cells)} cells; the second run took {other:.0f} s"
    return Table(title, ["", "time", "share"], rows, [remark])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", nargs="?", default=str(shipped_folder() / "recipes" / "wav2vec2.yaml"))
    parser.add_argument("--logdir", type=Path, help="keep the runs here")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        logs = arguments.logdir or Path(folder)
        (before, wall), (after, other) = run(arguments.recipe, logs), run(arguments.recipe, logs)
    print(f"{twice(before, after).markdown()}\n\n{spent(before, wall, other).markdown()}")


if __name__ == "__main__":
    main()
