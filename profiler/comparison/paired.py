"""Two things that took turns in one run -> same, slower, faster or unclear, the ratio with its CI.

    round 1   A B, B A, A B ...   median of the logs of B / A, pair by pair
    round 2   A B, B A, A B ...   median of the logs of B / A, pair by pair
    ...                           mean over rounds, t interval over rounds

What the machine does within milliseconds, it does to both, so it cancels in the ratio of a pair. What is left differs
from round to round (a new process has its memory in other places): rounds are the unit. The same is done with the slow
calls of a round (its 90th percentile): a change that makes four calls of ten twice as slow moves no median.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from profiler.comparison.judge import word
from profiler.comparison.result import Interval, Ratio, Speed, Verdict

# Of 200 equal cells at most one is to be called slower or faster. Each is judged twice, by its typical and by its slow
# calls, and looked at after every round: whoever stops when a difference shows will see chance ones, so stopping early
# takes more (tests/unit/comparison/test_paired.py plays it on 600 equal cells).
CONFIDENCE = 0.999
EARLY = 0.9999
SLOW = 0.9  # the percentile that stands for the slow calls of a round
SLOW_CALLS = "the slow calls (90th percentile of rounds)"

Rounds = Sequence[Sequence[float]]


@dataclass(frozen=True)
class Shift:
    """The log of a ratio: its mean over rounds, one standard error, degrees of freedom."""

    value: float
    error: float
    freedom: float

    @classmethod
    def of(cls, first: Rounds, second: Rounds, compared: Callable[[Sequence[float], Sequence[float]], float]) -> Shift:
        logs = [compared(a, b) for a, b in zip(first, second, strict=True)]
        return cls(statistics.fmean(logs), statistics.stdev(logs) / math.sqrt(len(logs)), len(logs) - 1)

    def ci(self, confidence: float = CONFIDENCE) -> Interval:
        from scipy.special import stdtrit

        half = self.error * float(stdtrit(self.freedom, 0.5 + confidence / 2.0))
        return math.exp(self.value - half), math.exp(self.value + half)

    def ratio(self, threshold: float) -> Ratio:
        low, high = self.ci()
        detectable = max(1.0 + threshold, math.sqrt(high / low))
        return Ratio(
            verdict=word((low, high), threshold),
            ratio=math.exp(self.value),
            ci=(low, high),
            confidence=CONFIDENCE,
            detectable=detectable,
        )


def paired_speed(first: Rounds, second: Rounds, threshold: float) -> Speed:
    """`first[i]` and `second[i]` are the calls of both in the same round; needs at least two rounds."""
    typical = Shift.of(first, second, typical_calls).ratio(threshold)
    slow = Shift.of(first, second, slow_calls).ratio(threshold)
    speed = Speed(**typical.model_dump(), slow_calls=slow)
    if typical.verdict in ("same", "unclear") and slow.verdict in ("slower", "faster"):
        speed.verdict, speed.reason = slow.verdict, SLOW_CALLS
    return speed


def typical_calls(first: Sequence[float], second: Sequence[float]) -> float:
    """The log of the ratio of a round: the median over pairs of calls; of medians, where the calls do not pair."""
    if len(first) != len(second):
        return math.log(statistics.median(second) / statistics.median(first))
    return statistics.median(math.log(b / a) for a, b in zip(first, second, strict=True))


def slow_calls(first: Sequence[float], second: Sequence[float]) -> float:
    """The log of the ratio of the 90th percentiles of a round; of fewer than ten calls these are the slowest."""
    a, b = (sorted(calls)[math.ceil(SLOW * len(calls)) - 1] for calls in (first, second))
    return math.log(b / a)


def paired_mean(pairs: Sequence[tuple[Rounds, Rounds]], threshold: float) -> Speed:
    """All cells as a whole: the geometric mean of their ratios."""
    shifts = [Shift.of(first, second, typical_calls) for first, second in pairs]
    count = len(shifts)
    variance = sum(shift.error**2 for shift in shifts)
    weights = sum(shift.error**4 / shift.freedom for shift in shifts)
    freedom = variance**2 / weights if weights else shifts[0].freedom  # Welch and Satterthwaite
    whole = Shift(statistics.fmean(shift.value for shift in shifts), math.sqrt(variance) / count, freedom)
    return Speed(**whole.ratio(threshold).model_dump())


def decided(first: Rounds, second: Rounds, threshold: float) -> Verdict | None:
    """The word that more rounds would hardly change; None while there is none."""
    typical = Shift.of(first, second, typical_calls)
    if word(typical.ci(), threshold) == "same":
        return "same"
    for shift in (typical, Shift.of(first, second, slow_calls)):
        early = word(shift.ci(EARLY), threshold)
        if early in ("slower", "faster"):
            return early
    return None
