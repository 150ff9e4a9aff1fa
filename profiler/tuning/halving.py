"""Which candidates stay: figures of a quick look -> the better half, without what is clearly over a limit.

    rung 0: 1 round of every candidate      rung 1: 2 rounds of half of them      rung 2: 4 rounds of a quarter ...

A rung costs about as much as the one before: half the candidates, twice the rounds (successive halving: Jamieson and
Talwalkar, 2016). A candidate is a variant at a batch size; the best are to be of several variants, since the same
settings at two batch sizes would tell little about settings.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from profiler.plan import Cell
from profiler.tuning.limits import FIGURES, Figures, Limit

FINALISTS = 4  # variants that are measured properly


@dataclass(frozen=True)
class Aim:
    """What is wanted: the figure to make small, and the limits to keep."""

    goal: str = "rtf"
    limits: tuple[Limit, ...] = ()
    finalists: int = FINALISTS

    @property
    def rates(self) -> bool:
        """Whether error rates decide."""
        return any(limit.figure in ("wer", "cer") for limit in self.limits)


@dataclass
class Selection:
    """Who is left, the best first, and why the others are not."""

    left: list[Cell]
    dropped: dict[Cell, str] = field(default_factory=dict)
    over: set[Cell] = field(default_factory=set)  # of those dropped: for a limit
    failed: set[Cell] = field(default_factory=set)  # and: without figures, because they failed or are not supported


def rounds_by(rung: int) -> int:
    """Rounds that a candidate has had at the end of a rung: 1, 3, 7, ..."""
    return int(2 ** (rung + 1)) - 1


def select(figures: Mapping[Cell, Figures], aim: Aim) -> Selection:
    """One rung: what is clearly over a limit leaves, then the worse half."""
    found = Selection([])
    for cell, known in figures.items():
        reason = over_a_limit(known, aim.limits)
        if reason:
            found.dropped[cell] = reason
            found.over.add(cell)
        elif known.get(aim.goal) is None:
            found.dropped[cell] = f"no figure for {FIGURES[aim.goal].short}"
        else:
            found.left.append(cell)
    found.left.sort(key=lambda cell: _number(figures[cell].get(aim.goal)))
    keep = best_half(found.left, aim.finalists)
    for place, cell in enumerate(found.left):
        if cell not in keep:
            shown = FIGURES[aim.goal].text(_number(figures[cell].get(aim.goal)))
            found.dropped[cell] = f"{FIGURES[aim.goal].short} {shown}, place {place + 1} of {len(found.left)}"
    found.left = keep
    return found


def over_a_limit(figures: Figures, limits: Sequence[Limit], look: bool = True) -> str:
    """The first limit that it is clearly over; empty where there is none."""
    return next(
        (
            f"{FIGURES[limit.figure].short} {limit.shown(figures)}, over {limit.text}"
            for limit in limits
            if limit.verdict(figures, look) == "over"
        ),
        "",
    )


def best_half(ordered: Sequence[Cell], finalists: int) -> list[Cell]:
    """The first half, and beyond it the best of further variants, until there are enough for a final."""
    half = math.ceil(len(ordered) / 2)
    kept, variants = list(ordered[:half]), {cell.variant for cell in ordered[:half]}
    for cell in ordered[half:]:
        if len(variants) >= finalists:
            break
        if cell.variant not in variants:
            variants.add(cell.variant)
            kept.append(cell)
    return kept


def halve(
    cells: Sequence[Cell], figures_after: Callable[[Cell, int], Figures | None], aim: Aim
) -> tuple[Selection, int | None]:
    """As far as figures reach: who is left, and up to which rung these have to be measured next; None: it is done.

    `figures_after(cell, rounds)`: of its first so many rounds; None where it has not had them. Decided anew from the
    figures each time, so that an interrupted search goes on where it was.
    """
    whole, rung = Selection(list(cells)), 0
    while True:
        rounds = rounds_by(rung)
        known = {cell: figures_after(cell, rounds) for cell in whole.left}
        if any(figures is None for figures in known.values()):
            return whole, rung
        found = select({cell: figures for cell, figures in known.items() if figures is not None}, aim)
        whole = Selection(found.left, whole.dropped | found.dropped, whole.over | found.over)
        if len({cell.variant for cell in whole.left}) <= aim.finalists:
            return whole, None
        rung += 1


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else math.inf
