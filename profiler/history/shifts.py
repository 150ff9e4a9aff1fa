"""Where the level of a series shifted, and by how much.

PELT (of the ruptures library) cuts the series of logarithms into stretches of equal level, where a cut must reduce the
squared error by more than a penalty. The unit of error is the noise of the series itself, the typical step from one run
to the next, and at least the machine's run-to-run floor (conditions/floor.py). The penalty is so high that of series
that have noise alone at most 1 in 100 shows a shift, and low enough that a shift of 10 % among noise of 2 % is found
once there are 10 runs (tests/unit/history). A new level needs three runs to be told from a bad hour; whether the last
run alone is slower is what `compare` answers.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from profiler.comparison.judge import THRESHOLD

NEEDED = 6  # points: two levels of three
STRETCH = 3  # runs that make a level
PENALTY = 7.0  # times the logarithm of the number of points
COUNTED = 0.005  # the floor of memory, size and other metrics that follow no clock
TO_SIGMA = 1.4826 / math.sqrt(2)  # median size of a step between two values -> standard deviation of one


@dataclass(frozen=True)
class LevelShift:
    """From point number `at` on, the level is `after` instead of `before`."""

    at: int
    before: float
    after: float

    @property
    def ratio(self) -> float:
        return self.after / self.before


def level_shifts(values: Sequence[float], floor: float) -> list[LevelShift]:
    """In order; none where there are too few points, or values that have no logarithm."""
    if len(values) < NEEDED or min(values) <= 0:
        return []
    import numpy
    import ruptures

    logs = [math.log(value) for value in values]
    noise = max(floor, TO_SIGMA * statistics.median(abs(after - before) for before, after in pairwise(logs)))
    signal = numpy.array(logs).reshape(-1, 1) / noise
    penalty = PENALTY * math.log(len(values))
    cuts = ruptures.Pelt(model="l2", min_size=STRETCH, jump=1).fit(signal).predict(pen=penalty)
    edges = [0, *cuts]
    levels = [statistics.median(values[start:end]) for start, end in pairwise(edges)]
    found = [LevelShift(at, before, after) for at, (before, after) in zip(cuts, pairwise(levels), strict=False)]
    return [shift for shift in found if abs(math.log(shift.ratio)) >= math.log1p(THRESHOLD)]
