"""One cell -> the text in its place in a table. The same in the terminal, in Markdown and in TensorBoard."""

from __future__ import annotations

from profiler.results.types import CellResult
from profiler.units import GB, MB, rounded_to_interval, significant

UNSTABLE_MARK = "~"


def rtf_text(cell: CellResult) -> str:
    """'0.107', or '0.11 ~18%' where the figure is unstable: 95 % CI +-18 %."""
    latency = cell.latency_s
    if latency is None or cell.rtf is None:
        return _absent(cell)
    return _supported(cell, cell.rtf) + _mark(cell)


def latency_text(cell: CellResult) -> str:
    """Milliseconds of one call."""
    latency = cell.latency_s
    if latency is None:
        return _absent(cell)
    return _supported(cell, latency.median * 1e3) + _mark(cell)


def memory_text(cell: CellResult) -> str:
    """'0.95 GB': peak resident memory of the process, the loaded model included."""
    memory = cell.peak_memory_bytes
    if memory is None or memory.process is None:
        return _absent(cell)
    return f"{memory.process / GB:.2f} GB"


def tensors_text(cell: CellResult) -> str:
    memory = cell.peak_memory_bytes
    if memory is None or memory.tensors is None:
        return _absent(cell)
    if memory.tensors < GB:
        return f"{significant(memory.tensors / MB, 3)} MB"
    return f"{memory.tensors / GB:.2f} GB"


def device_memory_text(cell: CellResult) -> str:
    memory = cell.peak_memory_bytes
    return f"{memory.device / GB:.2f} GB" if memory and memory.device is not None else _absent(cell)


def device_rtf_text(cell: CellResult) -> str:
    return significant(cell.device_time_s.rtf, 3) if cell.device_time_s else _absent(cell)


def half_width(cell: CellResult) -> float | None:
    """Of the 95 % CI, relative to the figure; None where there is none."""
    return cell.latency_s.half_width if cell.latency_s else None


def _supported(cell: CellResult, value: float) -> str:
    """The digits that the cell's interval supports."""
    half = value * (half_width(cell) or 0.0)
    return rounded_to_interval(value, value - half, value + half)


def _mark(cell: CellResult) -> str:
    if cell.verdict != "unstable":
        return ""
    half = half_width(cell)
    return f" {UNSTABLE_MARK}" if half is None else f" {UNSTABLE_MARK}{half:.0%}"


def _absent(cell: CellResult) -> str:
    return "n/a" if cell.status == "ok" else cell.status
