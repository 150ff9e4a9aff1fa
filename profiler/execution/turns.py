"""The rounds of an A/B run: a visit is to a cell of both sides, whose calls take turns, until every cell is decided."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from profiler.comparison.judge import decided
from profiler.execution.cell import CellState
from profiler.execution.schedule import Schedule, Visit
from profiler.measure.latency import RoundSize
from profiler.plan import Cell, later_round_order
from profiler.recipe.schema import Measure
from profiler.recipe.sides import Pair
from profiler.units import many

# Calls of each side in a round: enough that the median of their ratios and the slowest of them say something, few
# enough for many rounds, since it is rounds that differ.
TURNS = RoundSize(warmup=2, min_calls=1, max_calls=16, seconds=0.25)


class TurnSchedule(Schedule):
    """Every round visits the cells that are not decided yet."""

    def __init__(
        self,
        states: Mapping[Cell, CellState],
        pairs: Sequence[Pair],
        measure: Mapping[str, Measure],
        seed: int,
        rounds: int,
        threshold: float,
        seconds: float,
    ) -> None:
        super().__init__(states, measure, seed, rounds)
        self.partner = {pair.a: pair.b for pair in pairs}
        self.threshold = threshold
        self.seconds = seconds * sum(cell.variant in self.partner for cell in states)

    def next_round(self, by_variant: bool = False) -> list[Visit] | None:
        if self.started is None:
            self.started = self.clock()
            self.number = min((len(self.states[cell].rounds) for cell in self._open()), default=0)
        undecided = [cell for cell in self._open() if not self._decided(cell)]
        if not undecided:
            self.stopped_by = "decided"
            return None
        if self.number >= self.rounds and self.seconds_left() <= 0:
            self.stopped_by = "budget"
            return None
        number = self.number
        self.number += 1
        order = later_round_order(undecided, self.seed, number)
        visits = [(cell, self._other(cell)) for cell in order]
        return [visit if number % 2 == 0 else visit[::-1] for visit in visits]

    def seconds_left(self, without: Collection[Cell] = ()) -> float:
        return self.seconds - (self.clock() - self.started if self.started is not None else 0.0)

    def span_left(self) -> float:
        return 0.0  # what changes slowly, it changes for both sides

    def unstable(self) -> list[Cell]:
        """Here: the cells that are not decided."""
        return [cell for cell in self._open() if not self._decided(cell)]

    def progress(self) -> str:
        left = len(self.unstable())
        return f"{many(left, 'cell')} undecided" if left else "every cell is decided"

    def _other(self, cell: Cell) -> Cell:
        return Cell(self.partner[cell.variant], cell.seconds, cell.batch_size)

    def _open(self) -> list[Cell]:
        return [
            cell
            for cell in self.states
            if cell.variant in self.partner and self.states[cell].open and self.states[self._other(cell)].open
        ]

    def _decided(self, cell: Cell) -> bool:
        one, two = self.states[cell].rounds, self.states[self._other(cell)].rounds
        return len(one) >= self.rounds and decided(one, two, self.threshold) is not None
