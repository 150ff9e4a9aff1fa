"""How sure can we be of a ratio? Samples of two runs in rounds -> the ratio of their times, and what it may be off by.

The calls of one round are alike because they met the machine in the same minute, and the next run will meet it in
another: a hundred calls in a round are one look at the machine, not a hundred. So what counts is how far whole rounds
lie apart (see levels.py), never how far single calls do. Three rounds say little about that alone, hence all cells of
both runs are asked: the variance of a round is what the rounds of all cells show, and more where the cell's own do.

All is reckoned in logarithms: 0.1 is 10 %, and a ratio and its inverse are equally far from 0.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from profiler.comparison.levels import Levels
from profiler.comparison.student import chi_squared_median, cumulative, quantile

# A run holds its weights in one place of the memory, in all its rounds; the next run has another place, and the same
# code takes slightly longer or shorter there. No round shows it, so it is added: about 1 % is seen on quiet machines.
RUN_TO_RUN = 0.01
# What the cells of a round share is the machine's own change. Part of it lasts longer than a run, so that no number of
# rounds averages it out: runs of 12 to 48 rounds on a shared machine differed by 0.3 to 0.5 of what their rounds did.
# Rather too much is assumed.
LASTING = 0.7
# Rounds follow each other within minutes and look alike where the machine changes more slowly than that, so that they
# show too little of how it changes and their mean is worth less: with a correlation of 0.5 from one to the next both
# together cost a factor of 3, for few rounds and for many. So much is assumed at most, and where there are too few
# rounds to tell how much alike they are.
ALIKE = 0.5
# With one round in each run nothing is known of how the machine changes; shared ones were seen to change by so much.
ASSUMED_DRIFT = 0.05
MEDIAN_OF_VARIANCES_NEEDS = 3  # cells; of fewer, the mean
PRIOR = 4.0  # how many degrees of freedom all cells together count beside a cell's own, where it seems noisier
OTHERS_NEEDED = 5  # cells, to tell what most of them share
TYPICAL = 0.6  # the share of cells that tells it
KNOWN = 1e6  # degrees of freedom of what is not estimated


@dataclass(frozen=True)
class Shift:
    """By how much the second is slower than the first, as a logarithm."""

    value: float
    error: float  # one standard error
    freedom: float  # how well that error is known: degrees of freedom

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        reach = quantile(self.freedom, 0.5 + confidence / 2) * self.error
        return self.value - reach, self.value + reach

    def probability(self, low: float = 0.0, high: float = 0.0) -> float:
        """Of a shift at least so far from [low, high] when the truth lies in there: both sides."""
        beyond = max(self.value - high, low - self.value, 0.0)
        return min(1.0, 2.0 * cumulative(self.freedom, -beyond / self.error))

    def least(self, probability: float) -> float:
        """The smallest shift that would have had such a probability."""
        return -quantile(self.freedom, probability / 2) * self.error


def shifts(cells: Sequence[Levels], lasting: float = LASTING) -> list[Shift]:
    """The shift of each cell, judged by the rounds of all; `lasting` is 0 where what they share is taken off."""
    common, common_freedom = _common_variance(cells)
    correlation = _correlation(cells)
    alike = (1.0 + correlation) / (1.0 - correlation)
    shared = lasting**2 * _shared_variance(cells)
    found = []
    for cell in cells:
        variance, freedom = common, common_freedom
        own, own_freedom = cell.variance
        if own_freedom and own > common:
            prior = min(PRIOR, max(0.0, common_freedom - own_freedom))
            variance, freedom = (prior * common + own_freedom * own) / (prior + own_freedom), prior + own_freedom
        if not freedom:
            variance, freedom = ASSUMED_DRIFT**2 * (1.0 if cell.second else 2.0), KNOWN
        of_machine = 2.0 * max(shared, _lasting_variance(cell))
        from_rounds, from_runs = alike * variance * cell.weight + of_machine, 2.0 * RUN_TO_RUN**2
        total = from_rounds + from_runs
        # Satterthwaite: a sum of an estimate and of something known is known better than the estimate.
        found.append(
            Shift(cell.value, math.sqrt(total), freedom * (total / from_rounds) ** 2 if from_rounds else KNOWN)
        )
    return found


def beside_others(cells: Sequence[Levels]) -> tuple[list[Levels], float] | None:
    """Levels without what the typical cells of a round have in common, and the shift that they have in common.

    A slow minute slows all cells; what one cell does beside the others is seen more sharply. Typical are those
    cells whose shifts lie nearest the median, most of them, so that cells which did change do not count as what is
    common. None where there are too few cells to tell, or a cell has no round that enough typical ones have.
    """
    sides = {len(cell.groups) for cell in cells}
    if len(cells) < OTHERS_NEEDED or len(sides) > 1:
        return None
    median = statistics.median(cell.value for cell in cells)
    typical = sorted(cells, key=lambda cell: abs(cell.value - median))[: math.ceil(TYPICAL * len(cells))]
    bases = [statistics.fmean(cell.centres) for cell in typical]
    common = [
        {number: statistics.fmean(levels) for number, levels in found.items() if 2 * len(levels) > len(typical)}
        for found in (_by_round(typical, side, bases) for side in range(sides.pop()))
    ]
    relative = []
    for cell in cells:
        kept = [
            {number: level - shared[number] for number, level in cell.in_rounds(side).items() if number in shared}
            for side, shared in enumerate(common)
        ]
        if not all(kept):
            return None
        relative.append(Levels.by_rounds(kept, cell.quiet))
    return relative, statistics.fmean(cell.value for cell in typical)


def mean_shift(cells: Sequence[Levels]) -> Shift:
    """Of the geometric mean over cells: each round's mean over cells is one look at the machine."""
    sides = range(min(len(cell.groups) for cell in cells))
    means = [[statistics.fmean(errors) for errors in _errors_by_round(cells, side)] for side in sides]
    quiet = all(cell.quiet for cell in cells)
    spread = shifts([Levels.by_rounds([dict(enumerate(side)) for side in means], quiet)])[0]
    return Shift(statistics.fmean(cell.value for cell in cells), spread.error, spread.freedom)


