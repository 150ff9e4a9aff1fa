"""The t distribution is scipy's, to far more digits than a verdict needs."""

from __future__ import annotations

import pytest
from scipy.special import chdtri, stdtr, stdtrit

from profiler.comparison.student import chi_squared_median, cumulative, quantile

FREEDOMS = (1.0, 1.7, 3.0, 8.5, 40.0, 1234.5, 99_000.0, 1e6)


@pytest.mark.parametrize("freedom", FREEDOMS)
@pytest.mark.parametrize("value", [-60.0, -7.5, -2.0, -0.3, 0.0, 0.3, 2.0, 7.5])
def test_the_probability_is_scipys(freedom: float, value: float) -> None:
    assert cumulative(freedom, value) == pytest.approx(stdtr(freedom, value), rel=1e-3, abs=1e-300)


@pytest.mark.parametrize("freedom", FREEDOMS)
@pytest.mark.parametrize("probability", [1e-5, 0.0006, 0.025, 0.4, 0.5, 0.975, 0.9999])
def test_the_quantile_is_scipys(freedom: float, probability: float) -> None:
    assert quantile(freedom, probability) == pytest.approx(stdtrit(freedom, probability), rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("freedom", [1.0, 2.0, 5.5, 14.0, 200.0])
def test_the_median_of_chi_squared_is_scipys_within_two_percent(freedom: float) -> None:
    assert chi_squared_median(freedom) == pytest.approx(chdtri(freedom, 0.5), rel=0.04 if freedom < 2 else 0.02)
