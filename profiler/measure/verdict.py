"""Is a cell's figure stable, and if not, why? Reads samples and the state of the machine; decides, measures nothing."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any, Literal

from profiler import warnings
from profiler.measure.handoff import FAR
from profiler.measure.latency import SUSPICIOUS_RATIO, repeated_over_fresh
from profiler.measure.statistics import median_interval, summarize

SLOW_FIRST = 1.5  # first timed call over the median of the others
BUSY_CPUS = 0.1  # a tenth of a CPU taken by others
STOLEN_CPUS = 0.02
MEDIAN_NEEDS = 3  # calls in a round, for its median to say something
AGREEING = 0.9  # of the pairs must show what is taken for caching
PAIRS_WHEN_DISTURBED = 8  # so many where others used the machine: fewer may agree by chance


def judge(
    rounds: Sequence[Sequence[float]], conditions: Sequence[dict[str, Any]], width: float
) -> tuple[Literal["stable", "noisy"], list[str]]:
    """The verdict on a cell and the reasons that are known."""
    reasons = []
    outside = _from_outside(conditions)
    # Each round begins with a fresh input, so a last call without its pair is left out before rounds are joined.
    paired = [sample for values in rounds for sample in values[: len(values) // 2 * 2]]
    ratio = repeated_over_fresh(paired)
    if ratio is not None and ratio < SUSPICIOUS_RATIO and _pairs_agree(paired, bool(outside)):
        reasons.append(warnings.caching(ratio))
    if reach(rounds) <= width:
        return "stable", reasons
    # A slow first call proves a short warm-up only where nothing from outside can have slowed it.
    if not outside and any(_first_is_slow(values) for values in rounds):
        reasons.append(warnings.FIRST_CALL_SLOW)
    drift = _drift(rounds)
    if drift is not None:
        reasons.append(warnings.drift_between_rounds(drift))
    reasons += outside
    return "noisy", reasons or [warnings.UNKNOWN_NOISE]


def _pairs_agree(paired: Sequence[float], disturbed: bool) -> bool:
    """Whether the second call of nearly every pair was the faster one; on a disturbed machine it takes many pairs."""
    faster = [later < earlier for earlier, later in zip(paired[::2], paired[1::2], strict=True)]
    return sum(faster) >= AGREEING * len(faster) and (not disturbed or len(faster) >= PAIRS_WHEN_DISTURBED)


def _from_outside(conditions: Sequence[dict[str, Any]]) -> list[str]:
    """What was done to the machine meanwhile."""
    found = []
    busy = max((state.get("other_cpus", 0.0) for state in conditions), default=0.0)
    if busy >= BUSY_CPUS:
        found.append(warnings.other_processes(busy))
    stolen = max((state.get("stolen_cpus", 0.0) for state in conditions), default=0.0)
    if stolen >= STOLEN_CPUS:
        found.append(warnings.cpu_stolen(stolen))
    if any(state.get("throttled", 0) for state in conditions):
        found.append(warnings.THROTTLED)
    handoffs = [value for state in conditions for value in state.get("handoff_s", [])]
    if not found and handoffs and max(handoffs) > FAR * min(handoffs):
        found.append(warnings.cores_moved(min(handoffs), max(handoffs)))
    return found


def reach(rounds: Sequence[Sequence[float]]) -> float:
    """How far the truth may lie from the median, relative to it: the interval's reach, or a round's own median's.

    The interval alone would be too sure of itself where the machine changed between rounds: within each round the calls
    agree, and many calls of a round make the interval narrow, but the next run may meet the machine in the other state.
    """
    summary = summarize([sample for values in rounds for sample in values])
    if summary.median <= 0:
        return summary.half_width
    medians = [statistics.median(values) for values in rounds if len(values) >= MEDIAN_NEEDS]
    between = max((abs(median - summary.median) / summary.median for median in medians), default=0.0)
    return max(summary.half_width, between)


def _first_is_slow(values: Sequence[float]) -> bool:
    return len(values) >= 3 and values[0] > SLOW_FIRST * statistics.median(values[1:])


def _drift(rounds: Sequence[Sequence[float]]) -> float | None:
    """How far apart the medians of rounds are, where their intervals do not meet."""
    full = [sorted(values) for values in rounds if len(values) >= MEDIAN_NEEDS]
    for earlier in full:
        for later in full:
            if median_interval(later)[0] > median_interval(earlier)[1]:
                return statistics.median(later) / statistics.median(earlier) - 1
    return None
