"""Arguments that several commands share."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from profiler.errors import UserError
from profiler.results import LOGDIR


def add_recipe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "recipe", metavar="RECIPE", help="a recipe's file, or the name of a shipped one; to run also a model"
    )
    parser.add_argument(
        "overrides", metavar="key=value", nargs="*", help="set a dotted key of the recipe, typed as YAML"
    )
    parser.add_argument("--trust", action="store_true", help="allow tags in the recipe that run any code")


def add_logdir(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--logdir", type=Path, default=LOGDIR, help="folder that holds the runs (default: %(default)s)")


def add_json(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument("--json", action="store_true", help=f"print {what} as JSON")


def add_full(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--full", action="store_true", help="all tables in a terminal; a pipe gets them anyway")


def overrides(given: list[str]) -> dict[str, Any]:
    """['a.b=1'] -> {'a.b': 1}; each key once."""
    from profiler.yaml_values import parse_override  # reads YAML, which most commands can do without

    found: dict[str, Any] = {}
    for text in given:
        key, value = parse_override(text)
        if key in found:
            raise UserError(f"`{key}` is set twice on the command line; keep one.")
        found[key] = value
    return found
