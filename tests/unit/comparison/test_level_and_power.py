"""Equal runs are not called different, and 10 % is found: on seeded runs whose calls of a round are alike."""

from __future__ import annotations

import statistics
from itertools import combinations

import pytest
from scipy.stats import mannwhitneyu

from profiler import compare
from profiler.comparison.result import CellComparison
from profiler.results import Results
from tests.synthetic import BUSY, FAR, GRID, MOVED, NEAR, QUIET, SHARED, Machine, Made, make

SLOW = (1.0, 1)


def cells(first: Results, second: Results) -> list[CellComparison]:
    return compare(first, second).others[0].cells


def equal_runs(machine: Machine, count: int = 12, **more: object) -> list[Results]:
    return [make(Made(seed, machine=machine, **more)) for seed in range(count)]  # type: ignore[arg-type]


@pytest.mark.parametrize("machine", [QUIET, SHARED, BUSY, MOVED], ids=["quiet", "shared", "busy", "cores moved"])
def test_of_equal_cells_at_most_one_in_a_hundred_is_called_different(machine: Machine) -> None:
    found = [cell for pair in combinations(equal_runs(machine), 2) for cell in cells(*pair)]
    called = [cell for cell in found if cell.speed.verdict != "no difference"]
    assert len(found) == 66 * len(GRID)
    assert len(called) <= 0.01 * len(found)


def test_a_rank_test_on_single_calls_alone_would_call_most_of_them_different() -> None:
    """Why rounds are asked: without that veto, equal runs differ nearly always."""
    called = []
    for first, second in combinations(equal_runs(SHARED, 6), 2):
        for one, two in zip(first.cells, second.cells, strict=True):
            assert one.latency_s is not None
            assert two.latency_s is not None
            called.append(mannwhitneyu(one.latency_s.samples, two.latency_s.samples).pvalue <= 0.01)
    assert sum(called) > 0.3 * len(called)


def test_one_cell_alone_is_judged_no_less_carefully() -> None:
    runs = equal_runs(SHARED, 24, grid=(SLOW,))
    found = [cell for pair in combinations(runs, 2) for cell in cells(*pair)]
    assert sum(cell.speed.verdict != "no difference" for cell in found) <= 0.02 * len(found)


def test_ten_percent_in_one_cell_is_found_and_nothing_else_is() -> None:
    found: list[str] = []
    others: list[str] = []
    for seed in range(40):
        base = make(Made(seed))
        slower = make(Made(1000 + seed, factors={SLOW: 1.1}))
        for cell in cells(base, slower):
            (found if (cell.seconds, cell.batch_size) == SLOW else others).append(cell.speed.verdict)
    assert found.count("slower") >= 0.9 * len(found)
    assert "faster" not in found
    assert others.count("no difference") >= 0.99 * len(others)


def test_more_rounds_find_it_on_a_shared_machine_too() -> None:
    def share(rounds: int) -> float:
        verdicts = []
        for seed in range(30):
            base = make(Made(seed, machine=SHARED, rounds=rounds))
            slower = make(Made(1000 + seed, machine=SHARED, rounds=rounds, factors={SLOW: 1.1}))
            verdicts += [c.speed.verdict for c in cells(base, slower) if (c.seconds, c.batch_size) == SLOW]
        return verdicts.count("slower") / len(verdicts)

    assert share(12) >= 0.6
    assert share(12) > share(3)


def test_many_rounds_find_it_though_others_disturb_most_rounds() -> None:
    """The machine slows most rounds of a cell, by a tenth or so: the quiet ones tell."""
    found: list[str] = []
    others: list[str] = []
    for seed in range(20):
        base = make(Made(seed, machine=BUSY, rounds=24))
        slower = make(Made(1000 + seed, machine=BUSY, rounds=24, factors={SLOW: 1.1}))
        for cell in cells(base, slower):
            (found if (cell.seconds, cell.batch_size) == SLOW else others).append(cell.speed.verdict)
    assert found.count("slower") >= 0.9 * len(found)
    assert others.count("no difference") >= 0.99 * len(others)


def test_ten_percent_is_found_though_cores_are_moved() -> None:
    """Rounds are compared with rounds in which the cores were equally near, or not at all."""
    verdicts, ratios = [], []
    for seed in range(30):
        base, slower = (
            make(Made(1000 * second + seed, machine=MOVED, rounds=8, factors={SLOW: 1.1} if second else {}))
            for second in (0, 1)
        )
        for cell in cells(base, slower):
            if (cell.seconds, cell.batch_size) == SLOW:
                verdicts.append(cell.speed.verdict)
                ratios.append(cell.speed.ratio or 0.0)
    assert verdicts.count("slower") >= 0.7 * len(verdicts)
    assert statistics.median(ratios) == pytest.approx(1.1, abs=0.02)


def test_what_moved_cores_may_explain_is_not_called_a_difference() -> None:
    """One run near, the other far: 50 % slower, and nothing to compare it with."""
    still = Machine(apart=0.4, moves=0.0)
    runs = [make(Made(seed, machine=still)) for seed in range(12)]
    near, far = (
        next(run for run in runs if run.cells[0].conditions[0]["handoff_s"][0] == value) for value in (NEAR, FAR)
    )
    (other,) = compare(near, far).others
    assert {cell.speed.verdict for cell in other.cells} == {"no difference"}
    assert all((cell.speed.ratio or 0.0) > 1.4 for cell in other.cells)
    assert all("cores were nearer" in cell.speed.reason for cell in other.cells)
    (twice,) = compare(near, make(Made(99, machine=still, factors=dict.fromkeys(GRID, 2.5)))).others
    assert {cell.speed.verdict for cell in twice.cells} == {"slower"}, "beyond what moving explains"


