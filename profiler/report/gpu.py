"""What the GPU does in a call: its share of the time beside the CPU's, idle or not, launch-bound or not, copies, the
kernels that take most time."""

from __future__ import annotations

from profiler.measure.passes.time import CPU_RTF, DEVICE_RTF
from profiler.report.table import ABSENT, PLACE, Table, grid
from profiler.results.types import CellResult
from profiler.units import seconds_text

ABOUT = (
    "From the traces, under the profiler. Idle: no kernel, copy or fill runs. Launch-bound: idle in 10 % or more, at "
    "least half of it until the CPU launches the next kernel. Copies: the time in which one runs and no kernel; in "
    "brackets all copies of the trace. The TensorBoard tab has all kernels and steps."
)
NAMED = 3  # kernels of a cell
BESIDE = (
    "As CPU + device, each over the seconds of audio. CPU: the process's CPU time until the call returns, all threads; "
    "device: from the first to the last work of the call by the device's own clock. They overlap, so their sum is not "
    "the real-time factor above."
)


def cpu_and_device(title: str, cells: list[CellResult]) -> Table | None:
    """Rows are seconds, columns are batch sizes; None where no device with a clock was measured."""
    found: dict[tuple[float, int], str] = {}
    for cell in cells:
        parts = [CPU_RTF.in_cell(cell), DEVICE_RTF.in_cell(cell)]
        shown = " + ".join("n/a" if part is None else f"{part:.2E}" for part in parts)
        found[cell.seconds, cell.batch_size] = ABSENT if parts[1] is None else shown
    if all(shown == ABSENT for shown in found.values()):
        return None
    table = grid(title, found)
    table.remarks = [BESIDE]
    return table


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
