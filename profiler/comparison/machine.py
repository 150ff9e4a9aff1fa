"""Is it the same machine, and was it in the same state? What its own change explains is not the model's.

A run times a reference workload at its start and at its end, and records in every round how much of the CPU others
took. Where both readings of one run lie below both of the other, the machine was slower by the gap at least; where
others took CPUs that the model wanted, it may have been slower by their share.
"""

from __future__ import annotations

import math
import statistics
from typing import Any

from profiler.comparison.decide import Allowance
from profiler.differences import Unequal
from profiler.measure.verdict import BUSY_CPUS
from profiler.results import CellResult, Results

HARDWARE = ("host", "cpu", "cores", "device")
SAME_SIZE = 0.01  # kernels keep a little of the memory for themselves, not always the same
WORTH_SAYING = 0.005  # half a percent: less would be written as 0 %
MOST_TAKEN = 0.9  # of the CPUs that the model wanted: beyond that nothing can be said
REFERENCE = {"gflops": "at equal arithmetic", "gb_per_s": "at equal memory speed"}


def unequal_machines(first: dict[str, Any], second: dict[str, Any]) -> list[Unequal]:
    """What tells the machines apart; nothing where it is one machine. What a run does not say (a host's name may be
    taken out before sharing) does not count."""
    found = []
    for name in HARDWARE:
        before, after = first.get(name), second.get(name)
        if before is not None and after is not None and before != after:
            found.append(Unequal(name, before, after))
    sizes = first.get("memory_bytes"), second.get("memory_bytes")
    if sizes[0] and sizes[1] and abs(sizes[1] / sizes[0] - 1) > SAME_SIZE:
        found.append(Unequal("memory_bytes", *sizes))
    gpus = [[gpu.get("name") for gpu in each.get("gpu") or []] for each in (first, second)]
    if gpus[0] != gpus[1]:
        found.append(Unequal("gpu", *gpus))
    return found


def threads_of(results: Results, variant: str) -> int | None:
    """CPU threads of a variant."""
    settings = results.environment.get("settings", {}).get(variant, {})
    found = settings.get("threads", results.environment.get("threads"))
    return found if isinstance(found, int) else None


def readings(results: Results, threads: int | None, name: str) -> list[float]:
    """What the reference workload gave with so many threads, in this run."""
    environment = results.environment
    found = [environment.get("reference"), environment.get("reference_at_end")]
    found.append(environment.get("references", {}).get(str(threads)))
    same = [each for each in found if isinstance(each, dict) and each.get("threads") == threads]
    return [float(each[name]) for each in same if each.get(name)]


def normalised(ratio: float, first: Results, second: Results, variants: tuple[str, str]) -> dict[str, float]:
    """The ratio of times if both machines had done the reference workload equally fast."""
    found = {}
    for name, words in REFERENCE.items():
        before = readings(first, threads_of(first, variants[0]), name)
        after = readings(second, threads_of(second, variants[1]), name)
        if before and after:
            found[words] = ratio * max(after) / max(before)
    return found


def allowance_of_run(first: Results, second: Results, variants: tuple[str, str]) -> Allowance:
    """What the change of the machine between two runs may explain, in all cells alike."""
    gap = _reference_gap(first, second, *variants)
    reason = f"the reference workload was {_percent(gap)} in this run" if abs(gap) >= WORTH_SAYING else ""
    return Allowance(min(0.0, gap), max(0.0, gap), reason)


def allowance_of_cell(
    first: Results, second: Results, cells: tuple[CellResult, CellResult], unlike: float
) -> Allowance:
    """What the state of the machine in the rounds of a cell may explain; `unlike`: by cores nearer or farther."""
    found = Allowance()
    taken = _taken(second, cells[1]) - _taken(first, cells[0])
    if taken:
        more = "more" if taken > 0 else "less"
        reason = f"others took {more} of the CPU in this run, worth up to {_percent(taken)}"
        found += Allowance(min(0.0, taken), max(0.0, taken), reason)
    if unlike:
        reason = f"cores were nearer in one run than in the other, worth up to {math.expm1(unlike):.0%}"
        found += Allowance(-unlike, unlike, reason)
    return found


def _reference_gap(first: Results, second: Results, one: str, two: str) -> float:
    """By how much the machine was slower at least, as a logarithm; 0 where the readings overlap."""
    threads = threads_of(first, one)
    if threads != threads_of(second, two):
        return 0.0
    gaps = []
    for name in REFERENCE:
        before, after = readings(first, threads, name), readings(second, threads, name)
        if before and after:
            gaps.append(max(0.0, math.log(min(before) / max(after))) - max(0.0, math.log(min(after) / max(before))))
    return max(gaps, key=abs, default=0.0)


def _taken(results: Results, cell: CellResult) -> float:
    """The slowdown that others may have caused in the typical round of a cell, as a logarithm."""
    threads, cores = threads_of(results, cell.variant), results.environment.get("cores")
    if not threads or not cores or not cell.conditions:
        return 0.0
    slowdowns = []
    for state in cell.conditions:
        others, stolen = state.get("other_cpus") or 0.0, state.get("stolen_cpus") or 0.0
        taken = stolen + min(others, max(0.0, threads + others - cores))
        slowdowns.append(-math.log(1.0 - min(MOST_TAKEN, taken / threads)) if taken >= BUSY_CPUS else 0.0)
    return statistics.median(slowdowns)


def _percent(slower: float) -> str:
    return f"{abs(math.expm1(slower)):.0%} {'slower' if slower > 0 else 'faster'}"
