"""Does `ab` find what changed, and only that? Trials through the real program, as a user runs it.

    .venv/bin/python -m benchmarks.ab [--equal 3] [--slower 2] [--sometimes 1]

Each trial compares a small transformer encoder with itself in four cells, on one thread: `equal`, nothing differs;
`slower`, B does 3 % more work; `sometimes`, 40 % of B's calls take twice as long, which moves no median by itself. With
`--logs` the runs are kept, and those that are there already count too: call it again for more trials.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

from profiler import ab, load_run
from profiler.comparison import compare_sides
from profiler.comparison.result import CellComparison
from profiler.report.table import Table

ROOT = Path(__file__).resolve().parents[1]
RECIPE = """
pretrained_model:
  source: benchmarks.models.Encoder
  type: Module
  overrides: {width: 128, extra: 0.0, slow_calls: 0.0}
profiling_dimensions: {audio_mockup_secs: [0.5, 1], batch_sizes: [1, 2], example_audio: SPEECH}
"""
TRIALS = {
    "equal": {},
    "slower": {"pretrained_model.overrides.extra": 0.3},
    "sometimes": {"pretrained_model.overrides.slow_calls": 0.4},
}
LONGEST = 180.0  # seconds, for four cells


def trial(name: str, folder: Path) -> float:
    """One A/B run; its wall time, from starting the workers to the answer."""
    recipe = folder / f"{name}.yaml"
    recipe.write_text(RECIPE.replace("SPEECH", str(ROOT / "samples" / "speech.flac")))
    start = time.monotonic()
    ab(recipe, b=TRIALS[name], logdir=folder, threads=1, trust=True)
    return time.monotonic() - start


def cells(folder: Path, name: str) -> list[CellComparison]:
    runs = [load_run(file.parent).results for file in sorted(folder.glob(f"{name}/*/results.json"))]
    return [cell for run in runs for cell in compare_sides(run).others[0].cells]


def _row(name: str, wanted: str, good: bool | None, count: int, cells: int) -> list[str]:
    share = f"{count / cells:.1%}" if cells else ""
    return [name, str(cells), str(count), share, wanted, "" if good is None else "yes" if good else "NO"]


def report(folder: Path, times: list[float]) -> Table:
    equal, slower, sometimes = (cells(folder, name) for name in TRIALS)
    called = [cell for cell in equal if cell.speed.verdict not in ("same", "unclear")]
    same = [cell for cell in equal if cell.speed.verdict == "same"]
    found = [cell for cell in slower if cell.speed.verdict == "slower"]
    tails = [cell for cell in sometimes if cell.speed.verdict == "slower"]
    rows = [
        _row(
            "equal: called faster or slower",
            "at most 1 in 200",
            len(called) * 200 <= len(equal),
            len(called),
            len(equal),
        ),
        _row("equal: called same", "most", len(same) * 2 > len(equal), len(same), len(equal)),
        _row(
            "3 % more work: called slower", "at least 95 %", len(found) >= 0.95 * len(slower), len(found), len(slower)
        ),
        _row(
            "40 % of calls twice as slow: called slower",
            "all",
            len(tails) == len(sometimes),
            len(tails),
            len(sometimes),
        ),
    ]
    table = Table("A against B", ["", "cells", "called", "share", "wanted", "good"], rows)
    ratios = sorted(cell.speed.ratio or 0.0 for cell in slower)
    if ratios:
        middle, low, high = statistics.median(ratios), ratios[0], ratios[-1]
        table.remarks.append(f"With 3 % more work the median ratio is {middle:.3f} ({low:.3f} to {high:.3f}).")
    if times:
        within = "yes" if max(times) <= LONGEST else "NO"
        took = f"{min(times):.0f} to {max(times):.0f} s"
        table.remarks.append(f"A trial of four cells took {took}, loading included; at most 3 minutes: {within}.")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, count in (("equal", 3), ("slower", 2), ("sometimes", 1)):
        parser.add_argument(f"--{name}", type=int, default=count, help="trials (default: %(default)s)")
    parser.add_argument("--logs", type=Path, help="keep the runs here, and count those that are here already")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = (arguments.logs or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        left = {name: getattr(arguments, name) for name in TRIALS}
        times = []
        while any(left.values()):
            for name in TRIALS:  # in turn, so that all meet the machine in the same hours
                if left[name]:
                    left[name] -= 1
                    times.append(trial(name, folder))
                    print(f"{name}: {times[-1]:.0f} s", file=sys.stderr, flush=True)
        print(report(folder, times).markdown())


if __name__ == "__main__":
    main()
