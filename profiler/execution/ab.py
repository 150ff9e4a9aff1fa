"""An A/B run: an ordinary run with two variants whose calls take turns, until every cell is decided."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from profiler.comparison.judge import decided
from profiler.dataset.plan import DatasetPlan
from profiler.execution.display import Display
from profiler.execution.run import Options
from profiler.execution.schedule import RoundSchedule, Visit
from profiler.execution.serving import ServingPasses
from profiler.execution.serving_turns import ServingTurns
from profiler.execution.turns import TurnExecution
from profiler.plan import Cell, later_round_order
from profiler.recipe.load import LoadedRecipe
from profiler.recipe.sides import Pair
from profiler.results.types import Sides
from profiler.units import many


@dataclass(frozen=True)
class Question:
    """What is asked of A and B."""

    about: dict[str, str]
    pairs: Sequence[Pair]
    threshold: float
    seconds: float  # for each cell, at most, once it has had its first rounds


class TurnSchedule(RoundSchedule):
    """Every round visits the cells that are not decided yet."""

    def __init__(self, plain: RoundSchedule, question: Question) -> None:
        super().__init__(plain.states, plain.measure, plain.seed, plain.rounds)
        self.partner = {pair.a: pair.b for pair in question.pairs}
        self.threshold = question.threshold
        self.seconds = question.seconds * sum(cell.variant in self.partner for cell in self.states)

    def next_round(self, by_variant: bool = False) -> list[Visit] | None:
        if self.started is None:
            self.started = self.clock()
            self.number = min((len(self.states[cell].rounds) for cell in self._open()), default=0)
        undecided = self.unstable()
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


class AbExecution(TurnExecution):
    """Every visit is to a cell of A and the same cell of B."""

    only_together = True

    def __init__(self, loaded: LoadedRecipe, options: Options, display: Display, question: Question) -> None:
        self.question = question
        super().__init__(loaded, options, display)
        pairs = [(pair.a, pair.b) for pair in question.pairs]
        self.file.head.run.sides = Sides(about=question.about, pairs=pairs, threshold=question.threshold)

    def make_serving(self, data: DatasetPlan | None) -> ServingPasses:
        turns = ServingTurns(self.loaded, data, self.workers, self.file, self.display)
        return turns.ask(self.question.pairs, self.question.threshold, self.question.seconds)

    def make_schedule(self) -> RoundSchedule:
        return TurnSchedule(super().make_schedule(), self.question)
