"""Before a cell runs: will it fit in memory and time? Decided from the smaller cells that were measured."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cached_property

from profiler.execution.cell import CellState
from profiler.measure.fit import Predictor
from profiler.plan import Cell
from profiler.recipe.schema import Recipe
from profiler.units import bytes_text, seconds_text

MEMORY_MARGIN = 0.9  # of what is available: the prediction is not exact, and the system needs a little itself
BYTES_PER_SAMPLE = 4
MEMORY_CALLS = 2  # calls of the memory pass
BARE_CALLS = 2  # of the breakdown, which are labelled and profiled as often as the trace has steps
LIKELY_CALLS = 12  # calls after which most cells are stable


def calls_in_round(recipe: Recipe, round_number: int) -> int:
    """The fewest calls that a cell takes in a round, all passes together."""
    calls = recipe.measure.warmup + recipe.measure.min_calls
    if round_number == 0:
        calls += MEMORY_CALLS + recipe.measure.operations
        steps = recipe.trace.schedule
        if recipe.trace.breakdown:
            profiled = steps.active * steps.repeat
            calls += BARE_CALLS + max(BARE_CALLS, profiled) + profiled + recipe.measure.operations
        if recipe.profiling_dimensions.export_logs:
            calls += (steps.wait + steps.warmup + steps.active) * steps.repeat
    return calls


class Forecast:
    """What the measured cells of one variant say about the others."""

    def __init__(self, variant: str, states: Iterable[CellState], recipe: Recipe, window: float | None = None) -> None:
        self.window = window
        self.states = [state for state in states if state.cell.variant == variant]
        self.recipe = recipe

    @cached_property
    def _latency(self) -> Predictor:
        return Predictor(
            [
                (self._heard(state.cell), state.cell.batch_size, state.median)
                for state in self.states
                if state.median is not None
            ]
        )

    @cached_property
    def _memory(self) -> Predictor:
        return Predictor(
            [
                (self._heard(state.cell), state.cell.batch_size, float(state.memory.above_baseline))
                for state in self.states
                if state.memory is not None and state.memory.above_baseline
            ]
        )

    def latency(self, cell: Cell) -> float | None:
        """Seconds of one call."""
        return self._latency.value(self._heard(cell), cell.batch_size)

    def memory(self, cell: Cell) -> float | None:
        """Bytes that a cell takes on top of the loaded model."""
        return self._memory.value(self._heard(cell), cell.batch_size)

    def _heard(self, cell: Cell) -> float:
        """Seconds that the model works on: whole windows, where it pads to a window."""
        return math.ceil(cell.seconds / self.window) * self.window if self.window else cell.seconds

    def round_seconds(self, cell: Cell, round_number: int) -> float | None:
        """How long a cell will take in a round, for the display's time left."""
        latency = self.latency(cell)
        if latency is None:
            return None
        measure = self.recipe.measure
        extra = max(0, LIKELY_CALLS - measure.min_calls) * latency
        room = measure.budget / measure.rounds - measure.min_calls * latency
        return calls_in_round(self.recipe, round_number) * latency + max(0.0, min(extra, room))

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
                f"would take about {needed} at {seconds_text(latency)} a call, over measure.limit "
                f"({seconds_text(limit)})"
            )
        return None
