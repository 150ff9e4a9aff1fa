"""How fast the machine of a run was, by the reference workload, and what that means for comparing runs."""

from __future__ import annotations

import math

from profiler.conditions.floor import Floor, floor_of
from profiler.results.types import Results

REFERENCE = {"gflops": "at equal arithmetic", "gb_per_s": "at equal memory speed"}


def readings(results: Results, threads: int | None, name: str) -> list[float]:
    """What the reference workload gave with so many threads, in this run."""
    environment = results.environment
    found = (environment.reference, environment.reference_at_end, environment.references.get(str(threads)))
    same = [each for each in found if each is not None and each.threads == threads]
    return [getattr(each, name) for each in same if getattr(each, name)]


def floor_between(first: Results, second: Results, variants: tuple[str, str]) -> Floor:
    """The run-to-run floor for comparing two runs of one machine: what is known of it, or more where its own speed is
    seen to have changed: by the reference workload, which each run times at its start and end."""
    found = floor_of(first, second)
    changes = [math.log(value) for value in normalised(1.0, first, second, variants).values() if value > 0]
    change = -max(changes, key=abs, default=0.0)  # above 0: slower in the second
    if abs(change) / math.sqrt(2.0) <= found.value:  # 2 * floor^2 is the variance of the difference of two runs
        return found
    how = f"{abs(math.expm1(change)):.0%} {'slower' if change > 0 else 'faster'}"
    return Floor(abs(change) / math.sqrt(2.0), f"the reference workload ran {how} in this run")


def normalised(ratio: float, first: Results, second: Results, variants: tuple[str, str]) -> dict[str, float]:
    """The ratio of times if both machines had done the reference workload equally fast."""
    found = {}
    for name, words in REFERENCE.items():
        before = readings(first, first.threads(variants[0]), name)
        after = readings(second, second.threads(variants[1]), name)
        if before and after:
            found[words] = ratio * max(after) / max(before)
    return found
