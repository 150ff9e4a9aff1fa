"""Copy a shipped recipe to a file of your own, ready to run from there: relative paths in it are adjusted."""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path

from profiler.errors import UserError, did_you_mean
from profiler.shipped import ABOUT, shipped_recipes

# A key that holds a path, an anchor where one is set, and the path.
PATH = re.compile(
    r"((?:^|[{,])\s*(?:pretrained_model\.)?(?:example_audio|source|architecture):\s*(?:&\S+\s+)?)(\.\.?/[^\s#,}]+)",
    re.MULTILINE,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="a recipe that `ls` lists")
    parser.add_argument("file", metavar="FILE", type=Path, help="where to write the copy: a file, or a folder")
    parser.add_argument("--force", action="store_true", help="replace the file if it is there")


def run(arguments: argparse.Namespace) -> int:
    recipes = shipped_recipes()
    name = Path(arguments.name).name.removesuffix(".yaml")
    if name not in recipes:
        raise UserError(f"There is no shipped recipe `{arguments.name}`.{did_you_mean(name, list(recipes))}")
    source = recipes[name]
    target = arguments.file
    try:
        if target.is_dir():
            target = target / f"{name}.yaml"
        if target.exists() and not arguments.force:
            raise UserError(f"{target} is there already; choose another name, or replace it with --force.")
        text = _move_paths(_without_label(source.read_text(encoding="utf-8")), source.parent, target.parent)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text.replace(f"recipes/{name}.yaml", str(target)), encoding="utf-8")
    except OSError as error:
        raise UserError(f"Cannot write {target}: {error.strerror}.") from None
    print(f"Copied {name} to {target}. Edit it, then run: python profile.py {target}")
    return 0


def _without_label(text: str) -> str:
    """The line that labels the shipped model would be wrong as soon as the copy names another one."""
    return "".join(line for line in text.splitlines(keepends=True) if not ABOUT.match(line))


def _move_paths(text: str, old: Path, new: Path) -> str:
    """Paths in a recipe are relative to it: rewrite those that start with a dot for the new place."""

    def moved(match: re.Match[str]) -> str:
        path = os.path.relpath((old / match[2]).resolve(), new.resolve())
        return match[1] + (path if path.startswith(".") else f"./{path}")

    return PATH.sub(moved, text)
