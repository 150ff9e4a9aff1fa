"""List the recipes that ship: the model, its kind, its parameters; with -l exact counts, and what each is for."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import textwrap
from typing import Any

from profiler.cli.options import add_json
from profiler.measure.parameters import shipped_counts
from profiler.shipped import about, shipped_recipes
from profiler.units import significant

HEADER = ("recipe", "model", "kind", "parameters")
WIDEST = 100  # columns of the short list
NARROW = 96  # in a narrower terminal the kind is left out
NARROWEST = 30  # columns for what a recipe is for; in a narrower terminal it goes below


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-l", "--long", action="store_true", help="exact counts, and what each recipe is for")
    add_json(parser, "the list")


def run(arguments: argparse.Namespace) -> int:
    rows = recipe_rows()
    if arguments.json:
        print(json.dumps(rows, indent=1))
        return 0
    if arguments.long:
        _print_long(rows)
    else:
        _print_short(rows)
    print("\nRun one: python profile.py NAME    Copy one: python profile.py cp NAME FILE")
    if not arguments.long:
        print("What each is for: python profile.py ls -l")
    return 0


def _print_short(rows: list[dict[str, Any]]) -> None:
    """One line each, that fits."""
    width = min(WIDEST, shutil.get_terminal_size().columns) if sys.stdout.isatty() else WIDEST
    texts = [HEADER, *((r["name"], r["model"], r["kind"], _short(r["all_parameters"])) for r in rows)]
    shown = (0, 1, 2, 3) if width >= NARROW else (0, 1, 3)
    widths = {column: max(len(text[column]) for text in texts) for column in shown}
    widths[1] = min(widths[1], width - sum(widths[column] + 2 for column in shown if column != 1))
    for text in texts:
        model = textwrap.shorten(text[1], widths[1], placeholder="...")
        cells = [model if column == 1 else text[column] for column in shown]
        aligned = [cell.ljust(widths[column]) for cell, column in zip(cells[:-1], shown, strict=False)]
        print("  ".join([*aligned, cells[-1].rjust(widths[3])]))


def _short(totals: list[int]) -> str:
    """'94.4 M', '116 M / 8.25 M'."""
    return " / ".join(f"{significant(total / 1e6, 3)} M" if total else "0" for total in totals) or "not counted"


def _print_long(rows: list[dict[str, Any]]) -> None:
    texts = [HEADER, *((r["name"], r["model"], r["kind"], parameters_text(r)) for r in rows)]
    purposes = ["what it is for", *(row["purpose"] for row in rows)]
    widths = [max(len(text[column]) for text in texts) for column in range(len(HEADER))]
    left = sum(widths) + 2 * len(widths)
    room = (shutil.get_terminal_size().columns - left) if sys.stdout.isatty() else 1000
    below = room < NARROWEST
    for text, purpose in list(zip(texts, purposes, strict=True))[below:]:
        if below:
            print(f"{text[0]}: {', '.join(text[1:])}")
            print(textwrap.indent(textwrap.fill(purpose, room + left - 4), "    "))
        else:
            cells = [value.ljust(width) for value, width in zip(text[:3], widths, strict=False)]
            first, *others = textwrap.wrap(purpose, room)
            print(f"\n{' ' * left}".join(["  ".join([*cells, text[3].rjust(widths[3]), first]), *others]))


def parameters_text(row: dict[str, Any]) -> str:
    return " / ".join(f"{total:,}" for total in row["all_parameters"]) or "not counted"


def recipe_rows() -> list[dict[str, Any]]:
    """One row per recipe. Reads the opening comments and the counts that ship; no model is built."""
    counts: dict[str, list[int]] = {}
    for entry in shipped_counts():
        totals, total = counts.setdefault(entry["recipe"], []), entry["parameters"]["total"]
        totals += [] if total in totals else [total]
    rows: list[dict[str, Any]] = []
    for name, path in shipped_recipes().items():
        said = about(path)
        rows.append(
            {
                "name": name,
                "file": str(path),
                "model": said.model,
                "kind": said.kind,
                "parameters": counts.get(name, [None])[0],
                "all_parameters": counts.get(name, []),  # of each model, where variants have several
                "purpose": said.purpose,
            }
        )
    return rows
