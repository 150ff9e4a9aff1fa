"""Samples -> figures: the median over rounds with its interval, percentiles where the samples support them.

Calls of one round are alike: they met the machine in the same moment, in one process with one memory layout. So the
figure of a cell is the median of its rounds' medians, and its interval is taken over rounds. Rounds that follow each
other within seconds are alike as well, if less so: a shared machine changes its speed for tens of seconds. So more than
ten rounds count as ten blocks of consecutive ones (the method of batch means): a block averages what changes quickly,
and the blocks show what changes slowly. The interval comes from order statistics (the binomial distribution): it
assumes nothing about the shape of the distribution, which for timings is skewed and has outliers.
"""

from __future__ import annotations

import functools
import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

CONFIDENCE = 0.95
INTERVAL_NEEDS = 6  # rounds: with fewer, not even the extremes bound the median with 95 % confidence
BLOCKS = 10  # as many as a run has rounds by default; of more, each would be shorter and more like the next
# How many samples a percentile needs so that an order statistic bounds it with 99 % confidence on both sides.
SAMPLES_NEEDED = {50: 11, 90: 64, 95: 130, 99: 662}


@dataclass(frozen=True)
class Estimate:
    """The figure of a cell: one value, one interval."""

    value: float
    ci95: tuple[float, float] | None  # None with too few rounds

    @property
    def half_width(self) -> float | None:
        return relative_half_width(self.value, self.ci95)


def estimate(rounds: Sequence[Sequence[float]]) -> Estimate:
    """The median over rounds of the rounds' medians, with its interval over blocks; needs at least one call.

    Rounds are given in the order in which they were made.
    """
    medians = [statistics.median(calls) for calls in rounds if calls]
    value, interval = statistics.median(medians), median_interval(sorted(block_medians(medians)))
    return Estimate(value, (min(interval[0], value), max(interval[1], value)) if interval else None)


def block_medians(values: Sequence[float]) -> list[float]:
    """Values in order of time -> the medians of at most ten blocks of consecutive ones, as equal in size as can be."""
    count = min(BLOCKS, len(values))
    edges = [len(values) * number // count for number in range(count + 1)] if count else []
    return [statistics.median(values[start:end]) for start, end in itertools.pairwise(edges)]


def relative_half_width(value: float, interval: tuple[float, float] | None) -> float | None:
    """The farther end of the interval from the value, relative to the value."""
    if interval is None:
        return None
    return max(interval[1] - value, value - interval[0]) / value if value > 0 else math.inf


def cut(samples: Sequence[float], counts: Sequence[int]) -> list[list[float]]:
    """Samples in rounds; raises ValueError where the counts do not fit."""
    if sum(counts) != len(samples):
        raise ValueError("the samples do not fit the rounds")
    found, start = [], 0
    for count in counts:
        found.append(list(samples[start : start + count]))
        start += count
    return found


def median_interval(ordered: Sequence[float]) -> tuple[float, float] | None:
    """The narrowest symmetric pair of order statistics that covers the median with 95 % confidence."""
    n = len(ordered)
    if n < INTERVAL_NEEDS:
        return None
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


# -- tail latency, by MLPerf's early-stopping rule: was the share of late requests shown to be small enough?

TAIL_CONFIDENCE = 0.99


def requests_needed(late: int, percent: float) -> int:
    """The fewest requests that show, with so many late ones, that the percentile holds: 459 for p99 when none is."""
    low = high = late + 1
    while _at_most(late, high, percent) > 1 - TAIL_CONFIDENCE:
        low, high = high, 2 * high
    while low < high:
        middle = (low + high) // 2
        if _at_most(late, middle, percent) > 1 - TAIL_CONFIDENCE:
            low = middle + 1
        else:
            high = middle
    return low


def late_allowed(requests: int, percent: float) -> int:
    """The most late requests with which so many still show that the percentile holds; -1: they are too few."""
    low, high = -1, requests
    while low < high:
        middle = (low + high + 1) // 2
        if requests_needed(middle, percent) <= requests:
            low = middle
        else:
            high = middle - 1
    return low


def shown_to_exceed(late: int, requests: int, percent: float) -> bool:
    """Whether so many late ones would be chance in less than one of a hundred steps that keep the percentile."""
    return late > 0 and 1.0 - _at_most(late - 1, requests, percent) < 1 - TAIL_CONFIDENCE


def _at_most(late: int, requests: int, percent: float) -> float:
    """The probability of no more late ones than these, where each is late with 1 - percent / 100."""
    share = 1.0 - percent / 100
    return math.fsum(
        math.exp(
            math.lgamma(requests + 1)
            - math.lgamma(count + 1)
            - math.lgamma(requests - count + 1)
            + count * math.log(share)
            + (requests - count) * math.log1p(-share)
        )
        for count in range(min(late, requests) + 1)
    )
