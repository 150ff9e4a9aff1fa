"""A run in which cells take turns: their models are held at once, in processes that are alike, and one at a time makes
a call. What the machine does within seconds it does to all of them."""

from __future__ import annotations

from profiler import messages
from profiler.environment import allowed_cpus
from profiler.execution.display import Display
from profiler.execution.run import Execution, Options
from profiler.execution.workers import same_addresses
from profiler.measure.latency import RoundSize
from profiler.measure.layout import can_own_pages
from profiler.recipe.load import LoadedRecipe
from profiler.recipe.schema import Measure

# Calls of each cell in a round: enough that the median of their ratios and the slowest of them say something, few
# enough for many rounds, since it is rounds that differ.
TURNS = RoundSize(warmup=2, min_calls=1, max_calls=16, seconds=0.25)


class TurnExecution(Execution):
    """Each model is in a process of its own; each visit forks those whose cells take turns."""

    def __init__(self, loaded: LoadedRecipe, options: Options, display: Display) -> None:
        super().__init__(loaded, options, display)
        for workers in self.lanes.workers:
            workers.together = True
        with same_addresses() as same:
            if not same:
                self._note(messages.RANDOM_ADDRESSES)
        if not can_own_pages():
            self._note(messages.SHARED_PAGES)

    def round_size(self, measure: Measure, long: bool) -> RoundSize:
        return TURNS

    def cpus(self, number: int, variant: str) -> tuple[int, ...]:
        """One thread alone may meet a fast CPU while the others meet a slow one: all get the same, in turn."""
        if self.threads[variant] > 1:
            return ()
        allowed = allowed_cpus()
        return (allowed[number % len(allowed)],)
