"""RTFx over the batch size: where a larger batch stops paying."""

from __future__ import annotations

from pathlib import Path

from profiler.metrics import RTFX
from profiler.report.plots.curves import CI, drawn, from_zero, sheet_of
from profiler.report.plots.style import Plot
from profiler.results.types import Results

NAME = "throughput"


def draw(results: Results, folder: Path) -> list[Plot]:
    """Nothing where only one batch size was measured."""
    sheet = sheet_of(results, RTFX, "batch_size", CI)
    if sheet is None:
        return []
    with drawn(sheet, folder / NAME) as plot:
        from_zero(plot, sheet)
    return [plot]
