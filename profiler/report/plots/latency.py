"""Latency of a call against the length of the audio, for each batch size, with the line where it lasts as long."""

from __future__ import annotations

from pathlib import Path

from profiler.metrics import LATENCY
from profiler.report.plots.curves import drawn, sheet_of
from profiler.report.plots.style import GREY
from profiler.results.types import Results

NAME = "latency"


def draw(results: Results, folder: Path) -> list[Path]:
    """latency.png and .svg; nothing where only one length was measured."""
    sheet = sheet_of(results, LATENCY, "seconds")
    if sheet is None:
        return []
    path = folder / NAME
    with drawn(sheet, path) as all_axes:
        shortest, longest = sheet.xs[0], sheet.xs[-1]
        ends = [seconds / LATENCY.shown.scale for seconds in (shortest, longest)]
        low, high = min(value.low for value in sheet.values), max(value.high for value in sheet.values)
        all_axes[0].set_yscale("log")
        all_axes[0].set_ylim(low / 1.25, max(high, ends[1]) * 1.6)
        for axes in all_axes:
            axes.plot([shortest, longest], ends, color=GREY, linewidth=1.0)
            axes.annotate("real time", (longest, ends[1]), ha="right", va="bottom", fontsize=8, color=GREY)
    return [path.with_suffix(".png"), path.with_suffix(".svg")]
