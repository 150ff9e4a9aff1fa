"""Rounds of equal runs -> how much the machine varies, and the smallest change that can be seen between two runs.

All on the log scale: y[r, i] is the log of the median of round i of run r. The figure of a run is the median of its
rounds. What is given are estimates from a short trial, on the careful side.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

CONFIDENCE = 0.8  # of the bound on the floor: a standard deviation of a handful of runs is rough
POWER = 0.8  # a change of the smallest size is found in 4 of 5 comparisons, as is usual
LEVEL = 0.95  # of the comparison's interval
FEWEST_RUNS = 3


@dataclass(frozen=True)
class Noise:
    """What a trial says. Standard deviations are of logs: 0.02 is 2 %."""

    runs: int
    level_s: float  # median of the runs' figures: seconds of one call
    between_runs: float  # SD of the runs' figures
    floor: float  # its upper 80 % confidence bound
    between_rounds: float  # SD of rounds' medians within a run

    def smallest_between_runs(self, rounds: int) -> float:
        """The smallest change that `compare` finds between two runs of so many rounds, as a share (0.05: 5 %).

        exp((z_0.975 + z_0.8) sqrt(2 (floor^2 + pi/2 between_rounds^2 / rounds))) - 1: the figure of a run is the median
        of its rounds, whose variance is pi/2 times that of a mean. `compare` adds the two in the same way. The floor,
        being the SD of whole runs, has the rounds' share in it once more: that makes up for what a minute cannot show.
        """
        own = math.pi / 2 * self.between_rounds**2 / rounds
        return _detectable(math.sqrt(2 * (self.floor**2 + own)))


def estimate_noise(runs: Sequence[Sequence[float]]) -> Noise:
    """From the rounds' medians of each run, in seconds; at least 3 runs of at least 2 rounds.

    floor = s sqrt((k - 1) / chi2_0.2(k - 1)) with s the SD of the k runs' figures: the upper end of a one-sided 80 %
    confidence interval of a normal SD.
    """
    from scipy.special import gammaincinv

    figures = [math.log(statistics.median(rounds)) for rounds in runs]
    free = len(figures) - 1
    between = statistics.stdev(figures)
    logs = [[math.log(value) for value in rounds] for rounds in runs]
    chi2 = 2 * float(gammaincinv(free / 2, 1 - CONFIDENCE))
    return Noise(
        runs=len(figures),
        level_s=math.exp(statistics.median(figures)),
        between_runs=between,
        floor=between * math.sqrt(free / chi2),
        between_rounds=math.sqrt(statistics.fmean(statistics.variance(rounds) for rounds in logs)),
    )


def _detectable(standard_error: float) -> float:
    normal = statistics.NormalDist()
    return math.exp((normal.inv_cdf((1 + LEVEL) / 2) + normal.inv_cdf(POWER)) * standard_error) - 1
