"""Before a cell runs: will it fit in memory and time? Decided from the smaller cells that were measured."""

from __future__ import annotations

import math

from profiler.execution.cell import CellState
from profiler.measure.fit import Predictor
from profiler.measure.latency import WARMUP_SECONDS, RoundSize
from profiler.measure.passes import PASSES
from profiler.plan import Cell
from profiler.recipe.schema import Measure, Recipe
from profiler.units import bytes_text, seconds_text

MEMORY_MARGIN = 0.9  # of what is available: the prediction is not exact, and the system needs a little itself
BYTES_PER_SAMPLE = 4


def round_size(measure: Measure) -> RoundSize:
    """Half of a cell's time is for its first rounds, warm-up left aside; the rest for those that need more."""
    return RoundSize(measure.warmup, measure.min_calls, measure.max_calls, measure.budget / 2 / measure.rounds)


def calls_in_round(recipe: Recipe, round_number: int) -> int:
    """The fewest calls that a cell takes in a round, all passes together."""
    wanted = (each for each in PASSES.values() if each.every_round or round_number == 0)
    return sum(each.calls(recipe) for each in wanted if each.wanted(recipe))


class Forecast:
    """What the measured cells of one variant say about the others."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
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
        measure = self.recipe.measure
        warmup = min(measure.warmup * latency, max(latency, WARMUP_SECONDS))
        timed = min(measure.max_calls * latency, max(measure.min_calls * latency, round_size(measure).seconds))
        other_passes = calls_in_round(self.recipe, round_number) - calls_in_round(self.recipe, 1)
        return warmup + timed + other_passes * latency

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
        if latency is not None and latency * calls_in_round(self.recipe, 0) > limit:
            needed = seconds_text(latency * calls_in_round(self.recipe, 0))
            return (
                f"would take about {needed} at {seconds_text(latency)} per call, over measure.limit "
                f"({seconds_text(limit)})"
            )
        return None
