"""A comparison as one self-contained HTML file, in the look of report.html: nothing from elsewhere, light and dark."""

from __future__ import annotations

from math import log
from typing import Any

from profiler.comparison.result import CellComparison, Comparison, RunComparison
from profiler.report.comparison import words
from profiler.report.comparison.tables import other_metrics_table, speed_table, variants_table
from profiler.report.html import page

REACHES = (1.25, 2.0, 8.0, 64.0)  # how far the bars of ratios go on both sides
MIDDLE, HALF = 70.0, 68.0  # of a bar, in pixels


def render_page(comparison: Comparison) -> str:
    """The whole file."""
    return page(
        "comparison.html",
        comparison=comparison,
        baseline=words.run_text(comparison.baseline),
        runs=[_run(comparison, other) for other in comparison.others],
        decided=words.how_decided(comparison),
    )


def _run(comparison: Comparison, other: RunComparison) -> dict[str, Any]:
    headline, *lines = words.answer(other)
    table = speed_table(other, other.cells)
    reach = _reach(other)
    tables = [other_metrics_table(other, other.cells), variants_table(other)]
    return {
        "name": words.runs_text(comparison, other),
        "headline": headline,
        "lines": lines + [text for text in (words.floor_text(other), *words.incomplete_text(other)) if text],
        "speed": table,
        "scale": f"x{1 / reach:.2g} to x{reach:g}",
        "rows": [(row, _bar(cell, reach)) for row, cell in zip(table.rows, other.cells, strict=True)],
        "tables": [table for table in tables if table is not None],
        "differences": words.differences_text(other.differences),
    }


def _reach(other: RunComparison) -> float:
    ends = [end for cell in other.cells for end in cell.speed.ci or ()]
    widest = max((max(end, 1 / end) for end in ends), default=1.0)
    return next((reach for reach in REACHES if reach >= widest), REACHES[-1])


def _bar(cell: CellComparison, reach: float) -> dict[str, Any]:
    """Where the ratio and the ends of its interval stand on a line whose middle is 1."""
    speed = cell.speed
    verdict = speed.verdict.replace(" ", "-")
    if speed.ratio is None or speed.ci is None:
        return {"shown": False, "verdict": verdict}
    places = [MIDDLE + HALF * max(-1.0, min(1.0, log(value) / log(reach))) for value in (speed.ratio, *speed.ci)]
    at, low, high = (f"{place:.1f}" for place in places)
    return {"shown": True, "verdict": verdict, "at": at, "low": low, "high": high}
