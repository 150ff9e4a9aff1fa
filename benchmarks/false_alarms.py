"""Does `compare` cry wolf, and does it see the wolf? The same thing many times, and with 10 % more work in some cells.

    .venv/bin/python -m benchmarks.false_alarms [--same 6] [--slower 3] [--side-by-side 2] [--rounds 48]

Real runs of a small transformer encoder through the real program, in turn: mostly the same, some with a layer of ten
passed twice for audio of 2 s, which is 10 % more work in two cells of six. Then every pair of equal runs is
compared (no cell should be called different), and every slower run with every equal one (its two cells should be called
slower, and no other). Last, the same as variants of one run, which meet the machine side by side. Half an hour as it
comes, with nothing else on the machine. With `--logs` the runs are kept, and those that are there already count too:
call it again for more pairs.
"""

from __future__ import annotations

import argparse
import math
import statistics
import subprocess
import sys
import tempfile
from itertools import combinations, product
from pathlib import Path

from profiler import compare, load_run
from profiler.comparison.decide import LEVEL, rounds_of
from profiler.comparison.result import CellComparison
from profiler.report.table import Table
from profiler.results import Results
from profiler.shipped import shipped_folder

SLOW_AT = 2.0  # seconds of audio whose cells do more work
WANTED_LEVEL, WANTED_POWER = 0.01, 0.9
RECIPE = """
pretrained_model: {source: benchmarks.models.Encoder, type: Module, overrides: {slow_at: SLOW_AT}}
profiling_dimensions:
  audio_mockup_secs: SECONDS
  batch_sizes: [1, 2]
  example_audio: SPEECH
measure: {operations: false, energy: false, rounds: ROUNDS, budget: 3}
trace: {breakdown: false}
"""
SIDE_BY_SIDE = """
variants:
- name: base
- name: again
- name: slower
  set: {pretrained_model.overrides.slow_at: SLOW_AT}
"""


def run(name: str, folder: Path, threads: int, rounds: int, seconds: list[float]) -> None:
    """One run of the real program, in a process of its own."""
    root = shipped_folder()
    recipe = folder / f"{name}.yaml"
    text = RECIPE.replace("SLOW_AT", str(SLOW_AT if name == "slower" else 0.0))
    text += SIDE_BY_SIDE.replace("SLOW_AT", str(SLOW_AT)) if name == "side-by-side" else ""
    speech = str(root / "samples" / "speech.flac")
    recipe.write_text(text.replace("SPEECH", speech).replace("ROUNDS", str(rounds)).replace("SECONDS", str(seconds)))
    command = [sys.executable, str(root / "profile.py"), str(recipe), "--trust", "--quiet", "--logdir", str(folder)]
    command += ["--threads", str(threads)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=root)


