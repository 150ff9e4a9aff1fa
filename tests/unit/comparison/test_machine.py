"""What the machine did is not held against the model; other machines are not judged unless asked."""

from __future__ import annotations

from typing import Any

import pytest

from profiler import compare
from profiler.comparison.machine import unequal_machines
from tests.synthetic import GRID, MACHINE, Made, make

SLOWER = dict.fromkeys(GRID, 1.1)


def verdicts(**more: Any) -> set[str]:
    (other,) = compare(make(Made(1)), make(Made(2, **more))).others
    return {cell.speed.verdict for cell in other.cells}


def test_a_slower_machine_explains_slower_cells() -> None:
    assert verdicts(factors=SLOWER) == {"slower"}
    assert verdicts(factors=SLOWER, gflops=(90.0, 90.0)) == {"no difference"}


def test_it_does_not_explain_more_than_its_share_nor_the_other_direction() -> None:
    assert verdicts(factors=dict.fromkeys(GRID, 1.5), gflops=(90.0, 90.0)) == {"slower"}
    assert verdicts(factors=dict.fromkeys(GRID, 0.85), gflops=(90.0, 90.0)) == {"faster"}


def test_readings_that_overlap_explain_nothing() -> None:
    assert verdicts(factors=SLOWER, gflops=(90.0, 101.0)) == {"slower"}


def test_others_on_the_cpu_explain_slower_cells() -> None:
    base, busy = make(Made(1)), make(Made(2, factors=SLOWER))
    for cell in busy.cells:
        cell.conditions = [{"other_cpus": 0.4, "stolen_cpus": 0.0}] * 3
    (other,) = compare(base, busy).others
    assert {cell.speed.verdict for cell in other.cells} == {"no difference"}
    assert "others took more of the CPU in this run" in other.cells[0].speed.reason


def test_others_on_free_cores_explain_nothing() -> None:
    base, busy = make(Made(1)), make(Made(2, factors=SLOWER, environment={"cores": 2}))
    for results in (base, busy):
        results.environment["settings"] = {"float32": {"threads": 1}}
    for cell in busy.cells:
        cell.conditions = [{"other_cpus": 0.4, "stolen_cpus": 0.0}] * 3
    (other,) = compare(base, busy).others
    assert {cell.speed.verdict for cell in other.cells} == {"slower"}


ELSEWHERE = {"host": "jetson", "cpu": "ARM Cortex", "memory_bytes": 4_000_000_000}


def test_speed_is_not_judged_across_machines() -> None:
    (other,) = compare(make(Made(1)), make(Made(2, environment=ELSEWHERE, factors={"float32": 2.0}))).others
    assert not other.judged
    assert {cell.speed.verdict for cell in other.cells} == {"not judged"}
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
    assert unequal_machines(MACHINE, MACHINE | {"host": None}) == []
    assert unequal_machines(MACHINE, MACHINE | {"memory_bytes": 8_000_100_000}) == []
    assert [each.name for each in unequal_machines(MACHINE, MACHINE | {"gpu": [{"name": "V100"}]})] == ["gpu"]
