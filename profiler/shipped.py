"""Where the recipes, architectures and samples that ship with the project are found.

In a checkout they stand beside the package; in an installed wheel they are data of the package (setup.py).
"""

from __future__ import annotations

import importlib.resources
import re
from dataclasses import dataclass
from pathlib import Path


def shipped_folder() -> Path:
    """The folder that holds recipes/ and samples/."""
    package = Path(str(importlib.resources.files("profiler"))).resolve()
    installed = package / "shipped_files"
    return installed if installed.is_dir() else package.parent


def shipped_recipes() -> dict[str, Path]:
    """Name -> file, in alphabetical order."""
    return {path.stem: path for path in sorted((shipped_folder() / "recipes").glob("*.yaml"))}


def recipe_path(given: str) -> Path:
    """A file as it is; otherwise the shipped recipe of that name."""
    path = Path(given)
    shipped = shipped_recipes().get(given.removesuffix(".yaml"))
    return shipped if shipped is not None and not path.exists() else path


def shipped_architecture(name: str) -> Path | None:
    """The shipped folder that describes a model, by the last part of its hub id."""
    folder = shipped_folder() / "recipes" / "architectures" / name
    return folder if folder.is_dir() else None


@dataclass(frozen=True)
class About:
    """What the opening comment of a recipe says: what it is for, and on its second line which model of which kind."""

    purpose: str
    model: str
    kind: str


ABOUT = re.compile(r"# model: (.+?) \| kind: (.+)")


def about(recipe: Path) -> About:
    with recipe.open(encoding="utf-8") as file:
        purpose = file.readline().lstrip("#").strip()
        match = ABOUT.match(file.readline().strip())
    return About(purpose, *(match.groups() if match else ("", "")))
