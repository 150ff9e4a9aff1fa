"""Do two groups of samples differ (Mann-Whitney)? And what is left of that over many cells (Benjamini-Hochberg)?

Both are in scipy.stats, which takes a second to import, longer than all of the comparison. So the usual case, the
normal approximation, is worked out here as it is there (corrected for ties and continuity); scipy is asked where there
are few samples.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence

FEW = 8  # samples in a group, up to which the exact distribution is needed


def rank_test(first: Sequence[float], second: Sequence[float]) -> float:
    """The probability, both sides, that samples of one kind fall apart as far as these."""
    if min(len(first), len(second)) <= FEW:
        from scipy.stats import mannwhitneyu

        return float(mannwhitneyu(first, second).pvalue)
    ordered = sorted([*first, *second])
    total, pairs = len(ordered), len(first) * len(second)
    ranks = sum((bisect_left(ordered, value) + bisect_right(ordered, value) + 1) / 2 for value in first)
    above = ranks - len(first) * (len(first) + 1) / 2
    ties = sum(count**3 - count for count in Counter(ordered).values())
    deviation = math.sqrt(pairs / 12 * (total + 1 - ties / (total * (total - 1))))
    if deviation == 0.0:  # all are equal
        return 1.0
    distance = (max(above, pairs - above) - pairs / 2 - 0.5) / deviation
    return min(1.0, math.erfc(distance / math.sqrt(2)))


def corrected(probabilities: Sequence[float]) -> list[float]:
    """Each probability as it counts among so many: the share of false alarms among those at most as large."""
    count, smallest = len(probabilities), 1.0
    found = [1.0] * count
    for rank, place in sorted(enumerate(sorted(range(count), key=probabilities.__getitem__), 1), reverse=True):
        smallest = min(smallest, probabilities[place] * count / rank)
        found[place] = smallest
    return found
