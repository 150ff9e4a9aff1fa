"""Energy of each cell, with the sensor that measured it; or why there is none, and what to do."""

from __future__ import annotations

from profiler.metrics import ENERGY
from profiler.report.table import Table, metric_table
from profiler.results.types import CellResult


def energy_table(title: str, cells: list[CellResult]) -> Table | None:
    """One row per cell with a figure."""
    measured = [cell.energy_j for cell in cells if cell.energy_j]
    if not measured:
        return None
    table = metric_table(title, [cell for cell in cells if cell.energy_j], ENERGY)
    for text in dict.fromkeys(f"{energy.source}: {energy.sensor}; {energy.covers}." for energy in measured):
        table.remarks.append(text)
    for text in dict.fromkeys(note for energy in measured for note in energy.notes):
        table.remarks.append(f"- {text}")
    for text in dict.fromkeys(energy.above_idle_reason for energy in measured if energy.above_idle_reason):
        table.remarks.append(f"- above idle: {text}")
    return table


def energy_absent(cells: list[CellResult]) -> str | None:
    """The sentence for a run without any energy."""
    reasons = dict.fromkeys(cell.energy_reason for cell in cells if cell.energy_reason)
    return "; ".join(str(reason) for reason in reasons) or None
