"""Is a cell's figure stable, and what disturbed it? Reads samples and the state of the machine; measures nothing."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Literal

from profiler.measure.latency import SUSPICIOUS_RATIO, repeated_over_fresh
from profiler.measure.reference import FAR
from profiler.results.statistics import INTERVAL_NEEDS, Estimate, estimate
from profiler.results.types import Condition

Verdict = Literal["stable", "unstable"]
SLOW_FIRST = 1.5  # first timed call over the median of the others
BUSY_CPUS = 0.1  # a tenth of a CPU taken by others
STOLEN_CPUS = 0.02
HELD_BACK = 0.01  # of a round, that heat or power lowered the GPU's clock
CLOCK_FELL = 0.02  # of the GPU's clock, between two rounds of a cell
NEAR_SLOWDOWN = 5  # degrees below the temperature at which it lowers its clock
GPU_SHARE = 0.05  # of the GPU's time, taken by another process
STRETCHED = 1.05  # wall over CPU time of a round, over that of the typical round
AGREEING = 0.9  # of the pairs must show what is taken for caching
PAIRS_WHEN_DISTURBED = 8  # so many where others used the machine: fewer may agree by chance


def judge(
    rounds: Sequence[Sequence[float]], cpu: Sequence[Sequence[float]], conditions: Sequence[Condition], width: float
) -> tuple[Estimate, Verdict, dict[str, float]]:
    """The figure of a cell, whether its interval is as narrow as wanted, and what disturbed it: kind -> figure."""
    found = estimate(rounds)
    outside = _from_outside(rounds, cpu, conditions)
    caching = _caching(rounds, bool(outside))
    if found.half_width is not None and found.half_width <= width:
        return found, "stable", caching
    if found.half_width is None:
        return found, "unstable", {"too_few_rounds": float(len(rounds)), **caching}
    disturbed = dict(outside)
    slow = [_first_over_others(values) for values in rounds]
    # A slow first call proves a short warm-up only where nothing from outside can have slowed it.
    if not outside and statistics.median(slow) > SLOW_FIRST:
        disturbed["slow_first_call"] = statistics.median(slow)
    if not disturbed:
        medians = [statistics.median(values) for values in rounds]
        disturbed["unknown"] = max(medians) / min(medians) - 1 if min(medians) > 0 else 0.0
    return found, "unstable", disturbed | caching


def _caching(rounds: Sequence[Sequence[float]], disturbed: bool) -> dict[str, float]:
    # Each round begins with a new input, so a last call without its pair is left out before rounds are joined. So is
    # the first pair where there are others: its first call finds the processor's caches cold.
    paired = [sample for values in rounds for sample in values[2 if len(values) >= 4 else 0 : len(values) // 2 * 2]]
    ratio = repeated_over_fresh(paired)
    if ratio is None or ratio >= SUSPICIOUS_RATIO or not _pairs_agree(paired, disturbed):
        return {}
    return {"caching": ratio}


def _pairs_agree(paired: Sequence[float], disturbed: bool) -> bool:
    """Whether the second call of nearly every pair was the faster one; on a disturbed machine it takes many pairs."""
    faster = [later < earlier for earlier, later in zip(paired[::2], paired[1::2], strict=True)]
    return sum(faster) >= AGREEING * len(faster) and (not disturbed or len(faster) >= PAIRS_WHEN_DISTURBED)


def _from_outside(
    rounds: Sequence[Sequence[float]], cpu: Sequence[Sequence[float]], conditions: Sequence[Condition]
) -> dict[str, float]:
    """What was done to the machine meanwhile."""
    found = {}
    busy = max((state.other_cpus for state in conditions), default=0.0)
    if busy >= BUSY_CPUS:
        found["other_processes"] = busy
    if (stretch := stretched(rounds, cpu)) > STRETCHED:
        found["stretched"] = stretch
    stolen = max((state.stolen_cpus for state in conditions), default=0.0)
    if stolen >= STOLEN_CPUS:
        found["stolen"] = stolen
    throttled = sum(state.throttled for state in conditions)
    if throttled:
        found["throttled"] = float(throttled)
    found |= from_gpu(conditions)
    handoffs = [state.handoff_s for state in conditions if state.handoff_s is not None]
    if not found and handoffs and max(handoffs) > FAR * min(handoffs):
        found["thread_latency"] = max(handoffs)
    return found


def from_gpu(conditions: Sequence[Condition]) -> dict[str, float]:
    """What was done to the GPU meanwhile, in the rounds of one cell."""
    states = [state.gpu for state in conditions if state.gpu is not None]
    found = {}
    held_back = max((state.held_back or 0.0 for state in states), default=0.0)
    if held_back >= HELD_BACK:
        found["gpu_held_back"] = held_back
    clocks = [state.clock_mhz for state in states if state.clock_mhz]
    if clocks and min(clocks) < (1 - CLOCK_FELL) * max(clocks):
        found["gpu_clock"] = 1 - min(clocks) / max(clocks)
    room = [
        state.slowdown_c - state.temperature_c
        for state in states
        if state.slowdown_c is not None and state.temperature_c is not None
    ]
    if room and min(room) <= NEAR_SLOWDOWN:
        found["gpu_hot"] = float(max(0, min(room)))
    used = max((state.other_use or 0.0 for state in states), default=0.0)
    unknown = max((state.other_processes or 0 for state in states if state.other_use is None), default=0)
    if used >= GPU_SHARE:
        found["gpu_used"] = used
    elif unknown:
        found["gpu_others"] = float(unknown)
    return found


def stretched(rounds: Sequence[Sequence[float]], cpu: Sequence[Sequence[float]]) -> float:
    """How much longer than its CPU time explains the slowest round took: wall over CPU time, over the typical round's.

    1.0 where CPU time was not recorded, or where the slow rounds used as much more CPU time as wall time.
    """
    ratios = [
        statistics.median(wall) / statistics.median(used)
        for wall, used in zip(rounds, cpu, strict=False)
        if wall and used and statistics.median(used) > 0
    ]
    if len(ratios) < INTERVAL_NEEDS:
        return 1.0
    return max(ratios) / statistics.median(ratios)


def _first_over_others(values: Sequence[float]) -> float:
    others = statistics.median(values[1:]) if len(values) >= 3 else 0.0
    return values[0] / others if others > 0 else 0.0
