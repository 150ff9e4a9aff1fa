"""Parameters of a recipe's model, from where they are known soonest.

Shipped recipes are counted once, into recipes/counts.json (`make counts`), so that `ls` and `show` need no torch for
them. Any other model is counted by building it without memory for its weights, which takes some seconds.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from profiler.recipe.schema import Recipe
from profiler.results.types import Parameters, Size
from profiler.shipped import shipped_folder

# Keys of pretrained_model on which the size of a model does not depend.
WITHOUT_SIZE = ("weights", "tokens_per_second")


def counts_file() -> Path:
    return shipped_folder() / "recipes" / "counts.json"


def shipped_counts() -> list[dict[str, Any]]:
    """[{recipe, variant, model, parameters, size_bytes}] of all shipped recipes."""
    try:
        found: list[dict[str, Any]] = json.loads(counts_file().read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    return found


def model_key(recipe: Recipe) -> dict[str, Any]:
    """What decides how large a model is."""
    wanted = recipe.pretrained_model.model_dump(mode="json", exclude_defaults=True)
    return {name: value for name, value in wanted.items() if name not in WITHOUT_SIZE}


@dataclass(frozen=True)
class Counts:
    """Of one model."""

    parameters: Parameters
    size_bytes: Size


def known_counts(recipe: Recipe) -> Counts | None:
    """Of a model that ships, else None. Needs no torch."""
    key = model_key(recipe)
    for entry in shipped_counts():
        if entry["model"] == key:
            return Counts(Parameters(**entry["parameters"]), Size(**entry["size_bytes"]))
    return None


@contextmanager
def _without_chatter() -> Iterator[None]:
    """What libraries print while they are imported goes nowhere; errors are raised, not printed."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = os.dup(1), os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for saved, number in zip(kept, (1, 2), strict=True):
            os.dup2(saved, number)
            os.close(saved)
        os.close(nowhere)


def count_now(recipe: Recipe, base: Path) -> Counts:
    """Of any model, by building it on the meta device."""
    from profiler.measure.parameters import count_parameters, size_bytes
    from profiler.models.load import build_for_counting
    from profiler.models.request import model_request

    with _without_chatter():
        built = build_for_counting(model_request(recipe, base))
    return Counts(count_parameters(built), size_bytes(built))
