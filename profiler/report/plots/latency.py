"""Latency of a call over the length of the audio, for each batch size, with the line where it lasts as long."""

from __future__ import annotations

from pathlib import Path

from profiler.metrics import LATENCY
from profiler.report.plots.curves import CI, drawn, sheet_of
from profiler.report.plots.style import GREY, SMALL, Plot
from profiler.results.types import Results

NAME = "latency"


def draw(results: Results, folder: Path) -> list[Plot]:
    """Nothing where only one length was measured."""
    sheet = sheet_of(results, LATENCY, "seconds", CI)
    if sheet is None:
        return []
    with drawn(sheet, folder / NAME) as plot:
        shortest, longest = sheet.xs[0], sheet.xs[-1]
        ends = [seconds / LATENCY.shown.scale for seconds in (shortest, longest)]
        low, high = min(value.low for value in sheet.values), max(value.high for value in sheet.values)
        plot.axes[0].set_yscale("log")
        plot.axes[0].set_ylim(low / 1.25, max(high, ends[1]) * 1.6)
        for axes in plot.axes:
            axes.plot([shortest, longest], ends, color=GREY, linewidth=0.8)
            axes.annotate("real time", (longest, ends[1]), ha="right", va="bottom", fontsize=SMALL, color=GREY)
    return [plot]
