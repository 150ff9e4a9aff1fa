"""The recipe that was tuned + variants and batch sizes -> a recipe as text, with its comments, tags and references.

Written by the round trip of YAML: what the user wrote stays. Paths are relative to a recipe, and follow it elsewhere.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from profiler.errors import UserError
from profiler.models.formats import local_file, local_folder
from profiler.recipe.check import full_names
from profiler.recipe.load import LoadedRecipe, load_recipe
from profiler.recipe.schema import Variant
from profiler.user_path import user_path

PATHS = {
    "pretrained_model": ("source", "architecture", "checkpoint"),
    "profiling_dimensions": ("example_audio",),
    "dataset": ("source",),
    "measure": ("powertop",),
}
OF_VARIANT = ("python", "path")
INCLUDED = re.compile(r"(!include:)(\S+)")


def recipe_text(
    loaded: LoadedRecipe,
    settings: Mapping[str, Any],
    variants: Sequence[Variant],
    sections: Mapping[str, Mapping[str, Any]],
    head: str,
    folder: Path | None = None,
) -> str:
    """`settings`: dotted keys of the command line; `sections`: keys to set in these; `folder`: where it will stand."""
    round_trip = YAML(typ="rt")  # tags stay words: nothing is built of them
    round_trip.width = 120
    round_trip.preserve_quotes = True  # type: ignore[assignment]
    tree = round_trip.load(loaded.text)
    for key, value in full_names(settings, tree).items():
        _put(tree, key.split("."), value)
    tree["variants"] = [_plain(variant) for variant in variants]
    for section, keys in sections.items():
        for key, value in keys.items():
            _put(tree, [section, key], value)
    if folder is not None and folder.resolve() != loaded.path.resolve().parent:
        _move(tree, loaded.path.resolve().parent, folder.resolve())
    stream = io.StringIO()
    round_trip.dump(tree, stream)
    lines = stream.getvalue().splitlines()
    while lines and (not lines[0].strip() or lines[0].startswith("#")):
        lines.pop(0)
    text = head + "\n" + "\n".join(lines) + "\n"
    if folder is None or folder.resolve() == loaded.path.resolve().parent:
        return text
    old = loaded.path.resolve().parent
    return INCLUDED.sub(lambda match: match[1] + _moved(match[2], old, folder.resolve()), text)


def check_target(loaded: LoadedRecipe, target: Path, force: bool) -> None:
    """Before anything is measured: whether a recipe can stand there. Raises UserError."""
    if target.is_dir():
        raise UserError(f"--output {target} is a folder; name a file.")
    if target.exists() and not force:
        raise UserError(f"{target} is there already: name another file with --output, or replace it with --force.")
    model, beside = loaded.recipe.pretrained_model, loaded.path.resolve().parent
    top = model.source.split(".")[0]
    if model.type == "Module" and target.resolve().parent != beside and (beside / f"{top}.py").is_file():
        raise UserError(
            f"The class {model.source} stands beside the recipe, and is found from there alone: with --output name "
            f"a file in {beside}."
        )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"Cannot write {target}: {error.strerror}.") from None


def write_recipe_text(text: str, target: Path, trust: bool) -> None:
    """Write it, and read it back: a recipe that does not load is none to keep. Raises UserError."""
    try:
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"Cannot write {target}: {error.strerror}.") from None
    load_recipe(target, trust=trust)


def _plain(variant: Variant) -> dict[str, Any]:
    return variant.model_dump(mode="json", exclude_defaults=True)


def _put(tree: Any, keys: Sequence[str], value: Any) -> None:
    for key in keys[:-1]:
        if not isinstance(tree.get(key), dict):
            tree[key] = {}
        tree = tree[key]
    if value is None:
        tree.pop(keys[-1], None)
    else:
        tree[keys[-1]] = value


def _move(tree: Any, old: Path, new: Path) -> None:
    for section, keys in PATHS.items():
        there = tree.get(section)
        for key in keys if isinstance(there, dict) else ():
            if isinstance(there.get(key), str) and _is_path(section, key, there[key], old):
                there[key] = _moved(there[key], old, new)
    for variant in tree["variants"]:
        for key in OF_VARIANT:
            if key in variant:
                variant[key] = _moved(variant[key], old, new)
        for dotted, value in variant.get("set", {}).items():
            section, _, key = dotted.rpartition(".")
            if key in PATHS.get(section, ()) and isinstance(value, str) and _is_path(section, key, value, old):
                variant["set"][dotted] = _moved(value, old, new)


def _is_path(section: str, key: str, value: str, base: Path) -> bool:
    """A source may be a hub id as well."""
    if value in ("None", "none"):
        return False
    return key != "source" or local_folder(value, base) is not None or local_file(value, base) is not None


def _moved(path: str, old: Path, new: Path) -> str:
    if path.startswith("~") or Path(path).is_absolute():
        return path
    found = os.path.relpath(user_path(path, old), new)
    return found if found.startswith(".") else f"./{found}"
