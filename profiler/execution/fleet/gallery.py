"""The quick setting of the gallery: one cell for each model of a recipe, so that all shipped recipes take minutes.

a recipe -> the overrides of its job: 5 s x 1, few seconds of timing, no data set, no trace, no load beyond one by one
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from profiler.execution.fleet.job import only_variants
from profiler.recipe.load import LoadedRecipe
from profiler.recipe.schema import Variant

SECONDS, BATCH = 5.0, 1  # the cell that all recipes have in common
QUICK = {
    "profiling_dimensions.audio_mockup_secs": [5],
    "profiling_dimensions.batch_sizes": [BATCH],
    "profiling_dimensions.export_logs": False,
    "measure.rounds": 6,  # the fewest that give a 95 % CI
    "measure.budget": 2,  # seconds; a run of one cell may take six times that
    "trace.breakdown": False,
}
WITHOUT_DATASET = {"dataset": None}
ONE_BY_ONE = {"serving.scenarios": ["single_stream"], "serving.seconds": 20}


def quick_settings(loaded: LoadedRecipe, given: Collection[str]) -> list[str]:
    """Overrides, as words of the command line; `given`: keys that the person set, which are left alone."""
    recipe = loaded.recipe
    values: dict[str, Any] = dict(QUICK)
    values |= WITHOUT_DATASET if recipe.dataset is not None else {}
    values |= ONE_BY_ONE if recipe.mode == "serving" else {}
    words = [f"{key}={json.dumps(value)}" for key, value in values.items() if not _set(key, given)]
    first = first_variants(loaded)
    return words + ([only_variants(first)] if len(first) < len(recipe.variants) and "variants" not in given else [])


def first_variants(loaded: LoadedRecipe) -> list[Variant]:
    """The first variant of each model: what the others change of it is not the gallery's matter."""
    found: dict[tuple[str, str], Variant] = {}
    for variant in loaded.recipe.variants:
        model = loaded.by_variant[variant.name].pretrained_model
        found.setdefault((model.source, model.type), variant)
    return list(found.values())


def _set(key: str, given: Collection[str]) -> bool:
    """Whether a key, its section, or a part of it was set."""
    return any(f"{key}.".startswith(f"{name}.") or name.startswith(f"{key}.") for name in given)
