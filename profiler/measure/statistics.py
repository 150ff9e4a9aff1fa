"""Samples -> figures: median with its interval, percentiles where the samples support them.

The interval of the median comes from order statistics (the binomial distribution): it assumes nothing about the shape
of the distribution, which for timings is skewed and has outliers.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

CONFIDENCE = 0.95
# How many samples a percentile needs so that an order statistic bounds it with 99 % confidence on both sides.
SAMPLES_NEEDED = {50: 11, 90: 64, 95: 130, 99: 662}


@dataclass(frozen=True)
class Summary:
    """Figures of one list of samples."""

    median: float
    mean: float
    std: float
    min: float
    ci95: tuple[float, float]
    n: int

    @property
    def half_width(self) -> float:
        """The farther end of the interval from the median, relative to the median."""
        return _relative(self.median, self.ci95)


def _relative(median: float, interval: tuple[float, float]) -> float:
    return max(interval[1] - median, median - interval[0]) / median if median > 0 else math.inf


def relative_half_width(ordered: Sequence[float]) -> float:
    """How far the interval of the median of sorted samples reaches from it, relative to it."""
    return _relative(statistics.median(ordered), median_interval(ordered))


def summarize(samples: Sequence[float]) -> Summary:
    """All figures of the samples; needs at least one."""
    ordered = sorted(samples)
    return Summary(
        median=statistics.median(ordered),
        mean=statistics.fmean(ordered),
        std=statistics.stdev(ordered) if len(ordered) > 1 else 0.0,
        min=ordered[0],
        ci95=median_interval(ordered),
        n=len(ordered),
    )


def median_interval(ordered: Sequence[float]) -> tuple[float, float]:
    """The narrowest symmetric pair of order statistics that covers the median with 95 % confidence.

    With fewer than 6 samples not even the extremes reach 95 %; they are given all the same, as the widest there is.
    """
    n = len(ordered)
    rank = _interval_rank(n)
    return ordered[rank], ordered[n - 1 - rank]


@functools.cache
def _interval_rank(n: int) -> int:
    """The largest r with P(the median lies between the r-th smallest and the r-th largest) >= 95 %."""
    tail, rank = 0.0, 0
    for below in range((n - 1) // 2):
        tail += math.exp(math.lgamma(n + 1) - math.lgamma(below + 1) - math.lgamma(n - below + 1) - n * math.log(2))
        if 1.0 - 2.0 * tail < CONFIDENCE:
            break
        rank = below
    return rank


def percentiles(samples: Sequence[float]) -> dict[str, float]:
    """{'p90': ...} for the percentiles that this many samples support; others are left out."""
    ordered = sorted(samples)
    found = {}
    for percent, needed in SAMPLES_NEEDED.items():
        if len(ordered) >= needed:
            found[f"p{percent}"] = ordered[min(len(ordered) - 1, math.ceil(percent / 100 * len(ordered)) - 1)]
    return found
