"""Figures of two runs, or of two variants that took turns in one -> same, slower, faster or unclear, and the ratio.

Two runs. The unit is the block of rounds, as in the CI of a figure: of each cell, with n1 and n2 blocks, at most ten:

    estimate   log of the ratio of the two figures, which are medians of the rounds' medians
    variance   pi/2 * (1/n1 + 1/n2) * s2 + 2 * floor^2

s2 is the variance of the logs of the blocks' medians: the cell's own, shrunk towards that of all cells (a moderated t
test). pi/2 is what a median costs: its variance is so many times that of a mean. The floor is what equal runs on this
machine differ by, however many rounds they have (`doctor` measures it). A cell is slower or faster if its CI says so,
if it is still significant after false-discovery control over all cells, if the change is as large as the threshold, and
if the mean over rounds points the same way as the median.

One run, taking turns:

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

from profiler.comparison.result import Interval, Ratio, Speed, Verdict
from profiler.results.statistics import block_medians
from profiler.results.types import Latency

THRESHOLD = 0.02  # smaller changes are of no interest, however sure
ALPHA = 0.01  # of the cells that are called slower or faster, no more than this share is expected to be wrong
# How many rounds the variance of all cells counts for: enough that a cell whose few rounds happen to agree is not taken
# for a precise one, little beside the 10 and more rounds that a cell usually has.
PRIOR = 4.0
TINY = 1e-18  # the least variance, where all rounds are equal to the last digit
NORMAL = 1e6  # degrees of freedom, from where on t is the normal distribution
UNKNOWN = "one round each: how much rounds vary is unknown (measure.rounds=10 tells)"
# Of 200 equal cells at most one is to be called slower or faster. Each is judged twice, by its typical and by its slow
# calls, and looked at after every round: whoever stops when a difference shows will see chance ones, so stopping early
# takes more (tests/unit/comparison/test_paired.py plays it on 600 equal cells).
CONFIDENCE = 0.999
EARLY = 0.9999
SLOW = 0.9  # the percentile that stands for the slow calls of a round
SLOW_CALLS = "the slow calls (90th percentile of rounds)"
Rounds = Sequence[Sequence[float]]


def word(ci: Interval, threshold: float) -> Verdict:
    """What the 95 % CI of a ratio says: the one place where the four words are decided."""
    low, high = ci
    if low >= 1.0 / (1.0 + threshold) and high <= 1.0 + threshold:
        return "same"
    if low > 1.0:
        return "slower"
    return "faster" if high < 1.0 else "unclear"


def judge(cells: Sequence[tuple[Latency, Latency]], floor: float, threshold: float = THRESHOLD) -> list[Speed]:
    """The verdict on each cell; `floor`: run-to-run standard deviation of the log of a figure."""
    logs = [[[math.log(value) for value in block_medians(side.round_medians)] for side in cell] for cell in cells]
    freedom = [sum(len(side) - 1 for side in cell) for cell in logs]
    squares = [sum(statistics.pvariance(side) * len(side) for side in cell) for cell in logs]
    ratios = [after.median / before.median for before, after in cells]
    if not sum(freedom):
        return [Speed(ratio=ratio, reason=UNKNOWN) for ratio in ratios]
    from scipy.special import stdtr, stdtrit

    pooled, speeds, chances = sum(squares) / sum(freedom), [], []
    for ratio, cell, own, own_freedom in zip(ratios, logs, squares, freedom, strict=True):
        moderated = (PRIOR * pooled + own) / (PRIOR + own_freedom)
        within = max(TINY, math.pi / 2.0 * sum(1.0 / len(side) for side in cell) * moderated)
        variance = within + 2.0 * floor**2
        # Degrees of freedom (Satterthwaite): only the part within runs is estimated, the floor is given.
        known = min(NORMAL, (PRIOR + own_freedom) * (variance / within) ** 2)
        error, shift = math.sqrt(variance), math.log(ratio)
        half = error * float(stdtrit(known, 0.975))
        least = error * float(stdtrit(known, 1.0 - ALPHA / 2.0 / len(cells)))
        chances.append(2.0 * float(stdtr(known, -abs(shift) / error)))
        ci = _exp(shift - half), _exp(shift + half)
        detectable = _exp(max(math.log1p(threshold), least))
        verdict = word(ci, threshold)
        speeds.append(Speed(verdict=verdict, ratio=ratio, ci=ci, detectable=detectable, p=chances[-1]))
    if all(speed.verdict in ("same", "unclear") for speed in speeds):
        return speeds  # nothing to correct; scipy.stats takes a second to import
    from scipy.stats import false_discovery_control

    for sides, speed, p_adjusted in zip(cells, speeds, false_discovery_control(chances), strict=True):
        speed.p_adjusted = float(p_adjusted)
        if speed.verdict in ("slower", "faster"):
            before, after = (statistics.fmean(map(math.log, side.round_medians)) for side in sides)
            speed.reason = _doubt(speed, after - before, threshold)
            speed.verdict = "unclear" if speed.reason else speed.verdict
    return speeds


def mean_speed(speeds: Sequence[Speed], threshold: float = THRESHOLD) -> Speed:
    """The geometric mean over cells of their ratios, and of both ends of their CIs: cells of a run met the machine in
    the same minutes, so their errors do not average out."""
    known = [(speed.ratio, *speed.ci) for speed in speeds if speed.ratio is not None and speed.ci is not None]
    if not known:
        return Speed()
    ratio, low, high = (statistics.geometric_mean(values) for values in zip(*known, strict=True))
    verdict = word((low, high), threshold)
    small = verdict in ("slower", "faster") and _is_small(ratio, threshold)
    confidence = min(speed.confidence for speed in speeds if speed.ci is not None)
    return Speed(verdict="unclear" if small else verdict, ratio=ratio, ci=(low, high), confidence=confidence)


def _exp(log: float) -> float:
    """A ratio from its log; one that no number can hold is the largest or smallest that there is."""
    return math.exp(min(max(log, -700.0), 700.0))


def _doubt(speed: Speed, mean_shift: float, threshold: float) -> str:
    """Why a cell is not called slower or faster though its CI leaves out 1; empty where nothing speaks against it."""
    ratio, p = speed.ratio or 1.0, speed.p_adjusted or 0.0
    if _is_small(ratio, threshold):
        return f"the change is smaller than the threshold of {threshold * 100:g} %"
    if p > ALPHA:
        return f"not significant over all cells (FDR-adjusted p = {p:.2g})"
    return "" if mean_shift * math.log(ratio) > 0.0 else "median and mean over rounds point in opposite directions"


def _is_small(ratio: float, threshold: float) -> bool:
    return abs(math.log(ratio)) < math.log1p(threshold)


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
        return _exp(self.value - half), _exp(self.value + half)

    def ratio(self, threshold: float) -> Ratio:
        low, high = self.ci()
        detectable = max(1.0 + threshold, math.sqrt(high / low))
        return Ratio(
            verdict=word((low, high), threshold),
            ratio=_exp(self.value),
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
