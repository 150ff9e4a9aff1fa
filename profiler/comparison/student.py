"""Student's t distribution and the median of chi-squared, as scipy.special has them, without the third of a second that
importing it takes: longer than all of a comparison."""

from __future__ import annotations

import math
from functools import cache

STEPS = 300
TINY = 1e-300
EXACT = 1e-15
NORMAL_FROM = 1e5  # degrees of freedom, from where on the t distribution is the normal one


def cumulative(freedom: float, value: float) -> float:
    """The probability of at most `value`."""
    if freedom >= NORMAL_FROM:
        return 0.5 * math.erfc(-value / math.sqrt(2))
    tail = 0.5 * _incomplete_beta(freedom / 2, 0.5, freedom / (freedom + value**2))
    return tail if value < 0 else 1.0 - tail


@cache
def quantile(freedom: float, probability: float) -> float:
    """The value that is not passed with that probability; 0 < probability < 1."""
    if probability > 0.5:
        return -quantile(freedom, 1.0 - probability)
    low, high = -1.0, 0.0
    while cumulative(freedom, low) > probability:
        low *= 2.0
    while high - low > 1e-12 * max(1.0, -low):
        middle = (low + high) / 2
        low, high = (middle, high) if cumulative(freedom, middle) < probability else (low, middle)
    return (low + high) / 2


def chi_squared_median(freedom: float) -> float:
    """Wilson and Hilferty's approximation, within a percent from 1 degree of freedom on."""
    part = 2.0 / (9.0 * freedom)
    return freedom * (1.0 - part) ** 3


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """Regularised, by its continued fraction (Lentz's method)."""
    if x <= 0.0 or x >= 1.0:
        return min(1.0, max(0.0, x))
    if x > (a + 1) / (a + b + 2):
        return 1.0 - _incomplete_beta(b, a, 1.0 - x)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)) / a
    above, below = 1.0, _not_zero(1.0 - (a + b) * x / (a + 1))
    fraction = below = 1.0 / below
    for step in range(1, STEPS):
        for term in (
            step * (b - step) * x / ((a + 2 * step - 1) * (a + 2 * step)),
            -(a + step) * (a + b + step) * x / ((a + 2 * step) * (a + 2 * step + 1)),
        ):
            below = 1.0 / _not_zero(1.0 + term * below)
            above = _not_zero(1.0 + term / above)
            fraction *= above * below
        if abs(above * below - 1.0) < EXACT:
            break
    return front * fraction


def _not_zero(value: float) -> float:
    return value if abs(value) > TINY else TINY
