"""RTFx over the length of the audio, for each batch size, with the line of real time. From 0: twice as high is twice as
fast, and intervals are as wide as they are."""

from __future__ import annotations

from pathlib import Path

from profiler.metrics import RTFX
from profiler.report.plots.curves import CI, drawn, from_zero, sheet_of
from profiler.report.plots.style import Plot, mark_level
from profiler.results.types import Results

NAME = "rtfx"
LOWEST = 12.0  # times real time: above that, the line of real time lies on the axis


def draw(results: Results, folder: Path) -> list[Plot]:
    """Nothing where only one length was measured."""
    sheet = sheet_of(results, RTFX, "seconds", CI)
    if sheet is None:
        return []
    with drawn(sheet, folder / NAME) as plot:
        from_zero(plot, sheet)
        highest = plot.axes[0].get_ylim()[1]
        plot.axes[0].set_ylim(0, max(highest, 1.2))
        if highest < LOWEST:
            for axes in plot.axes:
                mark_level(axes, 1.0, "real time")
    return [plot]
