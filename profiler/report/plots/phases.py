"""Training steps by phase: forward, loss, backward, optimizer; one bar per cell."""

from __future__ import annotations

from pathlib import Path

from profiler.metrics import LATENCY, METRICS
from profiler.report.plots.bars import ROW, WIDEST, draw_stacked, left_for, name_rows
from profiler.report.plots.style import Caption, Plot, figure
from profiler.report.training import phase_names
from profiler.results.types import CellResult, Results

NAME = "phases"
TITLE = "Training step by phase"
MOST_CELLS = 24


def draw(results: Results, folder: Path) -> list[Plot]:
    """Nothing where no cell was trained."""
    trained = [cell for cell in results.cells if cell.training and cell.training.phases]
    if not trained:
        return []
    largest = sorted(trained, key=lambda cell: cell.seconds * cell.batch_size)[-MOST_CELLS:]
    shown = [cell for cell in trained if cell in largest]
    variants = list(dict.fromkeys(cell.variant for cell in shown))
    names = [_name(cell, several=len(variants) > 1) for cell in shown]
    notes = ("audio x batch", "median of each phase, and its share of them")
    caption, left = Caption.of(results, variants, TITLE, *notes), left_for(names)
    x, height = f"{LATENCY.shown.name} per step", ROW * len(names)
    with figure(folder / NAME, caption, x, "", left, height, wide=left > WIDEST) as plot:
        draw_stacked(plot.axes[0], {phase: [_length(cell, phase) for cell in shown] for phase in phase_names(shown)})
        name_rows(plot.axes[0], names)
    return [plot]


def _name(cell: CellResult, several: bool) -> str:
    return f"{cell.variant}, {cell.place}" if several else cell.place


def _length(cell: CellResult, phase: str) -> float:
    return float(METRICS[phase].in_cell(cell) or 0.0) / LATENCY.shown.scale
