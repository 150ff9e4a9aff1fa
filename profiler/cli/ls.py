"""List the recipes that ship: the model, its kind, its parameters, and what each is for."""

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

HEADER = ("recipe", "model", "kind", "parameters")
NARROWEST = 30  # columns for what a recipe is for; in a narrower terminal it goes below


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_json(parser, "the list")


def run(arguments: argparse.Namespace) -> int:
    rows = recipe_rows()
    if arguments.json:
        print(json.dumps(rows, indent=1))
        return 0
    texts = [HEADER, *((r["name"], r["model"], r["kind"], parameters_text(r)) for r in rows)]
    purposes = ["what it is for", *(row["purpose"] for row in rows)]
    widths = [max(len(text[column]) for text in texts) for column in range(len(HEADER))]
    left = sum(widths) + 2 * len(widths)
    room = (shutil.get_terminal_size().columns - left) if sys.stdout.isatty() else 1000
    for text, purpose in zip(texts, purposes, strict=True):
        cells = [value.ljust(width) for value, width in zip(text[:3], widths, strict=False)]
        line = "  ".join([*cells, text[3].rjust(widths[3])])
        below = room < NARROWEST
        wrapped = textwrap.wrap(purpose, room + left - 4 if below else room)
        if below:
            print("\n    ".join([line.rstrip(), *wrapped]))
        else:
            print(f"\n{' ' * left}".join([f"{line}  {wrapped[0]}", *wrapped[1:]]))
    print("\nRun one: python profile.py recipes/NAME.yaml    Copy one: python profile.py cp NAME FILE")
    return 0


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
