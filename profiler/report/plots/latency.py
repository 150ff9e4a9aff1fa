"""Latency of a call against the length of the audio, for each batch size, with the line where it lasts as long."""

from __future__ import annotations

from pathlib import Path

from profiler.report.plots.curves import Value, drawn, sheet_of
from profiler.report.plots.style import GREY
from profiler.results.types import CellResult, Results

NAME = "latency"
MS = 1e3


def draw(results: Results, folder: Path) -> list[Path]:
    """latency.png and .svg; nothing where only one length was measured."""
    sheet = sheet_of(results, latency_of, "seconds")
    if sheet is None:
        return []
    path = folder / NAME
    with drawn(sheet, path, "Latency of one call over the length of the audio", "latency of one call, ms") as all_axes:
        shortest, longest = sheet.xs[0], sheet.xs[-1]
        low, high = min(value.low for value in sheet.values), max(value.high for value in sheet.values)
        all_axes[0].set_yscale("log")
        all_axes[0].set_ylim(low / 1.25, max(high, longest * MS) * 1.6)
        for axes in all_axes:
            axes.plot([shortest, longest], [shortest * MS, longest * MS], color=GREY, linewidth=1.0)
            axes.annotate("real time", (longest, longest * MS), ha="right", va="bottom", fontsize=8, color=GREY)
    return [path.with_suffix(".png"), path.with_suffix(".svg")]


def latency_of(cell: CellResult) -> Value | None:
    latency = cell.latency_s
    if latency is None or latency.median <= 0:
        return None
    return Value.of(latency.median * MS, latency.ci95, MS)
