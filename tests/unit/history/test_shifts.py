"""Level shifts: found where the level shifted, and hardly ever in noise alone."""

from __future__ import annotations

import math
import random

import pytest

from profiler.history.shifts import level_shifts


def noisy(levels: list[float], seed: int, noise: float = 0.02) -> list[float]:
    random_ = random.Random(seed)
    return [level * math.exp(random_.gauss(0, noise)) for level in levels]


def test_a_shift_of_ten_percent_is_found_where_it_is() -> None:
    found = [level_shifts(noisy([1.0] * 8 + [1.1] * 8, seed), 0.02) for seed in range(50)]
    near = [[shift for shift in shifts if abs(shift.at - 8) <= 1] for shifts in found]
    assert sum(len(shifts) == 1 for shifts in near) >= 45
    assert near[0][0].ratio == pytest.approx(1.1, abs=0.03)


@pytest.mark.parametrize("count", [6, 12, 40])
def test_noise_alone_hardly_ever_shows_one(count: int) -> None:
    assert sum(bool(level_shifts(noisy([1.0] * count, seed), 0.02)) for seed in range(100)) <= 1


def test_up_and_down_again_are_two() -> None:
    assert [round(shift.ratio, 1) for shift in level_shifts([1.0] * 5 + [2.0] * 5 + [1.0] * 5, 0.01)] == [2.0, 0.5]


def test_one_bad_run_is_no_new_level() -> None:
    assert level_shifts(noisy([1.0] * 6 + [1.5] + [1.0] * 6, 1), 0.01) == []


def test_a_shift_too_small_to_matter_is_not_marked() -> None:
    assert level_shifts([1.0] * 10 + [1.015] * 10, 0.001) == []


def test_a_shift_that_the_floor_may_explain_is_not_marked() -> None:
    """The machine is known to differ by so much from run to run, though these runs happen to agree."""
    values = [1.0] * 5 + [1.1] * 5
    assert len(level_shifts(values, 0.01)) == 1
    assert level_shifts(values, 0.05) == []


@pytest.mark.parametrize("values", [[], [1.0] * 5, [0.0] * 10, [1.0, 0.0] * 5])
def test_too_few_points_or_zeros_have_none(values: list[float]) -> None:
    assert level_shifts(values, 0.01) == []
