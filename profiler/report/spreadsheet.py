"""results.csv: one row per cell, for a spreadsheet or a data frame. Empty where a figure was not measured."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from profiler.report.rows import cell_rows, columns
from profiler.results.store import write_atomically
from profiler.results.types import Results

FILE = "results.csv"


def render(results: Results) -> str:
    """Header and rows as text."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns(results), lineterminator="\n")
    writer.writeheader()
    writer.writerows(cell_rows(results))
    return text.getvalue()


def write(results: Results, folder: Path) -> Path:
    write_atomically(folder / FILE, render(results))
    return folder / FILE
