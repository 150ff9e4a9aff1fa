"""The level of a cell: how long a call takes when the machine leaves it alone. Samples in rounds -> levels of rounds.

What disturbs a call makes it slower, never faster, and lasts for seconds: the slower half of the calls tells about the
machine, the faster half about the model. So the level of a round is the mean of its faster half, and where there are
enough rounds the level of a cell is the mean of its quieter half of rounds (of few, the median). Two equal runs on a
machine that others use too lie about twice as near each other by that as by their medians (benchmarks/README.md), and
on a quiet one no farther.

All is reckoned in logarithms: 0.1 is 10 %, and a ratio and its inverse are equally far from 0.
"""

from __future__ import annotations

import math
import statistics
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

QUIET_FROM = 16  # rounds in either run, from where on half of them can be left out
# What is left of the variance of normal rounds when the farthest one is left out, by the number of rounds beyond the
# first of each run (from a simulation), and how many degrees of freedom that costs.
TRIMMED = ((4, 0.55), (6, 0.63), (8, 0.70), (10, 0.72), (18, 0.81), (38, 0.88), (100, 0.95))
LOST_BY_TRIMMING = 1.5
HALF_PI = math.pi / 2

Rounds = Sequence[Sequence[float]]


@dataclass(frozen=True)
class Levels:
    """Levels of the rounds of a cell in both runs; or their differences, where rounds are paired.

    `quiet`: each is what the round contributes to the mean of the quieter half, see _contributions.
    """

    first: tuple[float, ...]
    second: tuple[float, ...] = ()
    numbers: tuple[tuple[int, ...], ...] = ()  # which rounds of the run these are; all, where nothing is said
    quiet: bool = False

    @classmethod
    def of(cls, first: Rounds, second: Rounds, paired: bool, numbers: tuple[tuple[int, ...], ...] = ()) -> Levels:
        """`paired`: both come from one run, whose rounds they went through side by side."""
        one, two = (tuple(level_of(values) for values in rounds) for rounds in (first, second))
        quiet = min(len(one), len(two)) >= QUIET_FROM
        if quiet:
            one, two = _contributions(one), _contributions(two)
        if paired and len(one) == len(two):
            return cls(tuple(b - a for a, b in zip(one, two, strict=True)), (), numbers[:1], quiet)
        return cls(one, two, numbers, quiet)

    @classmethod
    def by_rounds(cls, sides: Sequence[dict[int, float]], quiet: bool) -> Levels:
        """Of one run or two, each by the number of the round."""
        first, second = sides[0], sides[1] if len(sides) > 1 else {}
        return cls(tuple(first.values()), tuple(second.values()), tuple(tuple(side) for side in sides), quiet)

    @property
    def groups(self) -> list[tuple[float, ...]]:
        return [group for group in (self.first, self.second) if group]

    @property
    def centres(self) -> list[float]:
        """One of few disturbed rounds does not move the median, nor half of them the mean of the quieter half."""
        return [statistics.fmean(group) if self.quiet else statistics.median(group) for group in self.groups]

    def in_rounds(self, side: int) -> dict[int, float]:
        """The levels of a run by the number of the round."""
        group = self.groups[side] if side < len(self.groups) else ()
        return dict(zip(self.numbers[side] if self.numbers else range(len(group)), group, strict=True))

    @property
    def value(self) -> float:
        """By how much the second is slower."""
        return self.centres[-1] - (self.centres[0] if self.second else 0.0)

    @property
    def residuals(self) -> list[list[float]]:
        return [[level - centre for level in group] for group, centre in zip(self.groups, self.centres, strict=True)]

    @property
    def following(self) -> list[list[tuple[float, float]]]:
        """Residuals of rounds that followed one another, in either run."""
        by_number = [dict(zip(self.in_rounds(side), errors, strict=True)) for side, errors in enumerate(self.residuals)]
        return [
            [(error, side[number + 1]) for number, error in side.items() if number + 1 in side] for side in by_number
        ]

    @property
    def rounds(self) -> int:
        """How many rounds there are beyond the first of each run: they tell the variance."""
        return sum(len(group) - 1 for group in self.groups)

    @property
    def variance(self) -> tuple[float, float]:
        """Of one round, and its degrees of freedom. Of medians, without the round that is farthest off, where there are
        enough; of the quieter half, only that half tells anything."""
        squares = sorted(error**2 for errors in self.residuals for error in errors)
        if self.quiet:
            return sum(squares) / self.rounds, sum((len(group) - 1) // 2 for group in self.groups)
        if self.rounds < TRIMMED[0][0]:
            return sum(squares) / max(1, self.rounds), float(self.rounds)
        remaining = sum(squares[:-1]) / (self.rounds - 1)
        return remaining / _interpolated(TRIMMED, self.rounds), self.rounds - LOST_BY_TRIMMING

    @property
    def weight(self) -> float:
        """What the variance of a round contributes to that of the shift: it is one of so many."""
        each = 1.0 if self.quiet else HALF_PI
        return sum(each / (len(group) - 1 + each) for group in self.groups)


def level_of(calls: Sequence[float]) -> float:
    """Of one round: the mean of the faster half of its calls."""
    return statistics.fmean(map(math.log, _lower_half(calls)))


def times_of(first: Rounds, second: Rounds) -> tuple[float, float]:
    """The times of a cell in both runs whose ratio is judged, in seconds."""
    found = Levels.of(first, second, paired=False).centres
    return math.exp(found[0]), math.exp(found[1])


def _lower_half(values: Sequence[float]) -> list[float]:
    return sorted(values)[: (len(values) + 1) // 2]


def _contributions(levels: Sequence[float]) -> tuple[float, ...]:
    """What each round contributes to the mean of the quieter half: their mean is that mean, and their variance over
    their number is its variance (Tukey and McLaughlin's, of a mean trimmed on one side).

    A disturbed round contributes the same however far off it is: as much as the slowest of the quieter half.
    """
    kept = _lower_half(levels)
    held = [min(level, kept[-1]) for level in levels]
    mean, share = statistics.fmean(held), len(kept) / len(levels)
    return tuple(statistics.fmean(kept) + (level - mean) / share for level in held)


def _interpolated(points: Sequence[tuple[float, float]], place: float) -> float:
    after = bisect_left([x for x, _ in points], place)
    if after in (0, len(points)):
        return points[min(after, len(points) - 1)][1]
    (x0, y0), (x1, y1) = points[after - 1 : after + 1]
    return y0 + (y1 - y0) * (place - x0) / (x1 - x0)
