"""Side by side: times as `compare` calls them, memory and rows where they differ by more than the noise."""

from __future__ import annotations

from typing import Any

import pytest

from profiler import compare
from profiler.comparison.result import Speed
from profiler.results.types import Breakdown, CellResult, LabelOverhead, NoiseFloor, Results
from profiler.tensorboard_plugin.side_by_side import (
    Judged,
    compare_cells,
    compare_grids,
    compare_rows,
    judge_runs,
    noise_of,
)
from tests.helpers.synthetic import Machine, Made, latency, make
from tests.unit.report.test_tables import absent, ok, results


def mark(left: CellResult, right: CellResult, key: str = "rtf", speed: Speed | None = None) -> str:
    return str(compare_cells(left, right, speed)["figures"][key]["mark"])


def timed(rtf: float, identity: str, **environment: object) -> Results:
    """A run of one cell with samples that vary by a hundredth, in ten rounds."""
    cell = ok(1, 1, rtf, 0.01)
    cell.latency_s = latency([[rtf * (1 + 0.01 * (number % 3 - 1))] * 3 for number in range(10)])
    made = results(cell)
    made.run.id = identity
    floor = NoiseFloor(value=0.002, measured="2026-01-01")
    made.environment = made.environment.model_copy(update={"noise_floor": floor} | environment)
    return made


def row(name: str, total: float, **more: Any) -> dict[str, Any]:
    return {"name": name, "phase": "forward", "total_s": total, "s_per_second_of_audio": total / 2, **more}


def test_cells_that_compare_does_not_judge_are_told_apart_by_their_intervals() -> None:
    assert mark(ok(1, 1, 0.10, 0.01), ok(2, 1, 0.12, 0.01)) == "slower"
    assert mark(ok(1, 1, 0.12, 0.01), ok(2, 1, 0.10, 0.01)) == "faster"
    assert mark(ok(1, 1, 0.10, 0.01), ok(2, 1, 0.12, 0.01), "latency") == "slower"
    assert mark(ok(1, 1, 0.10, 0.004), ok(2, 1, 0.1005, 0.004)) == "same"
    assert mark(ok(1, 1, 0.10, 0.15), ok(2, 1, 0.12, 0.15)) == "unclear"
    assert mark(ok(1, 1, 0.10, 0.001), ok(2, 1, 0.13, 0.3)) == "unclear"


def test_without_an_interval_it_is_unclear() -> None:
    few = ok(1, 1, 0.1)
    assert few.latency_s is not None
    few.latency_s.ci95 = None
    assert mark(few, ok(2, 1, 0.3)) == "unclear"


def test_the_ratio_is_of_the_right_one_to_the_left_one() -> None:
    assert compare_cells(ok(1, 1, 0.1), ok(1, 1, 0.05))["figures"]["rtf"]["ratio"] == pytest.approx(0.5)


def test_memory_is_marked_beyond_what_processes_vary_by() -> None:
    small, same, large = ok(1, 1, 0.1), ok(1, 1, 0.1, memory=1_010_000_000), ok(1, 1, 0.1, memory=1_100_000_000)
    assert mark(small, same, "memory") == "same"
    assert mark(small, large, "memory") == "more"
    assert mark(small, large, "tensors") == "more"


def test_what_was_not_measured_cannot_be_compared() -> None:
    found = compare_grids(
        [ok(1, 1, 0.1), absent(2, 1, "failed", "died")], [ok(1, 1, 0.1), ok(2, 1, 0.1), ok(4, 1, 0.1)], Judged()
    )
    assert [place["figures"]["rtf"]["mark"] for place in found] == ["same", "unknown", "unknown"]
    assert found[1]["left"]["reason"] == "died"
    assert found[2]["left"] is None


