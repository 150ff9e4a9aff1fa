"""Student's t distribution and false-discovery control, as scipy has them. Importing scipy would take longer than the
rest of a comparison; tests/unit/comparison/test_student.py holds these against it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from functools import lru_cache

NORMAL = 1e6  # degrees of freedom, from where on t is the normal distribution
PRECISION = 1e-14
TINY = 1e-300  # stands for 0 where it would divide


def tail(freedom: float, t: float) -> float:
    """P(T > t), for t from 0 on."""
    if freedom >= NORMAL:
        return math.erfc(t / math.sqrt(2.0)) / 2.0
    a, x = freedom / 2.0, freedom / (freedom + t * t)
    if x < (a + 1.0) / (a + 2.5):
        return _beta(a, 0.5, x) / 2.0
    return (1.0 - _beta(0.5, a, t * t / (freedom + t * t))) / 2.0


@lru_cache(maxsize=1000)
def quantile(freedom: float, p: float) -> float:
    """The t with P(T <= t) = p, for p from 0.5 on: Newton's steps from the normal distribution's, which lies below it.

    The distribution function is concave from 0 on, so every step stays below the solution and comes nearer.
    """
    t = statistics.NormalDist().inv_cdf(p)
    if freedom >= NORMAL:
        return t
    height = math.exp(_log_gammas(freedom)) / math.sqrt(freedom * math.pi)
    for _ in range(200):
        density = height * (1.0 + t * t / freedom) ** (-(freedom + 1.0) / 2.0)
        step = (tail(freedom, t) - (1.0 - p)) / density
        t += step
        if abs(step) <= 1e-12 * t:
            break
    return t


def adjusted(chances: Sequence[float]) -> list[float]:
    """Benjamini and Hochberg's p values: those at or below q are, but for a share of q, no chance."""
    found, least = list(chances), 1.0
    for rank, place in sorted(enumerate(sorted(range(len(found)), key=found.__getitem__), start=1), reverse=True):
        least = min(least, chances[place] * len(found) / rank)
        found[place] = least
    return found


def _log_gammas(freedom: float) -> float:
    return math.lgamma((freedom + 1.0) / 2.0) - math.lgamma(freedom / 2.0)


def _beta(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function, where one of a and b is a half: its continued fraction (Lentz)."""
    if x <= 0.0:
        return 0.0
    logs = _log_gammas(2.0 * max(a, b)) - math.log(math.pi) / 2.0 + a * math.log(x) + b * math.log1p(-x)
    c, d = 1.0, 1.0 / (1.0 - (a + b) * x / (a + 1.0))
    whole = d
    for m in range(1, 10_000):
        even = m * (b - m) * x / ((a + 2 * m - 1.0) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1.0))
        for term in (even, odd):
            c = 1.0 + term / (c or TINY)
            d = 1.0 / ((1.0 + term * d) or TINY)
            whole *= c * d
        if abs(c * d - 1.0) < PRECISION:
            break
    return math.exp(logs) * whole / a
