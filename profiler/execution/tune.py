"""The two runs of `tune`.

The quick look is an ordinary run in which every round visits fewer candidates, by successive halving:

    round 1                all candidates; where error rates decide, then the data set, once for each way to compute
    rounds 2, 3            the better half    rounds 4 ... 7   a quarter    ...   until a few variants are left

What leaves keeps its figures in the results, and lets its model go. In the final, those that are left take turns as the
sides of an A/B run do, at each batch size:

    round 1   A B C D, D C B A, A B C D ...      round 2   C A D B, B D A C, ...      in processes of their own
"""

from __future__ import annotations

from collections.abc import Collection

from profiler.errors import UserError
from profiler.execution.cell import CellState
from profiler.execution.display import Display
from profiler.execution.run import Execution, Options
from profiler.execution.schedule import RoundSchedule, Visit
from profiler.execution.turns import TurnExecution
from profiler.plan import Cell, later_round_order
from profiler.recipe.load import LoadedRecipe
from profiler.tuning.halving import Selection, halve, rounds_by
from profiler.tuning.limits import RATES, Figures
from profiler.tuning.look import Search
from profiler.units import many


class HalvingSchedule(RoundSchedule):
    """Every round visits the candidates that are left and have not had it."""

    def __init__(self, plain: RoundSchedule, execution: TuneExecution) -> None:
        super().__init__(plain.states, plain.measure, plain.seed, plain.rounds)
        self.execution = execution

    def next_round(self, by_variant: bool = False) -> list[Visit] | None:
        if self.number == 0:
            visits = super().next_round(by_variant) if super().planned() else []
            self.number = 1  # also of a run that is taken up behind it: the data set comes after the first round
            return visits
        self.execution.check_figures()
        selection, rung = self.selection()
        self.execution.let_go(selection)
        while rung is not None and self.number < rounds_by(rung):
            number = self.number
            self.number += 1
            if lacking := [cell for cell in selection.left if self._lacks(cell, number)]:
                order = later_round_order(lacking, self.seed, number)
                return [(cell,) for cell in (sorted(order, key=lambda cell: cell.variant) if by_variant else order)]
        self.stopped_by = "decided"
        return None

    def _lacks(self, cell: Cell, number: int) -> bool:
        return self.states[cell].open and len(self.states[cell].rounds) <= number

    def selection(self) -> tuple[Selection, int | None]:
        return halve(list(self.states), self._figures, self.execution.search.aim)

    def _figures(self, cell: Cell, rounds: int) -> Figures | None:
        return self.execution.figures(self.states[cell], rounds)

    def planned(self) -> dict[Cell, int]:
        if self.execution.waits_for_rates():  # who is left is not known yet
            return super().planned()
        selection, rung = self.selection()
        wanted = rounds_by(rung) if rung is not None else 0
        lacking = {cell: wanted - len(self.states[cell].rounds) for cell in selection.left if self.states[cell].open}
        return {cell: count for cell, count in lacking.items() if count > 0}

    def seconds_left(self, without: Collection[Cell] = ()) -> float:
        return 0.0

    def span_left(self) -> float:
        return 0.0

    def unstable(self) -> list[Cell]:
        return []  # a look is no measurement: nothing is repeated until it is stable

    def progress(self) -> str:
        return f"{many(len(self.selection()[0].left), 'candidate')} left"


class TuneExecution(Execution):
    """A run with the candidates as variants."""

    def __init__(self, loaded: LoadedRecipe, options: Options, display: Display, search: Search) -> None:
        self.search = search
        super().__init__(loaded, options, display)

    def make_schedule(self) -> RoundSchedule:
        return HalvingSchedule(super().make_schedule(), self)

    def dataset_variants(self, number: int) -> list[str]:
        """One of each that computes the same, the fastest; threads and batch sizes change no text. The first, too."""
        if number > 0 or not self.search.aim.rates:
            return []
        first = self.recipe.variants[0].name
        chosen = list(dict.fromkeys([first, *(entry.variant for entry in self.file.head.accuracy)]))
        timed = [state for state in self.states.values() if state.open and state.rounds]
        for state in sorted(timed, key=lambda state: (state.median or 0.0) / state.cell.audio_seconds):
            if self.search.representative(state.cell.variant, chosen) is None:
                chosen.append(state.cell.variant)
        return chosen

    def waits_for_rates(self) -> bool:
        """Whether error rates are still to come that decide."""
        return self.dataset is not None and self.dataset.lacks(0, self.dataset_variants(0))

    def figures(self, state: CellState, rounds: int) -> Figures | None:
        return self.search.figures(self.file.head, self._result(state), rounds)

    def check_figures(self) -> None:
        """Raise UserError where nobody has a figure that decides, as energy without a sensor."""
        aim = self.search.aim
        known = [state for state in self.states.values() if state.open and state.rounds]
        for name in dict.fromkeys([aim.goal, *(limit.figure for limit in aim.limits)]):
            if known and all((self.figures(state, 1) or {}).get(name) is None for state in known):
                self.file.head.run.status = "interrupted"
                self.file.write()
                raise UserError(f"`{name}` cannot decide: {self._why_unknown(name, known[0])}.")

    def _why_unknown(self, name: str, state: CellState) -> str:
        if name in RATES:
            reasons = [entry.reason for entry in self.file.head.accuracy if entry.reason]
            return reasons[0] if reasons else "no candidate has an error rate"
        reason = self._result(state).energy_reason if name == "energy" else None
        return reason or "no candidate has this figure"

    def let_go(self, selection: Selection) -> None:
        """Models that no candidate needs any more."""
        needed = {cell.variant for cell in selection.left}
        for variant in self.loaded.by_variant:
            if variant not in needed:
                for workers in self.lanes.workers:
                    workers.let_go(variant)


class FinalSchedule(RoundSchedule):
    """As of any run, but that the finalists at a batch size come together: where one is visited, so are the others."""

    def __init__(self, plain: RoundSchedule) -> None:
        super().__init__(
            plain.states,
            plain.measure,
            plain.seed,
            plain.rounds,
            plain.clock,
            allowances=plain.allowances,
            call_seconds=plain.call_seconds,
        )

    def next_round(self, by_variant: bool = False) -> list[Visit] | None:
        visits = super().next_round()
        if visits is None:
            return None
        places, order = dict.fromkeys(cell.place for (cell,) in visits), self._open()
        if self.number > 1:  # the first round writes the variants in the recipe's order; then who begins differs
            order = later_round_order(order, self.seed, self.number)
        return [tuple(cell for cell in order if cell.place == place) for place in places]

    def spent(self, cell: Cell) -> float:
        """A cell's timing lasts until all at its batch size have had their turns: the time is that of all of them."""
        together = sum(other.place == cell.place for other in self.states)
        return super().spent(cell) / together


class FinalExecution(TurnExecution):
    """The finalists, and the first variant that they are compared with."""

    def make_schedule(self) -> RoundSchedule:
        return FinalSchedule(super().make_schedule())
