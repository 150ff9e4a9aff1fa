"""What a model computes for a second of audio, by component."""

from __future__ import annotations

from profiler.metrics import METRICS
from profiler.report.table import Table
from profiler.results.types import CellResult

MACS_PER_SECOND = METRICS["macs_per_second"]


def component_operations_table(title: str, cells: list[CellResult]) -> Table | None:
    """GMAC per second of audio by component, a column each cell of batch size 1 (or the smallest there is)."""
    counted = [(cell, cell.operations) for cell in cells if cell.operations and len(cell.operations.components) > 1]
    if not counted:
        return None
    smallest = min(cell.batch_size for cell, _ in counted)
    shown = [(cell, found) for cell, found in counted if cell.batch_size == smallest]
    names = dict.fromkeys(name for _, found in shown for name in found.components)
    rows = []
    for name in names:
        row = [name]
        for _, found in shown:
            macs = found.components.get(name, 0)
            per_second = found.per_second * macs / found.macs if found.macs else 0.0
            row.append(MACS_PER_SECOND.number(per_second))
        rows.append(row)
    return Table(title, ["component", *(cell.place for cell, _ in shown)], rows)
