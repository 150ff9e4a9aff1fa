"""What is computed here so that nobody waits for scipy is what scipy computes."""

from __future__ import annotations

import random

import pytest
from scipy.special import stdtr, stdtrit
from scipy.stats import false_discovery_control

from profiler.comparison.student import NORMAL, adjusted, quantile, tail

FREEDOMS = (1.0, 1.7, 2.0, 3.0, 4.5, 9.0, 18.3, 49.0, 250.0, 4321.0, 99_999.5, 1e6, 1e7)


@pytest.mark.parametrize("freedom", FREEDOMS)
def test_the_t_distribution_is_scipys(freedom: float) -> None:
    for t in (0.0, 1e-9, 0.01, 0.5, 1.0, 1.96, 3.3, 8.0, 25.0, 1000.0):
        close = {"rel": 2e-3, "abs": 1e-20} if freedom >= NORMAL else {"rel": 1e-7}
        assert tail(freedom, t) == pytest.approx(float(stdtr(freedom, -t)), **close)
    for p in (0.5, 0.6, 0.9, 0.975, 0.995, 0.9995, 0.99995, 1 - 1e-7):
        assert quantile(freedom, p) == pytest.approx(float(stdtrit(freedom, p)), rel=1e-5, abs=1e-12)


def test_false_discovery_control_is_scipys() -> None:
    random_ = random.Random(0)
    for count in (1, 2, 3, 10, 100):
        chances = [random_.random() ** 4 for _ in range(count)] + [0.01, 0.01]
        assert adjusted(chances) == pytest.approx(list(false_discovery_control(chances)))
