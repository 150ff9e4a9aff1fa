"""All views of a run that are files: tables, CSV, labels.txt, report.html, plots and TensorBoard's event file."""

from __future__ import annotations

from pathlib import Path

from profiler.report.stamp import digest, is_up_to_date, write_stamp
from profiler.results.types import Results

STAMP = ".views.json"


def write_views(results: Results, folder: Path, titles: bool = False) -> None:
    """Write every view beside the results, unless all are there and up to date. `titles`: in the plots."""
    made_from, stamp = digest(results.model_dump_json(), str(titles)), folder / STAMP
    if is_up_to_date(stamp, made_from):
        return
    from profiler.report import event_file

    write_stamp(stamp, made_from, [*write_pages(results, folder, titles), event_file.write(results, folder)])


def write_pages(results: Results, folder: Path, titles: bool = False) -> list[Path]:
    """Those for people: all but TensorBoard's."""
    from profiler.report import html, labels, markdown, rows
    from profiler.report.plots import draw_plots

    texts = [markdown.write(results, folder), rows.write(results, folder), *labels.write(results, folder)]
    plots = draw_plots(results, folder, titles)
    return [*texts, *(file for plot in plots for file in plot.files), html.write(results, folder, plots)]