def test_rounds_that_are_left_out_are_spoken_of() -> None:
    (other,) = compare(make(Made(1, machine=MOVED, rounds=8)), make(Made(2, machine=MOVED, rounds=8))).others
    assert any("equally near in both runs" in note for note in other.notes)
    (calm,) = compare(make(Made(1)), make(Made(2))).others
    assert not calm.notes


def test_the_interval_covers_the_truth() -> None:
    covered = []
    for seed in range(40):
        for cell in cells(make(Made(seed)), make(Made(1000 + seed, factors=dict.fromkeys(GRID, 1.2)))):
            assert cell.speed.ci95 is not None
            covered.append(cell.speed.ci95[0] <= 1.2 <= cell.speed.ci95[1])
    assert sum(covered) >= 0.95 * len(covered)


def test_a_difference_below_the_least_ratio_is_none_however_sure() -> None:
    steady = Machine(run=0.0, drift=0.0, round=0.0, call=0.001, disturbed=0.0)
    base, slower = (
        make(Made(seed, machine=steady, rounds=30, factors=dict.fromkeys(GRID, factor)))
        for seed, factor in ((1, 1.0), (2, 1.06))
    )
    assert {cell.speed.verdict for cell in cells(base, slower)} == {"slower"}
    relaxed = compare(base, slower, least=0.1).others[0]
    assert {cell.speed.verdict for cell in relaxed.cells} == {"no difference"}
    assert {cell.speed.reason for cell in relaxed.cells} == {"less than the least ratio"}


def test_one_round_judges_large_differences_only_and_says_so() -> None:
    base = make(Made(1, rounds=1))
    small, large = (make(Made(2, rounds=1, factors=dict.fromkeys(GRID, factor))) for factor in (1.15, 2.0))
    assert {cell.speed.verdict for cell in cells(base, small)} == {"no difference"}
    (other,) = compare(base, large).others
    assert {cell.speed.verdict for cell in other.cells} == {"slower"}
    assert any("one round only" in note for note in other.notes)


def test_variants_of_one_run_are_compared_round_by_round() -> None:
    """They met the machine in the same minutes: what it did then cancels out."""
    restless = Machine(run=0.0, drift=0.2, round=0.003, call=0.01, disturbed=0.0)
    made = make(Made(1, machine=restless, variants=("float32", "int8"), factors={"int8": 0.9}))
    (within,) = compare(made, variants=("float32", "int8")).others
    assert {cell.speed.verdict for cell in within.cells} == {"faster"}
    again = make(Made(2, machine=restless, variants=("float32", "int8"), factors={"int8": 0.9}))
    (between,) = compare(made, again, variants=("float32", "int8")).others
    assert "faster" not in {cell.speed.verdict for cell in between.cells}


def test_the_geometric_mean_finds_what_all_cells_share() -> None:
    base = make(Made(1))
    (slower,) = compare(base, make(Made(2, factors=dict.fromkeys(GRID, 1.1)))).others
    assert slower.geometric_mean.verdict == "slower"
    assert slower.geometric_mean.ratio == pytest.approx(1.1, abs=0.02)
    (mixed,) = compare(base, make(Made(3, factors={GRID[0]: 2.0, GRID[1]: 0.5}))).others
    assert mixed.geometric_mean.verdict == "no difference"


def test_a_cell_is_seen_beside_the_others_where_slow_minutes_slow_them_all() -> None:
    """The same slowdown is found among eight cells that share the machine's drift, and is not in one alone."""
    drifting = Machine(run=0.0, drift=0.03, round=0.002, call=0.01, disturbed=0.0)

    def found(grid: tuple[tuple[float, int], ...]) -> int:
        verdicts = []
        for seed in range(20):
            base, slower = (
                make(Made(1000 * second + seed, grid=grid, machine=drifting, factors={SLOW: 1.1} if second else {}))
                for second in (0, 1)
            )
            verdicts += [c.speed.verdict for c in cells(base, slower) if (c.seconds, c.batch_size) == SLOW]
        return verdicts.count("slower")

    assert found(GRID) >= 12
    assert found((SLOW,)) <= 5


def test_a_machine_that_was_faster_for_all_does_not_hide_the_cell_that_is_slower() -> None:
    """Nor does a reference workload that says otherwise: what all cells did tells more of the machine."""
    drifting = Machine(run=0.0, drift=0.06, round=0.005, call=0.02, disturbed=0.0)
    found: list[CellComparison] = []
    others: list[str] = []
    for seed in range(20):
        base = make(Made(seed, machine=drifting, rounds=24))
        factors = {place: 0.95 * (1.1 if place == SLOW else 1.0) for place in GRID}
        slower = make(Made(1000 + seed, machine=drifting, rounds=24, factors=factors, gflops=(95.0, 96.0)))
        for cell in cells(base, slower):
            if (cell.seconds, cell.batch_size) == SLOW:
                found.append(cell)
            else:
                others.append(cell.speed.verdict)
    called = [cell for cell in found if cell.speed.verdict == "slower"]
    assert len(called) >= 0.7 * len(found)
    assert any("beside the other cells, which were" in cell.speed.reason for cell in called)
    assert others.count("no difference") >= 0.99 * len(others)
