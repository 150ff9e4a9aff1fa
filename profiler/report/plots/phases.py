"""Training steps by phase: forward, loss, backward, optimizer; one bar per cell."""

from __future__ import annotations

from pathlib import Path

from profiler.metrics import LATENCY, METRICS
from profiler.report.facts import name_of
from profiler.report.plots.bars import ROW, draw_stacked, left_for, name_rows
from profiler.report.plots.style import figure
from profiler.results.types import PHASES, CellResult, Results

NAME = "phases"
MOST_CELLS = 24


def draw(results: Results, folder: Path) -> list[Path]:
    """phases.png and .svg; nothing where no cell was trained."""
    trained = [cell for cell in results.cells if cell.training and cell.training.phases]
    if not trained:
        return []
    largest = sorted(trained, key=lambda cell: cell.seconds * cell.batch_size)[-MOST_CELLS:]
    shown = [cell for cell in trained if cell in largest]
    variants = list(dict.fromkeys(cell.variant for cell in shown))
    names = [_name(cell, several=len(variants) > 1) for cell in shown]
    note = f"{name_of(results, variants)}; audio x batch; median of each phase, and its share of them"
    path = folder / NAME
    title = "Training step by phase"
    with figure(path, title, f"{LATENCY.shown.name} per step", "", note, left_for(names), ROW * len(names)) as axes:
        draw_stacked(axes, {phase: [_length(cell, phase) for cell in shown] for phase in PHASES})
        name_rows(axes, names)
    return [path.with_suffix(".png"), path.with_suffix(".svg")]


def _name(cell: CellResult, several: bool) -> str:
    return f"{cell.variant}, {cell.place}" if several else cell.place


def _length(cell: CellResult, phase: str) -> float:
    return float(METRICS[phase].in_cell(cell) or 0.0) / LATENCY.shown.scale
