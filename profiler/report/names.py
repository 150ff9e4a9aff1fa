"""What a table, a chart or a file is of: the model, its variants, and which weights it has."""

from __future__ import annotations

from pathlib import Path

from profiler.results.types import Results


def name_of(results: Results, variants: list[str]) -> str:
    """'facebook/wav2vec2-base-960h, float32, random weights'."""
    models = [model for model in results.models if model.variant in variants]
    sources = list(dict.fromkeys(model.source for model in models))
    weights = " and ".join(dict.fromkeys(model.weights for model in models if model.weights))
    parts = [sources[0] if len(sources) == 1 else f"{len(sources)} models"] if sources else []
    parts.append(variants[0] if len(variants) == 1 else f"{len(variants)} variants")
    parts += ["training"] * is_training(results)
    return ", ".join(parts) + (f", {weights} weights" if weights else "")


def recipe_name(results: Results) -> str:
    """'wav2vec2', of recipes/wav2vec2.yaml."""
    return Path(results.run.recipe).stem


def is_training(results: Results) -> bool:
    return results.run.resolved.get("mode") == "training"
