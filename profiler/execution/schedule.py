"""Which cells a round visits, and when a run has enough.

    round 1      all cells, smaller before larger: they say whether a larger one fits
    round 2 ...  all cells of all variants, in shuffled order, another one each time, until the run has seen enough;
                 cells whose calls are long, as often as their time allows
    and on       the cells whose 95 % CI is still wider than wanted, until none is left or the time is spent

Rounds are the unit: the calls of one round are alike, so time goes into more rounds, and to the cells that need them.
Rounds within a few seconds are alike, too, where others share the machine: a run that has few or small cells goes on
with all of them for a while, even where their rounds agree.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import Literal

from profiler.execution.cell import CellState
from profiler.measure.afford import CELLS_AT_LEAST, Allowance
from profiler.plan import Cell, first_round_order, later_round_order
from profiler.recipe.schema import Measure
from profiler.results.statistics import INTERVAL_NEEDS
from profiler.units import many

StoppedBy = Literal["width", "budget", "rounds", "decided"]
Visit = tuple[Cell, ...]  # one cell, or several that take turns
UNLIMITED = Allowance()


class RoundSchedule:
    """The rounds of one run."""

    def __init__(
        self,
        states: Mapping[Cell, CellState],
        measure: Mapping[str, Measure],
        seed: int,
        rounds: int,
        clock: Callable[[], float] = time.monotonic,
        allowances: Mapping[str, Allowance] | None = None,
        call_seconds: Callable[[Cell], float | None] | None = None,
    ) -> None:
        self.states = states
        self.allowances = allowances or {}  # of each variant
        # How long a call takes: measured, or as it is predicted.
        self.call_seconds = call_seconds or (lambda cell: states[cell].median)
        self.measure = measure  # of each variant
        self.seed = seed
        self.rounds = rounds  # that every cell gets
        self.number = 0  # of the round that is next, from 0
        self.clock = clock
        self.started: float | None = None
        self.stopped_by: StoppedBy | None = None

    def next_round(self, by_variant: bool = False) -> list[Visit] | None:
        """The visits of the next round in order; None when the run has enough, and `stopped_by` says why.

        `by_variant`: the cells of a variant come together, where not all models fit in memory at once.
        """
        if self.started is None:
            self.started = self.clock()
        while not (cells := self._cells()):
            if self.number >= self.rounds:
                return None
            self.number += 1  # of a run that is taken up: a round that it has
        number = self.number
        self.number += 1
        order = first_round_order(cells, self.seed) if number == 0 else later_round_order(cells, self.seed, number)
        if by_variant or number == 0:
            variants = {cell.variant: place for place, cell in enumerate(reversed(cells if number == 0 else order))}
            order = sorted(order, key=lambda cell: -variants[cell.variant])
        return [(cell,) for cell in order]

    def planned(self) -> dict[Cell, int]:
        """How many of the first rounds each cell still lacks."""
        lacking = {
            cell: min(self.rounds - len(state.rounds), self._affordable(cell))
            for cell, state in self.states.items()
            if state.open
        }
        return {cell: count for cell, count in lacking.items() if count > 0}

    def unstable(self) -> list[Cell]:
        """The cells whose interval is wider than wanted, or that have none."""
        return [
            cell
            for cell, state in self.states.items()
            if state.open and state.rounds and not state.stable(self.measure[cell.variant].width)
        ]

    def progress(self) -> str:
        """How far the run is, in a few words."""
        wide = len(self.unstable())
        return f"{many(wide, 'cell')} with a 95 % CI wider than wanted" if wide else "all cells are stable"

    def seconds_left(self, without: Collection[Cell] = ()) -> float:
        """Of the time for all cells: what some do not need, others may."""
        given = sum(self.measure[cell.variant].budget for cell in self._open() if cell not in without)
        return given - sum(map(self.spent, self.states))

    def spent(self, cell: Cell) -> float:
        """Seconds of timing that it has had."""
        return self.states[cell].work.get("time", 0.0)

    def span_left(self) -> float:
        """Seconds for which the run goes on with all cells, however stable; a quick look, without intervals, just takes
        its rounds.

        Shared machines change their speed for tens of seconds, which rounds made in a few seconds cannot show
        (benchmarks/README.md, section 1): that is a minute, with 10 s for each cell."""
        budgets = [self.measure[cell.variant].budget for cell in self._open()]
        least = CELLS_AT_LEAST * max(budgets, default=0.0) if self.rounds >= INTERVAL_NEEDS else 0.0
        return least - (self.clock() - self.started if self.started is not None else 0.0)

    def _open(self) -> list[Cell]:
        return [cell for cell, state in self.states.items() if state.open]

    def _allowance(self, cell: Cell) -> Allowance:
        return self.allowances.get(cell.variant, UNLIMITED)

    def _visit_seconds(self, cell: Cell) -> float:
        """What another round of a cell takes, where that matters: where its calls are long."""
        return self._allowance(cell).visit_seconds(self.call_seconds(cell))

    def _affordable(self, cell: Cell) -> int:
        """How many more rounds the time of the cell allows, beyond the first, which every cell gets."""
        state = self.states[cell]
        spent = self.spent(cell) if state.rounds else None
        return self._allowance(cell).more_rounds(self.call_seconds(cell), spent)

    def _cells(self) -> list[Cell]:
        affordable = [cell for cell in self._open() if self._affordable(cell)]
        if self.number < self.rounds:
            return [cell for cell in affordable if len(self.states[cell].rounds) <= self.number]
        if self.span_left() > 0 and affordable:
            return affordable
        unstable = self.unstable()
        if not unstable:
            self.stopped_by = "width"
        elif self.rounds < INTERVAL_NEEDS:  # a quick look was asked for: there is no interval to make narrower
            self.stopped_by = "rounds"
        else:
            left = self.seconds_left()
            if left > 0 and (fitting := [cell for cell in unstable if self._visit_seconds(cell) <= left]):
                return fitting
            self.stopped_by = "budget"
        return []
