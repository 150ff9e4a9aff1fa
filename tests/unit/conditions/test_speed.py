"""Other machines are not judged unless asked; the run-to-run floor is the machine's own."""

from __future__ import annotations

from typing import Any

import pytest

from profiler import compare
from profiler.conditions.differences import unequal_machines
from profiler.report.comparison import floor_text
from profiler.results.types import Environment
from tests.helpers.synthetic import MACHINE, Made, make

ELSEWHERE = {"host": "jetson", "cpu": "ARM Cortex", "memory_bytes": 4_000_000_000}


def test_speed_is_not_judged_across_machines() -> None:
    (other,) = compare(make(Made(1)), make(Made(2, environment=ELSEWHERE, factors={"float32": 2.0}))).others
    assert not other.judged
    assert {cell.speed.verdict for cell in other.cells} == {"not judged"}
    assert other.geometric_mean.verdict == "not judged"
    assert [each.name for each in other.differences if each.kind == "machine"] == ["host", "cpu", "memory_bytes"]
    assert other.cells[0].speed.ratio == pytest.approx(2.0, rel=0.05)  # shown all the same


def test_unless_asked_and_then_at_equal_machine_speed_too() -> None:
    there = make(Made(2, environment=ELSEWHERE, factors={"float32": 2.0}, gflops=(50.0, 50.0)))
    (other,) = compare(make(Made(1)), there, across_machines=True).others
    assert {cell.speed.verdict for cell in other.cells} == {"slower"}
    at_equal = other.cells[0].speed.normalised
    assert at_equal["at equal arithmetic"] == pytest.approx(1.0, rel=0.05)
    assert at_equal["at equal memory speed"] == pytest.approx(2.0, rel=0.05)


def test_what_a_shared_run_does_not_tell_does_not_make_another_machine() -> None:
    def unequal(**other: Any) -> list[str]:
        first, second = (Environment.model_validate(MACHINE | more) for more in ({}, other))
        return [each.name for each in unequal_machines(first, second)]

    assert unequal(host=None) == []
    assert unequal(memory_bytes=8_000_100_000) == []
    assert unequal(gpu=[{"name": "V100"}]) == ["gpu"]


def test_the_larger_floor_of_both_runs_counts_and_is_named() -> None:
    floors = [{"value": value, "threads": 2, "measured": f"2026-01-0{day}"} for day, value in ((1, 0.01), (2, 0.04))]
    runs = [make(Made(number, environment={"noise_floor": floor})) for number, floor in enumerate(floors)]
    (other,) = compare(*runs).others
    assert other.floor == 0.04
    assert floor_text(other) == "Run-to-run floor 4 % (measured by doctor on 2026-01-02)."


def test_where_doctor_never_ran_the_floor_is_assumed_and_says_so() -> None:
    (other,) = compare(*(make(Made(seed, environment={"noise_floor": None})) for seed in (1, 2))).others
    assert other.floor_source == "assumed"
    assert floor_text(other).endswith("(assumed; `python profile.py doctor` measures it).")


def test_a_machine_that_was_slower_itself_in_one_run_hides_changes_of_that_size() -> None:
    """Its reference workload ran 25 % slower, and so did every cell: that is the machine, not the model."""
    steady = {"noise_floor": {"value": 0.005, "threads": 2, "measured": "2026-01-01"}}
    before = make(Made(1, environment=steady, gflops=(100.0, 100.0)))
    after = make(Made(2, environment=steady, gflops=(80.0, 80.0), factors={"float32": 1.25}))
    (other,) = compare(before, after).others
    assert {cell.speed.verdict for cell in other.cells} == {"unclear"}
    assert "the reference workload ran 25% slower in this run" in floor_text(other)
    equal = make(Made(2, environment=steady, gflops=(100.0, 100.0), factors={"float32": 1.25}))
    assert {cell.speed.verdict for cell in compare(before, equal).others[0].cells} == {"slower"}
