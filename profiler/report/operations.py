"""Operations of each cell: how much arithmetic a call is, how fast it was done, and what bounds it."""

from __future__ import annotations

from profiler.report.table import Table
from profiler.results.types import CellResult
from profiler.units import significant

GIGA = 1e9
ABOVE_PEAK = (
    "More than the peak cannot be: something disturbed the reference workload, so take no share of this run at its "
    "word. int8 and half precision alone may pass it, which is that of float32."
)


def operations_table(title: str, cells: list[CellResult]) -> Table | None:
    """One row per cell that was counted."""
    counted = [cell for cell in cells if cell.operations]
    if not counted:
        return None
    header = [
        "audio x batch",
        "GMAC per call",
        "GFLOP per call",
        "GMAC per s of audio",
        "GFLOP/s",
        "of peak",
        "bound by",
    ]
    table = Table(title, header, [_row(cell) for cell in counted])
    table.remarks.append(str(counted[0].operations.get("convention", "")))  # type: ignore[union-attr]
    bounded = next((cell.operations for cell in counted if cell.operations and cell.operations.get("bound")), None)
    if bounded:
        table.remarks.append(
            f"Peak: {significant(bounded['peak_gflops'], 3)} GFLOP/s and "
            f"{significant(bounded['peak_gb_per_s'], 3)} GB/s, in float32, measured in this run. Bound by: what the "
            "counted work would need longer for at that peak, computing or moving every operator's inputs and outputs "
            "once; overhead where the call took several times longer than both."
        )
    if any(((cell.operations or {}).get("share_of_peak") or 0.0) > 1.0 for cell in counted):
        table.remarks.append(ABOVE_PEAK)
    uncounted = dict.fromkeys(name for cell in counted for name in (cell.operations or {}).get("uncounted", []))
    if uncounted:
        table.remarks.append(f"Not counted: {', '.join(uncounted)}.")
    return table


def _row(cell: CellResult) -> list[str]:
    operations = cell.operations or {}
    macs = operations["macs"]
    achieved, share = operations.get("achieved_gflops"), operations.get("share_of_peak")
    return [
        cell.place,
        significant(macs / GIGA, 3),
        significant(2 * macs / GIGA, 3),
        significant(operations["per_second"] / GIGA, 3),
        "n/a" if achieved is None else significant(achieved, 3),
        "n/a" if share is None else f"{share:.0%}",
        operations.get("bound") or "n/a",
    ]


def component_operations_table(title: str, cells: list[CellResult]) -> Table | None:
    """GMAC per second of audio by component, a column each cell of batch size 1 (or the smallest there is)."""
    counted = [cell for cell in cells if cell.operations and len(cell.operations.get("components", {})) > 1]
    if not counted:
        return None
    smallest = min(cell.batch_size for cell in counted)
    shown = [cell for cell in counted if cell.batch_size == smallest]
    names = dict.fromkeys(name for cell in shown for name in (cell.operations or {})["components"])
    rows = []
    for name in names:
        row = [name]
        for cell in shown:
            operations = cell.operations or {}
            macs = operations["components"].get(name, 0)
            per_second = operations["per_second"] * macs / operations["macs"] if operations["macs"] else 0.0
            row.append(significant(per_second / GIGA, 3) if macs else "0")
        rows.append(row)
    return Table(title, ["component", *(cell.place for cell in shown)], rows)