def test_rows_are_joined_by_name_and_marked_by_their_time() -> None:
    left = [row("(whole call)", 1.0), row("encoder", 0.8), row("head", 0.10), row("gone", 0.1)]
    right = [row("(whole call)", 1.4), row("encoder", 1.2), row("head", 0.101), row("new", 0.1)]
    joined = compare_rows(left, right, 0.02, per_second=False)
    assert {one["name"]: one["mark"] for one in joined} == {
        "(whole call)": "slower",
        "encoder": "slower",
        "head": "same",
        "gone": "left only",
        "new": "right only",
    }
    assert joined[1]["ratio"] == pytest.approx(1.5)


def test_rows_within_the_noise_are_not_marked() -> None:
    assert compare_rows([row("encoder", 0.8)], [row("encoder", 1.2)], 0.5, per_second=False)[0]["mark"] == "same"


def test_rows_that_hardly_count_are_not_marked() -> None:
    """Three times as long, but a thousandth of the call."""
    joined = compare_rows([row("all", 1.0), row("view", 0.0005)], [row("all", 1.0), row("view", 0.0015)], 0.0, False)
    assert joined[1]["mark"] == "same"


def test_cells_of_other_lengths_are_compared_per_second_of_audio() -> None:
    left = [row("encoder", 1.0, own_s=0.5)]
    right = [row("encoder", 2.0, own_s=0.5) | {"s_per_second_of_audio": 0.5}]
    (joined,) = compare_rows(left, right, 0.0, per_second=True)
    assert joined["mark"] == "same"
    assert (joined["left_own_s"], joined["right_own_s"]) == (0.25, 0.125)


def test_the_noise_of_rows_is_that_of_both_cells() -> None:
    one, other = ok(1, 1, 0.1, 0.02), ok(1, 1, 0.1, 0.03)
    assert noise_of(one, other) == pytest.approx(0.05)
    cost = LabelOverhead(measured=0.0, known=0.0, hook_s=0.0, labelled_s=[1.0, 1.4, 1.2])
    other.breakdown = Breakdown(labels=[], calls=3, profiled_calls=0, overhead=cost, file="x.json")
    assert noise_of(one, other) == pytest.approx(0.02 + 0.2 / 1.2)


def test_times_of_the_same_cell_are_judged_as_compare_does() -> None:
    same = ("float32", "float32")
    slower = judge_runs(timed(0.1, "one"), timed(0.2, "two"), same)
    found = compare_grids(timed(0.1, "one").cells, timed(0.2, "two").cells, slower)
    assert found[0]["figures"]["rtf"]["mark"] == "slower"
    assert found[0]["figures"]["rtf"]["ratio"] == pytest.approx(2, rel=0.01)
    equal = judge_runs(timed(0.1, "one"), timed(0.1003, "two"), same)
    assert equal.speeds[1, 1].verdict == "same"


def test_two_variants_of_one_run_have_the_paired_ratio_of_compare() -> None:
    drifting = Machine(drift=0.2)
    run = make(Made(1, grid=((1.0, 1),), machine=drifting, variants=("a", "b"), factors={"b": 1.1}))
    judged = judge_runs(run, run, ("a", "b"))
    (place,) = compare_grids(run.cells[:1], run.cells[1:], judged)
    assert place["figures"]["latency"]["mark"] == "slower"
    (cell,) = compare(run, variants=("a", "b")).others[0].cells
    assert place["figures"]["latency"]["ratio"] == cell.speed.ratio


def test_another_machine_is_told_and_its_speed_not_judged() -> None:
    judged = judge_runs(timed(0.1, "one"), timed(0.2, "two", cpu="Another CPU"), ("float32", "float32"))
    assert any("Some CPU / Another CPU" in line for line in judged.differs)
    figure = compare_cells(ok(1, 1, 0.1), ok(1, 1, 0.2), judged.speeds[1, 1])["figures"]["rtf"]
    assert (figure["mark"], figure["reason"]) == ("not judged", "another machine")


def test_a_variant_beside_itself_and_runs_without_a_common_cell_are_shown_all_the_same() -> None:
    run = timed(0.1, "one")
    assert judge_runs(run, run, ("float32", "float32")) == Judged()
    assert judge_runs(run, results(ok(3, 1, 0.1)), ("float32", "float32")) == Judged()
    assert mark(run.cells[0], run.cells[0]) == "same"
