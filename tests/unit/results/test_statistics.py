"""Samples -> figures, checked against the textbook."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from scipy.stats import binom

from profiler.results.statistics import (
    INTERVAL_NEEDS,
    SAMPLES_NEEDED,
    block_medians,
    cut,
    estimate,
    median_interval,
    percentiles,
)


def coverage(n: int, rank: int) -> float:
    """P(the median lies between the rank-th smallest and the rank-th largest of n samples); ranks count from 0."""
    return float(1 - 2 * binom.cdf(rank, n, 0.5))


@pytest.mark.parametrize("n", [*range(6, 120), 200, 500, 1000, 2000, 5000])
def test_the_interval_of_the_median_is_the_narrowest_that_covers_95_percent(n: int) -> None:
    interval = median_interval(list(range(n)))
    assert interval is not None
    low, high = (int(value) for value in interval)
    assert low == n - 1 - high
    assert coverage(n, low) >= 0.95
    assert coverage(n, low + 1) < 0.95


@pytest.mark.parametrize(("rounds", "left_out"), [(6, 0), (8, 0), (9, 1), (10, 1), (11, 1), (12, 2), (15, 3), (20, 5)])
def test_the_interval_leaves_out_so_many_rounds_on_either_side(rounds: int, left_out: int) -> None:
    assert median_interval(list(range(rounds))) == (left_out, rounds - 1 - left_out)


def test_fewer_than_six_rounds_have_no_interval() -> None:
    """Not even the fastest and the slowest of five bound a median with 95 % confidence."""
    assert coverage(INTERVAL_NEEDS, 0) >= 0.95 > coverage(INTERVAL_NEEDS - 1, 0)
    for rounds in range(1, 6):
        figure = estimate([[1.0, 2.0, 3.0]] * rounds)
        assert (figure.value, figure.ci95, figure.half_width) == (2.0, None, None)
    assert estimate([[1.0, 2.0, 3.0]] * 6).ci95 == (2.0, 2.0)


def test_the_interval_holds_the_true_median_about_as_often_as_it_says() -> None:
    chance = random.Random(0)
    tries = 2000
    hits = 0
    for _ in range(tries):
        # Timings are skewed and have outliers; the median of this distribution is 1.
        low, high = median_interval(sorted(chance.lognormvariate(0, 1) for _ in range(15))) or (0.0, 0.0)
        hits += low <= 1.0 <= high
    assert 0.95 <= hits / tries < 0.985


def test_calls_that_are_alike_within_a_round_make_no_interval_narrower() -> None:
    """Each round met the machine in another state: ten times the calls are no more looks at it."""
    levels = [random.Random(seed).lognormvariate(0, 0.1) for seed in range(10)]
    few, many = ([[level] * calls for level in levels] for calls in (1, 10))
    assert estimate(many) == estimate(few)


def test_the_figure_is_the_median_over_rounds_of_the_rounds_medians() -> None:
    """A round with many calls counts as much as one with few."""
    rounds = [[1.0] * 50, [2.0, 9.0, 2.0], [3.0], [4.0], [5.0, 5.0], [6.0], [7.0]]
    assert estimate(rounds).value == 4.0
    assert estimate(rounds).ci95 == (1.0, 7.0)
    assert estimate(list(reversed(rounds))) == estimate(rounds)


def test_a_round_without_calls_is_no_round() -> None:
    assert estimate([[], [1.0], [3.0]]).value == 2.0
    assert estimate([[], *[[1.0]] * 5]).ci95 is None


def test_a_disturbed_round_moves_neither_figure_nor_interval() -> None:
    calm = [[1.0 + number / 10] for number in range(10)]
    struck = [*calm[:-1], [200.0]]
    assert estimate(struck) == estimate(calm)
    assert estimate(calm).ci95 == (1.1, 1.8)


def test_more_rounds_make_the_interval_narrower() -> None:
    chance = random.Random(1)
    rounds = [[chance.lognormvariate(0, 0.1)] for _ in range(320)]
    widths = [estimate(rounds[:count]).half_width or 0.0 for count in (10, 40, 160, 320)]
    assert all(later < earlier for earlier, later in pairwise(widths))


def test_rounds_that_follow_each_other_closely_make_no_interval_narrower() -> None:
    """A machine that changes its speed for a while: a hundred rounds are ten looks at it."""
    levels = [random.Random(seed).lognormvariate(0, 0.1) for seed in range(10)]
    one, ten = ([[level] for level in levels for _ in range(rounds)] for rounds in (1, 10))
    assert estimate(ten) == estimate(one)


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (3, [0, 1, 2]),
        (10, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
        (15, [0, 1.5, 3, 4.5, 6, 7.5, 9, 10.5, 12, 13.5]),
        (30, [1, 4, 7, 10, 13, 16, 19, 22, 25, 28]),
    ],
)
def test_blocks_are_consecutive_and_of_nearly_equal_size(count: int, expected: list[float]) -> None:
    assert block_medians(range(count)) == expected


def test_the_interval_contains_the_figure() -> None:
    """Also where most blocks lie on one side of it: the other halves of nine blocks, and one block, lie far above."""
    rounds = [[value] for _ in range(9) for value in (1.0, 1.0, 9.0, 1.0, 9.0, 9.0, 1.0)] + [[9.0]] * 70
    figure = estimate(rounds)
    assert figure.ci95 is not None
    assert figure.ci95[0] <= figure.value <= figure.ci95[1]


def test_the_half_width_is_the_farther_end_relative_to_the_figure() -> None:
    assert estimate([[0.9], [1.0], [1.0], [1.0], [1.0], [1.3]]).half_width == pytest.approx(0.3)
    assert estimate([[0.6], [1.0], [1.0], [1.0], [1.0], [1.3]]).half_width == pytest.approx(0.4)


def test_a_figure_of_zero_has_no_relative_width() -> None:
    assert estimate([[0.0]] * 6).half_width == float("inf")


def test_samples_are_cut_into_their_rounds() -> None:
    assert cut([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [3, 1, 2]) == [[1.0, 2.0, 3.0], [4.0], [5.0, 6.0]]
    assert cut([], []) == []


@pytest.mark.parametrize("counts", [[3, 2], [3, 4], []])
def test_counts_that_do_not_fit_the_samples_are_refused(counts: list[int]) -> None:
    with pytest.raises(ValueError, match="do not fit the rounds"):
        cut([1.0] * 6, counts)


def test_percentiles_are_left_out_where_samples_do_not_support_them() -> None:
    assert percentiles([1.0] * 10) == {}
    assert list(percentiles([1.0] * 11)) == ["p50"]
    assert list(percentiles([1.0] * 100)) == ["p50", "p90"]
    assert list(percentiles([1.0] * 661)) == ["p50", "p90", "p95"]
    assert list(percentiles([1.0] * 662)) == ["p50", "p90", "p95", "p99"]


@pytest.mark.parametrize(("percent", "needed"), SAMPLES_NEEDED.items())
def test_a_percentile_is_given_where_order_statistics_bound_it(percent: int, needed: int) -> None:
    """Below it and above it there has to be a sample, with 99 % confidence on either side."""
    share = percent / 100

    def bounded(n: int) -> bool:
        return float(1 - share**n) >= 0.99 and float(1 - (1 - share) ** n) >= 0.99

    assert bounded(needed)


def test_percentiles_are_samples_at_their_rank() -> None:
    samples = [float(n) for n in range(1, 1001)]
    random.Random(1).shuffle(samples)
    assert percentiles(samples) == {"p50": 500.0, "p90": 900.0, "p95": 950.0, "p99": 990.0}
