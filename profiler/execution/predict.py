"""Before a cell runs: will it fit in memory and time? Decided from the smaller cells that were measured."""

from __future__ import annotations

import math

from profiler.execution.cell import CellState
from profiler.measure.afford import CELLS_AT_LEAST, Allowance, PassCalls
from profiler.measure.fit import Predictor
from profiler.measure.latency import WARMUP_SECONDS, RoundSize
from profiler.measure.passes import PASSES
from profiler.plan import Cell
from profiler.recipe.schema import Measure, Recipe
from profiler.results.statistics import INTERVAL_NEEDS
from profiler.units import bytes_text, seconds_text

MEMORY_MARGIN = 0.9  # of what is available: the prediction is not exact, and the system needs a little itself
BYTES_PER_SAMPLE = 4


def round_size(measure: Measure, long: bool = False) -> RoundSize:
    """Half of a cell's time is for its first rounds, warm-up left aside; the rest for those that need more. Long calls
    are not warmed up for: what is done once takes a small part of them."""
    seconds = measure.budget / 2 / measure.rounds
    return RoundSize(0 if long else measure.warmup, measure.min_calls, measure.max_calls, seconds)


def allowance(recipe: Recipe) -> Allowance:
    """What a cell may take."""
    measure = recipe.measure
    return Allowance(
        seconds=CELLS_AT_LEAST * measure.budget,
        limit=measure.limit,
        rounds=min(measure.rounds, INTERVAL_NEEDS),
        min_calls=measure.min_calls,
        passes={
            name: PassCalls(each.calls(recipe), each.fewest(recipe), not each.essential, each.asked)
            for name, each in PASSES.items()
            if each.wanted(recipe)
        },
    )


class Forecast:
    """What the measured cells of one variant say about the others."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.allowance = allowance(recipe)
        self.window: float | None = None
        self._latency, self._memory = Predictor(), Predictor()

    def learn(self, state: CellState) -> None:
        """Take a cell's figures so far into account."""
        cell, memory = state.cell, state.memory
        if state.median is not None:
            self._latency.put(self._padded(cell), cell.batch_size, state.median)
        if memory is not None and memory.above_baseline:
            self._memory.put(self._padded(cell), cell.batch_size, float(memory.above_baseline))

    def latency(self, cell: Cell) -> float | None:
        """Seconds of one call."""
        return self._latency.value(self._padded(cell), cell.batch_size)

    def memory(self, cell: Cell) -> float | None:
        """Bytes that a cell takes on top of the loaded model."""
        return self._memory.value(self._padded(cell), cell.batch_size)

    def _padded(self, cell: Cell) -> float:
        """Seconds that the model works on: whole windows, where it pads to a window."""
        return math.ceil(cell.seconds / self.window) * self.window if self.window else cell.seconds

    def round_seconds(self, cell: Cell, round_number: int) -> float | None:
        """How long a cell will take in a round, for the display's time left."""
        latency = self.latency(cell)
        if latency is None:
            return None
        measure, long = self.recipe.measure, self.allowance.long(latency)
        warmup = min(measure.warmup * latency, max(latency, WARMUP_SECONDS)) if round_number == 0 or not long else 0.0
        timed = min(measure.max_calls * latency, max(measure.min_calls * latency, round_size(measure).seconds))
        calls = self.allowance.calls(latency) if round_number == 0 else {}
        return warmup + timed + sum(count for name, count in calls.items() if name != "time") * latency

    def too_large(self, cell: Cell, available_memory: int, rate: int) -> str | None:
        """Why a call of this size would not fit in memory; None when it does."""
        memory = max(self.memory(cell) or 0.0, cell.audio_seconds * rate * BYTES_PER_SAMPLE)
        if memory <= MEMORY_MARGIN * available_memory:
            return None
        return f"would need about {bytes_text(memory)} of memory, {bytes_text(available_memory)} is available"

    def reason_to_skip(self, cell: Cell, available_memory: int, rate: int) -> str | None:
        """Why a cell should not be tried, with the figure that decided it; None when it fits."""
        if too_large := self.too_large(cell, available_memory, rate):
            return too_large
        latency = self.latency(cell)
        limit = self.recipe.measure.limit
        calls = sum(self.allowance.calls(latency).values())
        if latency is None or latency * calls <= limit:
            return None
        return (
            f"would take about {seconds_text(latency * calls)} at {seconds_text(latency)} per call, over "
            f"measure.limit ({seconds_text(limit)})"
        )
