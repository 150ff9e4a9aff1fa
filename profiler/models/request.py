"""Recipe -> what a worker is asked to load. Looks at folders only."""

from __future__ import annotations

from pathlib import Path

from profiler.models.model import ModelRequest
from profiler.models.registry import architecture_folder, local_folder
from profiler.recipe.schema import Recipe


def model_request(recipe: Recipe, base: Path, device: str = "cpu") -> ModelRequest:
    """The model of a recipe; `base` is the recipe's folder."""
    wanted = recipe.pretrained_model
    return ModelRequest(
        source=wanted.source,
        type=wanted.type,
        weights=wanted.weights,
        folder=local_folder(wanted.source, base),
        architecture=architecture_folder(wanted.architecture, wanted.source, base),
        overrides=wanted.overrides,
        input=wanted.input,
        base=base.resolve(),
        tokens_per_second=wanted.tokens_per_second,
        seed=recipe.measure.seed,
        device=device,
    )