def _by_round(cells: Sequence[Levels], side: int, bases: Sequence[float]) -> dict[int, list[float]]:
    """What each round of a run adds to the cells that have it, by its number."""
    found: dict[int, list[float]] = {}
    for cell, base in zip(cells, bases, strict=True):
        for number, level in cell.in_rounds(side).items():
            found.setdefault(number, []).append(level - base)
    return found


def _errors_by_round(cells: Sequence[Levels], side: int) -> list[list[float]]:
    """How far cells lie off their own medians, for each round that at least half of them have; else for all rounds."""
    having = [cell for cell in cells if len(cell.groups) > side]
    found = _by_round(having, side, [cell.centres[side] for cell in having])
    return [errors for errors in found.values() if 2 * len(errors) >= len(having)] or list(found.values())


def _common_variance(cells: Sequence[Levels]) -> tuple[float, float]:
    """The variance of a round over all cells, and its degrees of freedom.

    The median over cells, so that one disturbed cell does not blind all others. What the cells of a round share is one
    piece of evidence, not one for each cell: the more they share, the fewer degrees of freedom.
    """
    several = [cell for cell in cells if cell.rounds]
    if not several:
        return 0.0, 0.0
    variances = [cell.variance[0] for cell in several]
    each = statistics.fmean(cell.variance[1] for cell in several)
    if len(several) < MEDIAN_OF_VARIANCES_NEEDS:
        total = statistics.fmean(variances)
    else:
        total = statistics.median(variances) * each / chi_squared_median(each)  # the median lies below the mean
    if total <= 0.0:
        return 0.0, each
    shared = min(total, _shared_variance(several))
    own, of_own = total - shared, each * max(1, len(several) - 1)
    return total, total**2 / (shared**2 / each + own**2 / of_own)


def _correlation(cells: Sequence[Levels]) -> float:
    """How much a round is like the one before, at most: by all cells, with what so few rounds cannot show added."""
    following = [side for cell in cells for side in cell.following]
    products, pairs = sum(one * two for side in following for one, two in side), sum(map(len, following))
    longest = max(map(len, following))
    squares = sum(error**2 for cell in cells for errors in cell.residuals for error in errors)
    counts = [len(errors) for cell in cells for errors in cell.residuals]
    if not pairs or squares <= 0.0:
        return ALIKE
    variance, rounds = squares / sum(counts), statistics.fmean(counts)
    shared = min(1.0, _shared_variance(cells) / variance)
    known = (
        pairs * (1.0 - shared) + len(cells[0].groups) * longest * shared
    )  # what cells share is seen once, not in each
    seen = products / pairs / variance
    return min(ALIKE, max(0.0, seen + 1.0 / rounds + 1.0 / math.sqrt(max(known, 1.0))))


def _lasting_variance(cell: Levels) -> float:
    """What passes from one round of a cell to the next; 0 where chance may have shown it, in so few rounds.

    A cell that needs much memory feels for minutes what small ones do not feel.
    """
    following = [pair for side in cell.following for pair in side]
    errors = [error for side in cell.residuals for error in side]
    if not following:
        return 0.0
    passed = sum(one * two for one, two in following) / len(following)
    by_chance = 2.0 * statistics.fmean(error**2 for error in errors) / math.sqrt(len(following))
    return passed if passed > by_chance else 0.0


def _shared_variance(cells: Sequence[Levels]) -> float:
    """The variance of what all cells of a round have in common."""
    total, freedom = 0.0, 0
    for side in range(max(len(cell.groups) for cell in cells)):
        rounds = _errors_by_round(cells, side)
        total += sum(statistics.median(errors) ** 2 for errors in rounds)
        freedom += max(0, len(rounds) - 1)
    return total / max(1, freedom)
