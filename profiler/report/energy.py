"""Energy of each cell, with the sensor that measured it; or why there is none, and what to do."""

from __future__ import annotations

from profiler.report.table import Table
from profiler.results.types import CellResult
from profiler.units import significant


def energy_table(title: str, cells: list[CellResult]) -> Table | None:
    """One row per cell with a figure."""
    rows = []
    for cell in cells:
        energy = cell.energy_j
        if energy is None:
            continue
        rows.append(
            [
                cell.place,
                _joules(energy.per_call),
                _joules(energy.per_call_above_idle),
                _joules(energy.per_second_of_audio),
                _joules(energy.watt_hours_per_hour_of_audio),
                _joules(energy.mean_power_w),
                _joules(energy.idle_power_w),
            ]
        )
    if not rows:
        return None
    header = ["audio x batch", "J per call", "above idle", "J per s of audio", "Wh per h of audio", "mean W", "idle W"]
    table = Table(title, header, rows)
    measured = [cell.energy_j for cell in cells if cell.energy_j]
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


def _joules(value: float | None) -> str:
    return "n/a" if value is None else significant(value, 3)
