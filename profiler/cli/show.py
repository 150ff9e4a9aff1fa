"""Check a recipe and show what it would do: the resolved keys, the cells, and how large the model is.

Nothing is run. Counting parameters builds the model without memory for its weights and takes some seconds; it is done
for --counts and for --json (leave it out with --no-counts). Estimates come from the latest run of the same recipe.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from profiler.cli.options import add_json, add_logdir, add_recipe, overrides, recipe_path
from profiler.plan import Plan, make_plan
from profiler.recipe.load import LoadedRecipe, load_recipe


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_recipe(parser)
    add_logdir(parser)
    add_json(parser, "the resolved recipe, the cells and the models")
    parser.add_argument(
        "--counts", action=argparse.BooleanOptionalAction, default=None, help="count parameters (default: with --json)"
    )


def run(arguments: argparse.Namespace) -> int:
    path = recipe_path(arguments.recipe)
    loaded = load_recipe(path, overrides(arguments.overrides), arguments.trust, read_audio=False)
    plan = make_plan(loaded.recipe)
    count = arguments.json if arguments.counts is None else arguments.counts
    models = [_model(loaded, variant.name, count) for variant in loaded.recipe.variants]
    cells = _cells(plan)
    if arguments.json:
        print(json.dumps({"recipe": loaded.recipe.model_dump(mode="json"), "cells": cells, "models": models}, indent=1))
        return 0
    _print(loaded, plan, models, arguments)
    return 0


def _cells(plan: Plan) -> list[dict[str, Any]]:
    """The cells in the shape of results.json, without what is not known before a run."""
    cells = []
    for cell in plan.cells:
        row: dict[str, Any] = {"variant": cell.variant, "seconds": cell.seconds, "batch_size": cell.batch_size}
        if cell in plan.skipped:
            row |= {"status": "skipped", "reason": plan.skipped[cell]}
        cells.append(row)
    return cells


def _model(loaded: LoadedRecipe, variant: str, count: bool) -> dict[str, Any]:
    recipe = loaded.by_variant[variant]
    model: dict[str, Any] = {
        "variant": variant,
        "source": recipe.pretrained_model.source,
        "type": recipe.pretrained_model.type,
    }
    if count:
        from profiler.measure.parameters import count_parameters, size_bytes
        from profiler.models.load import build_for_counting
        from profiler.models.request import model_request

        built = build_for_counting(model_request(recipe, loaded.path.parent))
        model |= {"parameters": count_parameters(built), "size_bytes": size_bytes(built)}
    return model


def _print(loaded: LoadedRecipe, plan: Plan, models: list[dict[str, Any]], arguments: argparse.Namespace) -> None:
    from profiler.report.plan import plan_tables

    print(f"{loaded.path}: no mistakes.\n")
    for key, value in _flat("", loaded.recipe.model_dump(mode="json")):
        print(f"  {key}: {value}")
    print()
    for table in plan_tables(loaded, plan, arguments.logdir):
        print(table.markdown(), end="\n\n")
    for model in models:
        if "parameters" not in model:
            continue
        print(f"{model['variant']}: {model['parameters']['total']:,} parameters")
        for name, parameters in model["parameters"]["components"].items():
            print(f"  {name}: {parameters:,}")
    if models and "parameters" not in models[0]:
        print("Parameters: add --counts (takes some seconds).")


def _flat(prefix: str, value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        return [row for key, inner in value.items() for row in _flat(f"{prefix}.{key}" if prefix else key, inner)]
    return [(prefix, "null" if value is None else value)]
