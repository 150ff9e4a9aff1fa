"""Real-time factor against the length of the audio, for each batch size, with the line of real time."""

from __future__ import annotations

from pathlib import Path

from profiler.report.plots.curves import Value, drawn, sheet_of
from profiler.report.plots.style import mark_level
from profiler.results.types import CellResult, Results

NAME = "rtf"


def draw(results: Results, folder: Path) -> list[Path]:
    """rtf.png and .svg; nothing where only one length was measured."""
    sheet = sheet_of(results, rtf_of, "seconds")
    if sheet is None:
        return []
    path = folder / NAME
    with drawn(sheet, path, "Real-time factor over the length of the audio", "real-time factor") as all_axes:
        low, high = min(value.low for value in sheet.values), max(value.high for value in sheet.values)
        all_axes[0].set_yscale("log")
        all_axes[0].set_ylim(low / 1.25, max(high * 1.25, 1.8))
        for axes in all_axes:
            mark_level(axes, 1.0, "real time")
    return [path.with_suffix(".png"), path.with_suffix(".svg")]


def rtf_of(cell: CellResult) -> Value | None:
    """With the interval of the latency that it is made from."""
    latency = cell.latency_s
    if latency is None or not cell.rtf:
        return None
    return Value.of(cell.rtf, latency.ci95, cell.rtf / latency.median)
