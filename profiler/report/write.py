"""All views of a run that are files: tables.md, results.csv, report.html, plots and TensorBoard's event file."""

from __future__ import annotations

from pathlib import Path

from profiler.report import event_file, html, markdown, rows
from profiler.report.plots import draw_plots
from profiler.results.types import Results


def write_views(results: Results, folder: Path) -> None:
    """Write every view beside the results."""
    write_pages(results, folder)
    event_file.write(results, folder)


def write_pages(results: Results, folder: Path) -> None:
    """Those for people: all but TensorBoard's."""
    markdown.write(results, folder)
    rows.write(results, folder)
    html.write(results, folder, draw_plots(results, folder))
