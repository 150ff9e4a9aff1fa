"""The 95 % CI of one run, held against real runs of the same thing that were made before and after it.

tests/data/equal-runs.json has the raw rounds of runs on a shared machine (benchmarks/series.py recorded them).
"""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.coverage import WANTED, coverage, new_figure, old_figure
from benchmarks.series import read_series
from profiler.results.statistics import estimate


@pytest.fixture(scope="module")
def series() -> dict[str, Any]:
    return read_series()


def test_there_are_enough_runs_with_enough_rounds(series: dict[str, Any]) -> None:
    equal = [run for run in series["new"] if not run["slower"]]
    assert len(equal) >= 20
    assert all(len(rounds) >= 10 for run in equal for rounds in run["cells"].values())


def test_the_interval_of_one_run_contains_the_level_of_all_in_nine_of_ten_cells(series: dict[str, Any]) -> None:
    hits, count, _ = coverage(series["new"], new_figure)
    assert count >= 80
    assert hits >= WANTED * count


def test_the_interval_over_calls_that_it_replaced_did_not(series: dict[str, Any]) -> None:
    """The design before, on runs of the same hour and length."""
    hits, count, _ = coverage(series["old"], old_figure)
    assert count >= 40
    assert hits < WANTED * count


def test_the_figure_of_a_run_is_the_median_of_its_rounds(series: dict[str, Any]) -> None:
    rounds = series["new"][0]["cells"]["1s_x1"]
    found = estimate(rounds)
    assert found.ci95 is not None
    assert found.ci95[0] <= found.value <= found.ci95[1]
