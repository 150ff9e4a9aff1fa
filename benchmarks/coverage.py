"""Is the 95 % CI of one run honest? On stored real runs of the same thing: how often it contains the level of them all.

    .venv/bin/python -m benchmarks.coverage

The level of a cell is the median over runs of its figures. Beside it the design before: three rounds of many calls, and
an interval that took calls of one minute for independent. `benchmarks.series` recorded both in turn.
"""

from __future__ import annotations

import statistics
from typing import Any

from benchmarks.series import read_series
from profiler.report.table import Table
from profiler.results.statistics import estimate, median_interval

WANTED = 0.9


def new_figure(rounds: list[list[float]]) -> tuple[float, tuple[float, float]]:
    found = estimate(rounds)
    assert found.ci95 is not None
    return found.value, found.ci95


def old_figure(rounds: list[list[float]]) -> tuple[float, tuple[float, float]]:
    """The median of all calls, with the interval of as many independent ones."""
    calls = sorted(call for values in rounds for call in values)
    found = median_interval(calls)
    assert found is not None
    return statistics.median(calls), found


def coverage(runs: list[dict[str, Any]], figure: Any) -> tuple[int, int, float]:
    """Intervals that contain the level of their cell, of how many, and their median half-width."""
    equal = [run["cells"] for run in runs if not run["slower"]]
    inside, widths = [], []
    for cell in equal[0]:
        figures = [figure(run[cell]) for run in equal]
        level = statistics.median(value for value, _ in figures)
        inside += [low <= level <= high for _, (low, high) in figures]
        widths += [(high - low) / 2 / value for value, (low, high) in figures]
    return sum(inside), len(inside), statistics.median(widths)


def main() -> None:
    kept = read_series()
    rows = []
    for name, runs, figure in (
        ("rounds as the unit", kept["new"], new_figure),
        ("the design before", kept["old"], old_figure),
    ):
        hits, count, width = coverage(runs, figure)
        good = "yes" if hits >= WANTED * count else "NO"
        rows.append(
            [
                name,
                str(sum(not run["slower"] for run in runs)),
                f"{hits} of {count}",
                f"{hits / count:.0%}",
                good,
                f"{width:.1%}",
            ]
        )
    header = ["", "runs", "intervals that contain the level", "share", f"at least {WANTED:.0%}", "median half-width"]
    table = Table("Coverage of the 95 % CI", header, rows)
    table.remarks.append(f"Runs of a minute, recorded in turn on {kept['cpu']}, {kept['date']}, one thread.")
    print(table.markdown())


if __name__ == "__main__":
    main()
