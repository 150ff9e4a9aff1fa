"""List the runs in the log folder, newest first: id, date, recipe, model, device, cells, RTF, status.

Commands that take a RUN take its id or a part of it, a recipe's name (its latest run), latest or latest~1.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from profiler.cli.options import add_json, add_logdir
from profiler.errors import did_you_mean
from profiler.results.runs import RunSummary, list_runs, summarise
from profiler.units import significant

HEADER = ("id", "date", "recipe", "model", "device", "cells", "RTF", "status")
ANY_WIDTH = 10_000  # to ask how wide a table would like to be
MODEL_WIDTH = 26  # columns, where two lines per run are needed
STYLES = {"finished with failures": "red", "damaged": "red", "interrupted": "yellow", "running": "green"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("recipe", metavar="RECIPE", nargs="?", help="runs of this recipe alone")
    add_logdir(parser)
    add_json(parser, "the list")


def run(arguments: argparse.Namespace) -> int:
    recipe = Path(arguments.recipe).name.removesuffix(".yaml") if arguments.recipe else None
    folders = list_runs(arguments.logdir, recipe)
    found = [summarise(folder) for folder in reversed(folders)]
    if arguments.json:
        print(json.dumps([asdict(each) for each in found], ensure_ascii=False, indent=1))
    elif not found:
        known = sorted({folder.parent.name for folder in list_runs(arguments.logdir)})
        hint = did_you_mean(recipe, known) if recipe and known else " `python profile.py RECIPE` makes one."
        print(f"There is no run{f' of {recipe}' if recipe else ''} in {arguments.logdir} yet.{hint}")
    else:
        _print(found)
    return 0


def _row(each: RunSummary) -> tuple[str, ...]:
    measured, total = each.cells.get("ok", 0), sum(each.cells.values())
    speeds = dict.fromkeys(significant(value, 2) for value in each.rtf or ())
    models = each.models[0] if len(each.models) == 1 else f"{len(each.models)} models" if each.models else ""
    cells = str(total) if measured == total else f"{measured}/{total}"
    return (each.id, _date(each.started), each.recipe, models, each.device or "", cells, "-".join(speeds), each.status)


def _date(started: str) -> str:
    """'18 Nov 15:54' in the reader's own time; the year where it is another one."""
    try:
        when = datetime.fromisoformat(started).astimezone()
    except (OSError, OverflowError, ValueError):
        return ""
    this_year = when.year == datetime.now(UTC).astimezone().year
    return f"{when.day} {when:%b %H:%M}" if this_year else f"{when.day} {when:%b %Y}"


def _print(found: list[RunSummary]) -> None:
    rows = [_row(each) for each in found]
    if not sys.stdout.isatty():
        from profiler.report.table import Table

        print(Table("Runs", list(HEADER), [list(row) for row in rows]).markdown())
        return

    from rich.console import Console
    from rich.table import Table as RichTable

    from profiler.report.terminal import paragraph

    console = Console(highlight=False)
    for two_lines in (False, True):
        shown = [_folded(row) for row in (HEADER, *rows)] if two_lines else [HEADER, *rows]
        table = RichTable(box=None, padding=(0, 1 if two_lines else 2, 0, 0), pad_edge=False, header_style="dim")
        for head in shown[0]:
            table.add_column(paragraph(head), overflow="ellipsis", no_wrap=True)
        for each, row in zip(found, shown[1:], strict=True):
            status = paragraph(row[-1], STYLES.get(each.status, ""))
            table.add_row(*(paragraph(text) for text in row[:-1]), status)
        if console.measure(table, options=console.options.update(max_width=ANY_WIDTH)).maximum <= console.width:
            break
    console.print(table)


def _folded(row: tuple[str, ...]) -> tuple[str, ...]:
    """Two lines: recipe, model and device below id, date and cells."""
    identity, date, recipe, model, device, cells, speed, status = row
    model = model if len(model) <= MODEL_WIDTH else f"...{model[3 - MODEL_WIDTH :]}"
    first, _, rest = status.partition(" with ")
    below = f"with {rest}" if rest else ""
    return f"{identity}\n  {recipe}", f"{date}\n{model}", f"{cells}\n{device}", speed, f"{first}\n{below}".rstrip()
