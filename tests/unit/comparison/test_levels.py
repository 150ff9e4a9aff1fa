"""The level of a cell: what the machine does to some of its calls and rounds does not move it."""

from __future__ import annotations

import math
import random
import statistics

import pytest

from profiler.comparison.levels import QUIET_FROM, Levels, level_of, times_of
from profiler.comparison.noise import beside_others, shifts

CALM = [[0.1, 0.1, 0.1, 0.1]] * 24


def disturbed(rounds: list[list[float]], count: int, factor: float = 3.0) -> list[list[float]]:
    return [[call * factor for call in calls] for calls in rounds[:count]] + rounds[count:]


def slower(rounds: list[list[float]], factor: float) -> list[list[float]]:
    return disturbed(rounds, len(rounds), factor)


def test_the_slower_half_of_the_calls_of_a_round_does_not_count() -> None:
    assert math.exp(level_of([0.1, 0.1, 0.5, 9.0])) == pytest.approx(0.1)
    assert math.exp(level_of([0.3])) == pytest.approx(0.3)
    assert math.exp(level_of([0.1, 0.4, 0.9])) == pytest.approx(0.2), "two of three; their geometric mean"


@pytest.mark.parametrize("paired", [False, True])
def test_the_noisier_half_of_the_rounds_does_not_count(paired: bool) -> None:
    found = Levels.of(disturbed(CALM, 12), slower(CALM, 1.1), paired)
    assert found.value == pytest.approx(math.log(1.1))
    assert times_of(disturbed(CALM, 12), slower(CALM, 1.1)) == pytest.approx((0.1, 0.11))


def test_of_few_rounds_it_is_the_median() -> None:
    few = CALM[: QUIET_FROM - 1]  # 15
    assert times_of(disturbed(few, 7), disturbed(few, 8)) == pytest.approx((0.1, 0.3))
    assert not Levels.of(few, CALM, paired=False).quiet, "both are judged in one way"


def test_the_error_of_a_level_is_what_levels_of_many_runs_show() -> None:
    """Runs of rounds of which four in ten are disturbed: the error that one pair of runs states, and the true one."""
    random_ = random.Random(0)

    def rounds() -> list[list[float]]:
        slow = [random_.expovariate(5.0) if random_.random() < 0.4 else 0.0 for _ in range(24)]
        return [[0.1 * math.exp(random_.gauss(0, 0.01) + more)] for more in slow]

    pairs = [Levels.of(rounds(), rounds(), paired=False) for _ in range(300)]
    true = statistics.pstdev(pair.value for pair in pairs)
    stated = [math.sqrt(pair.variance[0] * pair.weight) for pair in pairs]
    assert statistics.fmean(stated) == pytest.approx(true, rel=0.15)
    medians = statistics.pstdev(
        statistics.median(math.log(a[0]) for a in rounds()) - statistics.median(math.log(a[0]) for a in rounds())
        for _ in range(300)
    )
    assert true < 0.7 * medians, "nearer each other than medians are"


def test_cells_that_changed_are_not_what_is_typical() -> None:
    """Two of six are slower: beside the others they are so by as much, and the others are where they were."""
    both = [Levels.of(slower(CALM, 1 + n), slower(CALM, (1 + n) * (1.1 if n < 2 else 1.0)), False) for n in range(6)]
    found = beside_others(both)
    assert found is not None
    relative, common = found
    assert common == pytest.approx(0.0)
    assert [math.exp(shift.value) for shift in shifts(relative, lasting=0.0)] == pytest.approx([1.1, 1.1, 1, 1, 1, 1])


def test_what_lasts_in_a_cell_is_not_averaged_out() -> None:
    """Rounds of equal spread: in one order they come and go, in the other they drift."""
    random_ = random.Random(1)
    spread = [random_.gauss(0, 0.03) for _ in range(48)]
    drifting = sorted(spread)
    steady, lasting = (
        shifts([Levels(tuple(levels), tuple(levels), quiet=True)], lasting=0.0)[0] for levels in (spread, drifting)
    )
    assert lasting.error > 2 * steady.error
