"""Does `ab` find what changed, and only that? Trials through the real program, as a user runs it.

    .venv/bin/python -m benchmarks.ab [--equal 4] [--slower 3] [--sometimes 1]

Each trial compares a small transformer encoder with itself in four cells, on one thread: `equal`, nothing differs;
`slower`, B has 34 layers instead of 33, 3 % more work; `sometimes`, 40 % of B's calls take twice as long, which moves
no median by itself. With `--logs` the runs are kept, and those that are there already count too: call it again for
more trials. Real rounds are also drawn again and again, with the sides exchanged by chance: so many equal cells no
machine would have the time to measure.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from profiler import ab, load_run
from profiler.comparison.compare import compare_sides, match_cells, match_rounds
from profiler.comparison.judge import decided, paired_speed
from profiler.comparison.result import CellComparison
from profiler.report.table import Table

ROOT = Path(__file__).resolve().parents[1]
RECIPE = """
pretrained_model:
  source: benchmarks.models.Encoder
  type: Module
  overrides: {layers: 33, width: 64, slow_calls: 0.0}
profiling_dimensions: {audio_mockup_secs: [0.25, 0.5], batch_sizes: [1, 2], example_audio: SPEECH}
"""
TRIALS: dict[str, dict[str, Any]] = {
    "equal": {},
    "slower": {"pretrained_model.overrides.layers": 34},
    "sometimes": {"pretrained_model.overrides.slow_calls": 0.4},
}
LONGEST = 180.0  # seconds, for four cells
DRAWS, FIRST, LAST = 1000, 10, 60  # equal cells that are drawn from real rounds; rounds after which they are looked at


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


def exchanged(folder: Path, seed: int = 0) -> int:
    """How many of a thousand equal cells would be called: rounds drawn from those of the equal trials, the sides
    exchanged by chance, looked at after every round as in a run."""
    chance, known, called = random.Random(seed), [], 0
    for file in sorted(folder.glob("equal/*/results.json")):
        run = load_run(file.parent).results
        assert run.run.sides is not None
        for pair in run.run.sides.pairs:
            known += [(match_rounds(*cells), run.run.sides.threshold) for cells in match_cells(run, run, pair).cells]
    for _ in range(DRAWS if known else 0):
        rounds, threshold = chance.choice(known)
        drawn = [pair if chance.random() < 0.5 else pair[::-1] for pair in chance.choices(rounds, k=LAST)]
        first, second = ([side[number] for side in drawn] for number in (0, 1))
        end = next((n for n in range(FIRST, LAST) if decided(first[:n], second[:n], threshold)), LAST)
        called += paired_speed(first[:end], second[:end], threshold).verdict in ("slower", "faster")
    return called


def _row(name: str, wanted: str, good: bool | None, count: int, cells: int) -> list[str]:
    share = f"{count / cells:.1%}" if cells else ""
    return [name, str(cells), str(count), share, wanted, "" if good is None else "yes" if good else "NO"]


def report(folder: Path, times: list[float]) -> Table:
    equal, slower, sometimes = (cells(folder, name) for name in TRIALS)
    drawn = exchanged(folder)
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
        _row("equal, drawn from rounds of those trials", "at most 1 in 200", drawn * 200 <= DRAWS, drawn, DRAWS),
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
        table.remarks.append(f"With one layer more than 33 the median ratio is {middle:.3f} ({low:.3f} to {high:.3f}).")
    if times:
        within = "yes" if max(times) <= LONGEST else "NO"
        took = f"{min(times):.0f} to {max(times):.0f} s"
        table.remarks.append(f"A trial of four cells took {took}, loading included; at most 3 minutes: {within}.")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, count in (("equal", 4), ("slower", 3), ("sometimes", 1)):
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
