"""Real-time factor against the length of the audio, for each batch size, with the line of real time."""

from __future__ import annotations

from pathlib import Path

from profiler.metrics import RTF
from profiler.report.plots.curves import drawn, sheet_of
from profiler.report.plots.style import mark_level
from profiler.results.types import Results

NAME = "rtf"


def draw(results: Results, folder: Path) -> list[Path]:
    """rtf.png and .svg; nothing where only one length was measured."""
    sheet = sheet_of(results, RTF, "seconds")
    if sheet is None:
        return []
    path = folder / NAME
    with drawn(sheet, path) as all_axes:
        low, high = min(value.low for value in sheet.values), max(value.high for value in sheet.values)
        all_axes[0].set_yscale("log")
        all_axes[0].set_ylim(low / 1.25, max(high * 1.25, 1.8))
        for axes in all_axes:
            mark_level(axes, 1.0, "real time")
    return [path.with_suffix(".png"), path.with_suffix(".svg")]
