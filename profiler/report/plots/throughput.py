"""Seconds of audio that are worked through in a second, against the batch size: where a larger batch stops paying."""

from __future__ import annotations

from pathlib import Path

from profiler.report.plots.curves import Value, drawn, sheet_of
from profiler.report.plots.rtf import rtf_of
from profiler.results.types import CellResult, Results

NAME = "throughput"


def draw(results: Results, folder: Path) -> list[Path]:
    """throughput.png and .svg; nothing where only one batch size was measured."""
    sheet = sheet_of(results, throughput_of, "batch_size")
    if sheet is None:
        return []
    path = folder / NAME
    with drawn(sheet, path, "Throughput over the batch size", "seconds of audio a second") as all_axes:
        all_axes[0].set_ylim(0, max(value.high for value in sheet.values) * 1.1)
    return [path.with_suffix(".png"), path.with_suffix(".svg")]


def throughput_of(cell: CellResult) -> Value | None:
    """One over the real-time factor; the ends of the interval change places."""
    rtf = rtf_of(cell)
    return None if rtf is None else Value(1 / rtf.value, 1 / rtf.high, 1 / rtf.low)
