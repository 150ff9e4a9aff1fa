"""Before a cell runs: will it fit in memory and time? Decided from the smaller cells that were measured."""

from __future__ import annotations

from collections.abc import Iterable

from profiler.execution.cell import CellState
from profiler.measure.fit import Point, predict
from profiler.plan import Cell
from profiler.recipe.schema import Recipe
from profiler.units import bytes_text, seconds_text

MEMORY_MARGIN = 0.9  # of what is available: the prediction is not exact, and the system needs a little itself
BYTES_PER_SAMPLE = 4
MEMORY_CALLS = 3  # calls of the memory pass
LIKELY_CALLS = 12  # calls after which most cells are stable


def calls_in_round(recipe: Recipe, round_number: int) -> int:
    """The fewest calls that a cell takes in a round, all passes together."""
    calls = recipe.measure.warmup + recipe.measure.min_calls
    if round_number == 0:
        calls += MEMORY_CALLS
        if recipe.profiling_dimensions.export_logs:
            steps = recipe.trace.schedule
            calls += (steps.wait + steps.warmup + steps.active) * steps.repeat
    return calls


def predict_latency(cell: Cell, states: Iterable[CellState]) -> float | None:
    """Seconds of one call, from the measured cells of the same variant."""
    points: list[Point] = []
    for state in states:
        if state.cell.variant == cell.variant and state.samples:
            ordered = sorted(state.samples)
            points.append((state.cell.seconds, state.cell.batch_size, ordered[len(ordered) // 2]))
    return predict(points, cell.seconds, cell.batch_size)


def predict_memory(cell: Cell, states: Iterable[CellState]) -> float | None:
    """Bytes that a cell takes on top of the loaded model."""
    points: list[Point] = [
        (state.cell.seconds, state.cell.batch_size, float(state.memory.above_baseline))
        for state in states
        if state.cell.variant == cell.variant and state.memory and state.memory.above_baseline
    ]
    return predict(points, cell.seconds, cell.batch_size)


def predict_round_seconds(cell: Cell, states: list[CellState], recipe: Recipe, round_number: int) -> float | None:
    """How long a cell will take in a round, for the display's time left."""
    latency = predict_latency(cell, states)
    if latency is None:
        return None
    fewest = calls_in_round(recipe, round_number) * latency
    budget = recipe.measure.budget / recipe.measure.rounds
    extra = max(0, LIKELY_CALLS - recipe.measure.min_calls) * latency
    return fewest + max(0.0, min(extra, budget - recipe.measure.min_calls * latency))


def reason_to_skip(cell: Cell, states: list[CellState], recipe: Recipe, available_memory: int, rate: int) -> str | None:
    """Why a cell should not be tried, with the figure that decided it; None when it fits."""
    audio_bytes = cell.audio_seconds * rate * BYTES_PER_SAMPLE
    memory = max(predict_memory(cell, states) or 0.0, audio_bytes)
    if memory > MEMORY_MARGIN * available_memory:
        return f"would need about {bytes_text(memory)} of memory, {bytes_text(available_memory)} is available"
    latency = predict_latency(cell, states)
    if latency is not None:
        needed = latency * calls_in_round(recipe, 0)
        if needed > recipe.measure.limit:
            return (
                f"would take about {seconds_text(needed)} at {seconds_text(latency)} a call, "
                f"over measure.limit ({seconds_text(recipe.measure.limit)})"
            )
    return None
