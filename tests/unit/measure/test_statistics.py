"""Samples -> figures, checked against the textbook."""

from __future__ import annotations

import random

import pytest
from scipy.stats import binom

from profiler.measure.statistics import SAMPLES_NEEDED, median_interval, percentiles, summarize


def coverage(n: int, rank: int) -> float:
    """P(the median lies between the rank-th smallest and the rank-th largest of n samples); ranks count from 0."""
    return float(1 - 2 * binom.cdf(rank, n, 0.5))


@pytest.mark.parametrize("n", [*range(6, 120), 200, 500, 1000, 2000, 5000])
def test_the_interval_of_the_median_is_the_narrowest_that_covers_95_percent(n: int) -> None:
    low, high = (int(value) for value in median_interval(list(range(n))))
    assert low == n - 1 - high
    assert coverage(n, low) >= 0.95
    assert coverage(n, low + 1) < 0.95


@pytest.mark.parametrize("n", range(1, 6))
def test_few_samples_give_the_widest_interval_there_is(n: int) -> None:
    assert median_interval(list(range(n))) == (0, n - 1)


def test_the_interval_holds_the_true_median_about_as_often_as_it_says() -> None:
    chance = random.Random(0)
    tries = 2000
    hits = 0
    for _ in range(tries):
        # Timings are skewed and have outliers; the median of this distribution is 1.
        samples = sorted(chance.lognormvariate(0, 1) for _ in range(15))
        low, high = median_interval(samples)
        hits += low <= 1.0 <= high
    assert 0.95 <= hits / tries < 0.985


def test_an_outlier_moves_neither_median_nor_interval() -> None:
    calm = summarize([1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 1.9, 2.0])
    struck = summarize([1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 1.9, 200.0])
    assert (struck.median, struck.ci95) == (calm.median, calm.ci95)
    assert struck.mean > 10 * calm.mean


def test_all_figures_of_a_few_samples() -> None:
    summary = summarize([4.0, 1.0, 3.0, 2.0])
    assert (summary.median, summary.mean, summary.min, summary.n) == (2.5, 2.5, 1.0, 4)
    assert summary.std == pytest.approx(1.29099, abs=1e-5)
    assert summary.ci95 == (1.0, 4.0)


def test_one_sample_has_no_spread() -> None:
    summary = summarize([0.5])
    assert (summary.median, summary.std, summary.ci95, summary.half_width) == (0.5, 0.0, (0.5, 0.5), 0.0)


def test_the_half_width_is_the_farther_end_relative_to_the_median() -> None:
    summary = summarize([0.9, 1.0, 1.0, 1.0, 1.0, 1.3])
    assert summary.half_width == pytest.approx(0.3)


def test_a_median_of_zero_has_no_relative_width() -> None:
    assert summarize([0.0, 0.0, 0.0]).half_width == float("inf")


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
