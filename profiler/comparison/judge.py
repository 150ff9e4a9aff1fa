"""Figures of two runs -> same, slower, faster or unclear, the ratio with its CI, and the smallest detectable change.

The unit is the block of rounds, as in the CI of a figure: of each cell, with n1 and n2 blocks, at most ten each:

    estimate   log of the ratio of the two figures, which are medians of the rounds' medians
    variance   pi/2 * (1/n1 + 1/n2) * s2 + 2 * floor^2

s2 is the variance of the logs of the blocks' medians: the cell's own, shrunk towards that of all cells (a moderated t
test). pi/2 is what a median costs: its variance is so many times that of a mean. The floor is what equal runs on this
machine differ by, however many rounds they have (`doctor` measures it). A cell is slower or faster if its CI says so,
if it is still significant after false-discovery control over all cells, if the change is as large as the threshold, and
if the mean over rounds points the same way as the median.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from profiler.comparison.result import Interval, Speed, Verdict
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
        ci = math.exp(shift - half), math.exp(shift + half)
        detectable = math.exp(max(math.log1p(threshold), least))
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