def in_turn(same: int, slower: int) -> list[str]:
    """Slower runs spread evenly among the equal ones, so that both meet the machine in the same states."""
    total = same + slower
    return ["slower" if (n + 1) * slower // total > n * slower // total else "same" for n in range(total)]


def read(folder: Path, name: str) -> list[Results]:
    return [load_run(file.parent).results for file in sorted(folder.glob(f"{name}/*/results.json"))]


def cells(first: Results, second: Results) -> list[CellComparison]:
    return compare(first, second).others[0].cells


def by_samples_alone(first: Results, second: Results) -> list[bool]:
    """What the rank test says when it takes calls of one minute for independent ones."""
    from scipy.stats import mannwhitneyu

    found = []
    for one in first.cells:
        two = second.cell(*one.key)
        if one.latency_s and two and two.latency_s:
            found.append(mannwhitneyu(one.latency_s.samples, two.latency_s.samples).pvalue <= LEVEL)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--same", type=int, default=6, help="equal runs (default: %(default)s)")
    parser.add_argument("--slower", type=int, default=3, help="runs with 10 %% more work (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads of the model (default: %(default)s)")
    parser.add_argument(
        "--side-by-side", type=int, default=2, help="runs with all of it as variants (default: %(default)s)"
    )
    parser.add_argument("--rounds", type=int, default=48, help="of each run (default: %(default)s)")
    parser.add_argument("--seconds", type=float, nargs="+", default=[0.5, 1, 2], help="of audio (default: 0.5 1 2)")
    parser.add_argument("--logs", type=Path, help="keep the runs here, and count those that are here already")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = (arguments.logs or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        order = in_turn(arguments.same, arguments.slower) + ["side-by-side"] * arguments.side_by_side
        for number, name in enumerate(order, 1):
            print(f"run {number} of {len(order)}: {name}", file=sys.stderr, flush=True)
            run(name, folder, arguments.threads, arguments.rounds, arguments.seconds)
        print(report(*(read(folder, name) for name in ("same", "slower", "side-by-side"))).markdown())


def report(same: list[Results], slower: list[Results], side_by_side: list[Results]) -> Table:
    equal = [cells(*pair) for pair in combinations(same, 2)]
    calm = [cell.speed.verdict != "no difference" for pair in equal for cell in pair]
    naive = [called for pair in combinations(same, 2) for called in by_samples_alone(*pair)]
    unequal = [cell for pair in product(same, slower) for cell in cells(*pair)]
    worked = [cell for cell in unequal if cell.seconds == SLOW_AT]
    found = [cell.speed.verdict == "slower" for cell in worked]
    beside = [cell.speed.verdict != "no difference" for cell in unequal if cell.seconds != SLOW_AT]
    rows = [
        _row("equal runs: cells called different", calm, at_most=WANTED_LEVEL),
        _row("the same, by a rank test on single calls alone", naive),
        _row("10 % more work: those cells called slower", found, at_least=WANTED_POWER),
        _row("10 % more work: other cells called different", beside, at_most=WANTED_LEVEL),
    ]
    again, more = (
        [cell for run in side_by_side for cell in compare(run, variants=("base", name)).others[0].cells]
        for name in ("again", "slower")
    )
    unchanged = [*again, *(cell for cell in more if cell.seconds != SLOW_AT)]
    calm_beside = [cell.speed.verdict != "no difference" for cell in unchanged]
    found_beside = [cell.speed.verdict == "slower" for cell in more if cell.seconds == SLOW_AT]
    rows += [
        _row("variants of one run: unchanged cells called different", calm_beside, at_most=WANTED_LEVEL),
        _row("variants of one run: cells with 10 % more work called slower", found_beside, at_least=WANTED_POWER),
    ]
    ratios = sorted(cell.speed.ratio or 0.0 for cell in worked)
    table = Table("False alarms and true ones", ["", "cells", "called", "share", "wanted", "good"], rows)
    table.remarks.append(f"The rounds of a cell differed by {spread([*same, *slower, *side_by_side]):.1%}.")
    if ratios:
        table.remarks.append(
            f"{len(same)} equal runs, {len(slower)} with 10 % more work; all pairs. The median ratio of the cells with "
            f"more work is {ratios[len(ratios) // 2]:.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f})."
        )
    return table


def spread(runs: list[Results]) -> float:
    """The standard deviation of the medians of a cell's rounds, as a share of them; the median over cells and runs."""
    found = []
    for cell in (cell for run in runs for cell in run.cells):
        rounds = rounds_of(cell)
        if not isinstance(rounds, str) and len(rounds) > 1:
            found.append(statistics.stdev(math.log(statistics.median(calls)) for calls in rounds))
    return statistics.median(found or [math.nan])


def _row(name: str, called: list[bool], at_most: float | None = None, at_least: float | None = None) -> list[str]:
    if not called:
        return [name, "0", "", "", "", ""]
    share = sum(called) / len(called)
    wanted = f"at most {at_most:.0%}" if at_most is not None else f"at least {at_least:.0%}" if at_least else ""
    good = (at_most is None or share <= at_most) and (at_least is None or share >= at_least)
    verdict = ("yes" if good else "NO") if wanted else ""
    return [name, str(len(called)), str(sum(called)), f"{share:.1%}", wanted, verdict]


if __name__ == "__main__":
    main()
