"""An A/B run: an ordinary run with two variants whose calls take turns, until every cell is decided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from profiler import messages
from profiler.environment import allowed_cpus
from profiler.execution.display import Display
from profiler.execution.handle import same_addresses
from profiler.execution.run import Execution, Options
from profiler.execution.schedule import RoundSchedule
from profiler.execution.turns import TURNS, TurnSchedule
from profiler.measure.latency import RoundSize
from profiler.measure.layout import can_own_pages
from profiler.recipe.load import LoadedRecipe
from profiler.recipe.schema import Measure
from profiler.recipe.sides import Pair
from profiler.results.types import Sides


@dataclass(frozen=True)
class Question:
    """What is asked of A and B."""

    about: dict[str, str]
    pairs: Sequence[Pair]
    threshold: float
    seconds: float  # for each cell, at most, once it has had its first rounds


class AbExecution(Execution):
    """Both sides hold their model in a process of their own; each visit to a cell forks both."""

    def __init__(self, loaded: LoadedRecipe, options: Options, display: Display, question: Question) -> None:
        self.question = question
        super().__init__(loaded, options, display)
        self.workers.together = True
        with same_addresses() as same:
            if not same:
                self._note(messages.RANDOM_ADDRESSES)
        if not can_own_pages():
            self._note(messages.SHARED_PAGES)
        pairs = [(pair.a, pair.b) for pair in question.pairs]
        self.file.head.run.sides = Sides(about=question.about, pairs=pairs, threshold=question.threshold)

    def make_schedule(self) -> RoundSchedule:
        measure = {variant: recipe.measure for variant, recipe in self.loaded.by_variant.items()}
        states = {cell: self.states[cell] for cell in self.plan.to_measure}
        seed, rounds = self.recipe.measure.seed, self.recipe.measure.rounds
        asked = self.question
        return TurnSchedule(states, asked.pairs, measure, seed, rounds, asked.threshold, asked.seconds)

    def round_size(self, measure: Measure) -> RoundSize:
        return TURNS

    def cpus(self, number: int, variant: str) -> tuple[int, ...]:
        """One thread alone may meet a fast CPU while the other side meets a slow one: both get the same, in turn."""
        if self.threads[variant] > 1:
            return ()
        allowed = allowed_cpus()
        return (allowed[number % len(allowed)],)
