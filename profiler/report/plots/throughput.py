"""Seconds of audio that are worked through in a second, against the batch size: where a larger batch stops paying."""

from __future__ import annotations

from pathlib import Path

from profiler.metrics import RTFX
from profiler.report.plots.curves import drawn, sheet_of
from profiler.results.types import Results

NAME = "throughput"


def draw(results: Results, folder: Path) -> list[Path]:
    """throughput.png and .svg; nothing where only one batch size was measured."""
    sheet = sheet_of(results, RTFX, "batch_size")
    if sheet is None:
        return []
    path = folder / NAME
    with drawn(sheet, path) as all_axes:
        all_axes[0].set_ylim(0, max(value.high for value in sheet.values) * 1.1)
    return [path.with_suffix(".png"), path.with_suffix(".svg")]
