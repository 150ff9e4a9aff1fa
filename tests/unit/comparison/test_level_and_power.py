"""Equal runs are not called different, and changes are found: on seeded runs whose calls of a round are alike."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import pytest

from profiler import compare
from profiler.comparison.result import CellComparison
from profiler.results.types import NoiseFloor, Results
from tests.helpers.synthetic import GRID, QUIET, SHARED, STEADY, Machine, Made, make

SLOW = (1.0, 1)


def cells(first: Results, second: Results) -> list[CellComparison]:
    return compare(first, second).others[0].cells


def with_a_slow_cell(
    machine: Machine, factor: float, count: int = 30, rounds: int = 10
) -> tuple[Counter[str], Counter[str]]:
    """Verdicts on the cell that is slower, and on all others."""
    found: tuple[Counter[str], Counter[str]] = Counter(), Counter()
    for seed in range(count):
        base = make(Made(seed, machine=machine, rounds=rounds))
        slower = make(Made(1000 + seed, machine=machine, rounds=rounds, factors={SLOW: factor}))
        for cell in cells(base, slower):
            found[(cell.seconds, cell.batch_size) != SLOW][cell.speed.verdict] += 1
    return found


@pytest.mark.parametrize("machine", [QUIET, SHARED], ids=["quiet", "shared"])
def test_of_equal_cells_at_most_one_in_two_hundred_is_called_different(machine: Machine) -> None:
    runs = [make(Made(seed, machine=machine)) for seed in range(12)]
    found = Counter(cell.speed.verdict for pair in combinations(runs, 2) for cell in cells(*pair))
    assert found.total() == 66 * len(GRID)
    assert found["slower"] + found["faster"] <= 0.005 * found.total()
    assert found["not judged"] == 0


def test_without_the_floor_equal_runs_of_a_shared_machine_would_be_called_different() -> None:
    """Rounds of one run cannot know by how much the next run differs."""
    runs = [make(Made(seed, machine=SHARED, rounds=80)) for seed in range(8)]
    for run in runs:
        run.environment.noise_floor = NoiseFloor(value=1e-6, threads=2, measured="2026-01-01")
    found = Counter(cell.speed.verdict for pair in combinations(runs, 2) for cell in cells(*pair))
    assert found["slower"] + found["faster"] > 0.1 * found.total()


def test_a_steady_machine_says_same() -> None:
    found = Counter(cell.speed.verdict for cell in cells(*(make(Made(seed, machine=STEADY)) for seed in (1, 2))))
    assert found == {"same": len(GRID)}


def test_five_percent_in_one_cell_is_found_on_a_quiet_machine_and_nothing_else_is() -> None:
    slow, others = with_a_slow_cell(QUIET, 1.05)
    assert slow["slower"] >= 0.8 * slow.total()
    assert slow["faster"] == 0
    assert others["slower"] + others["faster"] <= 0.005 * others.total()


def test_a_fifth_is_found_on_a_shared_machine() -> None:
    slow, others = with_a_slow_cell(SHARED, 1.2)
    assert slow["slower"] >= 0.9 * slow.total()
    assert others["slower"] + others["faster"] <= 0.005 * others.total()


def test_the_interval_covers_the_truth() -> None:
    covered = []
    for seed in range(30):
        for cell in cells(make(Made(seed)), make(Made(1000 + seed, factors=dict.fromkeys(GRID, 1.2)))):
            assert cell.speed.ci is not None
            covered.append(cell.speed.ci[0] <= 1.2 <= cell.speed.ci[1])
    assert sum(covered) >= 0.93 * len(covered)


def test_slower_by_all_is_slower_on_the_whole() -> None:
    base = make(Made(1))
    (slower,) = compare(base, make(Made(2, factors=dict.fromkeys(GRID, 1.1)))).others
    assert slower.geometric_mean.verdict == "slower"
    assert slower.geometric_mean.ratio == pytest.approx(1.1, abs=0.02)
    (mixed,) = compare(base, make(Made(3, factors={GRID[0]: 2.0, GRID[1]: 0.5}))).others
    assert mixed.geometric_mean.verdict in ("same", "unclear")
