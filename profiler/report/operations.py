"""Operations of each cell: how much arithmetic a call is, how fast it was done, and what bounds it."""

from __future__ import annotations

from profiler.metrics import METRICS, OPERATIONS
from profiler.report.table import Table, metric_table
from profiler.results.types import CellResult
from profiler.units import significant

MACS_PER_SECOND = METRICS["macs_per_second"]
ABOVE_PEAK = (
    "More than the peak cannot be: something disturbed the reference workload, so take no share of this run at its "
    "word. int8 and half precision alone may pass it, which is that of float32."
)


def operations_table(title: str, cells: list[CellResult]) -> Table | None:
    """One row per cell that was counted."""
    counted = [(cell, cell.operations) for cell in cells if cell.operations]
    if not counted:
        return None
    table = metric_table(title, [cell for cell, _ in counted], OPERATIONS)
    table.header.append("bound by")
    for row, (_, found) in zip(table.rows, counted, strict=True):
        row.append(found.bound or "n/a")
    table.remarks.append(counted[0][1].convention)
    bounded = next((found for _, found in counted if found.peak_gflops and found.peak_gb_per_s), None)
    if bounded:
        table.remarks.append(
            f"Peak: {significant(bounded.peak_gflops or 0, 3)} GFLOP/s and "
            f"{significant(bounded.peak_gb_per_s or 0, 3)} GB/s, in float32, measured in this run. Bound by: what the "
            "counted work would need longer for at that peak, computing or moving every operator's inputs and outputs "
            "once; overhead where the call took several times longer than both."
        )
    if any((found.share_of_peak or 0.0) > 1.0 for _, found in counted):
        table.remarks.append(ABOVE_PEAK)
    uncounted = dict.fromkeys(name for _, found in counted for name in found.uncounted)
    if uncounted:
        table.remarks.append(f"Not counted: {', '.join(uncounted)}.")
    return table


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
