"""Results as flat rows, one per cell: results.csv, and what a data frame is made of. Units are in the names."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

from profiler.metrics import CER, LATENCY, METRICS, PARAMETERS, RTF, RTFX, SIZE, WER
from profiler.report.facts import recipe_name
from profiler.results.metric import Metric, follow
from profiler.results.store import write_atomically
from profiler.results.types import CellResult, Results

FIRST = (RTF, RTFX, LATENCY)  # which have columns of their CI beside them


def cell_rows(results: Results) -> list[dict[str, Any]]:
    """Every cell with the same columns in the same order; what was not measured is None."""
    return [_row(results, cell) for cell in results.cells]


def columns(results: Results) -> list[str]:
    """Their names, also where a run has no cell yet."""
    return list(_row(results, CellResult(variant="none", seconds=1, batch_size=1, status="skipped")))


def _row(results: Results, cell: CellResult) -> dict[str, Any]:
    def figures(*metrics: Metric) -> dict[str, Any]:
        return {each.column: each.value(results, cell.variant, cell) for each in metrics if each.column}

    model = results.model(cell.variant)
    return {
        "run": results.run.id,
        "recipe": recipe_name(results),
        "model": model.source if model else None,
        "interface": model.type if model else None,
        "weights": f"{model.weights} weights" if model and model.weights else None,
        **figures(PARAMETERS, SIZE),
        "variant": cell.variant,
        "device": cell.device or results.environment.device,
        "threads": results.threads(cell.variant),
        "audio_s": cell.seconds,
        "batch_size": cell.batch_size,
        "status": cell.status,
        "reason": cell.reason,
        **figures(RTF),
        **_ends(RTF, cell, "rtf_ci95_low", "rtf_ci95_high"),
        **figures(RTFX, LATENCY),
        **_ends(LATENCY, cell, "latency_ci95_low_s", "latency_ci95_high_s"),
        "ci95_half_width_fraction": LATENCY.half_width(cell),
        "verdict": cell.verdict,
        "verdict_reasons": " ".join(cell.verdict_reasons) or None,
        "stopped_by": cell.latency_s.stopped_by if cell.latency_s else None,
        **figures(*(metric for metric in METRICS.values() if metric.of_cell and metric not in FIRST), WER, CER),
        "energy_source": follow(cell, "energy_j", "source"),
        "energy_reason": cell.energy_reason,
        "trace": cell.trace,
    }


def _ends(metric: Metric, cell: CellResult, low: str, high: str) -> dict[str, Any]:
    """Of the 95 % CI."""
    return dict(zip((low, high), (metric.ci95 and metric.ci95(cell)) or (None, None), strict=True))


FILE = "results.csv"


def render(results: Results) -> str:
    """Header and rows as text. A text that a spreadsheet would compute is marked as text, as spreadsheets do it."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns(results), lineterminator="\n")
    writer.writeheader()
    for row in cell_rows(results):
        writer.writerow({name: f"'{value}" if _is_formula(value) else value for name, value in row.items()})
    return text.getvalue()


def write(results: Results, folder: Path) -> Path:
    write_atomically(folder / FILE, render(results))
    return folder / FILE


def _is_formula(value: Any) -> bool:
    return isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r"))
