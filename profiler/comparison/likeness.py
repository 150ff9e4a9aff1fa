"""Like with like: of two cells, the rounds in which the cores that the threads ran on were equally near each other.

See profiler/measure/handoff.py: every round notes, before and after, how long threads took to hand work to one another.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from profiler.measure.handoff import FAR
from profiler.results import CellResult

NEEDED = 2  # rounds of a kind in both runs
State = Literal["near", "far", "mixed"]
KINDS: tuple[State, ...] = ("near", "far")
Numbers = tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True)
class Alike:
    """Numbers of the rounds to compare, in both; and by how much the machine may have changed between the others."""

    numbers: Numbers
    unlike: float = 0.0  # as a logarithm; 0 where like is compared with like


def shortest_handoffs(pairs: Sequence[tuple[CellResult, CellResult]], comparable: bool) -> tuple[float, float] | None:
    """Of all rounds of either run. `comparable`: the shortest of both is that of both, on one machine with one setting.

    None where a run does not know.
    """
    sides = [
        [value for pair in pairs for values in _handoffs(pair[side].conditions) for value in values] for side in (0, 1)
    ]
    if not all(sides):
        return None
    shortest = min(sides[0]), min(sides[1])
    return (min(shortest), min(shortest)) if comparable else shortest


def alike(pair: tuple[CellResult, CellResult], shortest: tuple[float, float] | None, paired: bool) -> Alike:
    """`paired`: round by round, each of the one with the same of the other."""
    everything = tuple(range(_count(pair[0]))), tuple(range(_count(pair[1])))
    if shortest is None:
        return Alike(everything)
    one, two = (_states(cell, limit) for cell, limit in zip(pair, shortest, strict=True))
    if not one or not two:
        return Alike(everything)
    chosen = _same_rounds(one, two) if paired else max((_of(kind, one, two) for kind in KINDS), key=_fewer)
    if _fewer(chosen) >= NEEDED:
        return Alike(chosen)
    apart = [
        value / limit
        for cell, limit in zip(pair, shortest, strict=True)
        for values in _handoffs(cell.conditions)
        for value in values
    ]
    return Alike(everything, math.log(max(apart)))


def _same_rounds(one: Sequence[State], two: Sequence[State]) -> Numbers:
    same = tuple(number for number, (a, b) in enumerate(zip(one, two, strict=False)) if a == b != "mixed")
    return same, same


def _of(kind: State, one: Sequence[State], two: Sequence[State]) -> Numbers:
    first, second = (tuple(number for number, state in enumerate(side) if state == kind) for side in (one, two))
    return first, second


def _fewer(numbers: Numbers) -> int:
    return min(map(len, numbers))


def _states(cell: CellResult, shortest: float) -> list[State]:
    """Of each round; nothing where it is not known of all."""
    found = _handoffs(cell.conditions)
    if not found or len(found) != _count(cell):
        return []
    return [_state(values, FAR * shortest) for values in found]


def _state(values: Sequence[float], limit: float) -> State:
    if max(values) <= limit:
        return "near"
    return "far" if min(values) > limit else "mixed"


def _handoffs(conditions: Sequence[dict[str, Any]]) -> list[list[float]]:
    found = [state.get("handoff_s") for state in conditions]
    return [values for values in found if values and all(isinstance(value, float) and value > 0 for value in values)]


def _count(cell: CellResult) -> int:
    return len([count for count in cell.latency_s.rounds if count > 0]) if cell.latency_s else 0
