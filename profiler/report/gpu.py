"""What the GPU does in a call: idle or not, launch-bound or not, copies, the kernels that take most time."""

from __future__ import annotations

from profiler.report.table import PLACE, Table
from profiler.results.types import CellResult
from profiler.units import seconds_text

ABOUT = (
    "From the traces, under the profiler. Idle: no kernel, copy or fill runs. Launch-bound: idle in 10 % or more, at "
    "least half of it until the CPU launches the next kernel. Copies: the time in which one runs and no kernel; in "
    "brackets all copies of the trace. The TensorBoard tab has all kernels and steps."
)
NAMED = 3  # kernels of a cell


def gpu_table(title: str, cells: list[CellResult]) -> Table | None:
    """One row per cell with a trace, and what stands out in the largest of them."""
    rows, found = [], [(cell, cell.gpu) for cell in cells if cell.gpu is not None]
    for cell, use in found:
        kernels = ", ".join(f"{one.name} {one.share:.0%}" for one in use.kernels[:NAMED])
        used = "n/a" if use.utilisation is None else f"{use.utilisation:.1%}"
        copies = f"{use.copying:.1%} ({seconds_text(use.copies_s)})"
        rows.append([cell.place, used, f"{use.idle:.1%}", "yes" if use.launch_bound else "no", copies, kernels])
    if not found:
        return None
    largest, use = max(found, key=lambda pair: pair[0].seconds * pair[0].batch_size)
    header = [PLACE, "a kernel runs", "idle", "launch-bound", "copies", "kernels, of their time"]
    return Table(title, header, rows, [ABOUT, *(f"- {largest.place}: {line}" for line in use.advice)])
