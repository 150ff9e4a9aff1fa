"""Check a recipe and show what it would do: the cells, how large the model is, and the keys that are no defaults.

Nothing is run. The parameters of shipped models are known; those of any other are counted by building the model without
memory for its weights, which takes some seconds (leave it out with --no-counts; --counts counts a shipped one anew).
Estimates come from the latest run of the same recipe. --all shows every key, defaults included.
"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from pydantic_core import to_jsonable_python

from profiler.cli.options import add_json, add_logdir, add_recipe, overrides
from profiler.measure.parameters import count_now, known_counts
from profiler.models.own.adapter_file import is_adapter_file
from profiler.plan import Plan, make_plan
from profiler.recipe.load import LoadedRecipe, load_recipe
from profiler.recipe.schema import Variant
from profiler.results.types import ModelResult
from profiler.shipped import recipe_path

AS_IT_IS = "as the recipe says"

if TYPE_CHECKING:
    from profiler.dataset.plan import DatasetPlan


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_recipe(parser)
    add_logdir(parser)
    add_json(parser, "the resolved recipe, the cells and the models")
    parser.add_argument("--all", action="store_true", help="every key with its value, defaults included")
    parser.add_argument(
        "--counts",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="count parameters by building the model (default: only where they are not known)",
    )


def run(arguments: argparse.Namespace) -> int:
    path = recipe_path(arguments.recipe)
    loaded = load_recipe(path, overrides(arguments.overrides), arguments.trust, read_audio=False)
    plan = make_plan(loaded.recipe)
    models = [_model(loaded, variant.name, arguments.counts) for variant in loaded.recipe.variants]
    data = _dataset(loaded)
    cells = _cells(plan)
    if arguments.json:
        shown = {"recipe": loaded.recipe, "cells": cells, "models": [_known(model) for model in models]}
        shown |= {"datasets": [data.summary() | {"notes": data.notes}]} if data else {}
        print(json.dumps(to_jsonable_python(shown), indent=1))
        return 0
    _print(loaded, plan, models, arguments)
    if data:
        print("\n".join(["", data.line(), *(f"- {note}" for note in data.notes)]))
    return 0


def _dataset(loaded: LoadedRecipe) -> DatasetPlan | None:
    if loaded.recipe.dataset is None:
        return None
    from profiler.dataset.plan import plan_dataset  # knows all formats of manifests, which most recipes do not have

    return plan_dataset(loaded)


def _cells(plan: Plan) -> list[dict[str, Any]]:
    """The cells in the shape of results.json, without what is not known before a run."""
    cells = []
    for cell in plan.cells:
        row: dict[str, Any] = {"variant": cell.variant, "seconds": cell.seconds, "batch_size": cell.batch_size}
        if cell in plan.skipped:
            row |= {"status": "skipped", "reason": plan.skipped[cell]}
        cells.append(row)
    return cells


def _model(loaded: LoadedRecipe, variant: str, count: bool | None) -> ModelResult:
    recipe = loaded.by_variant[variant]
    wanted = recipe.pretrained_model
    model = ModelResult(variant=variant, source=wanted.source, type=wanted.type)
    known = None if count else known_counts(recipe)
    if known is None and count is None and is_adapter_file(wanted.type):
        count = False  # it would have to be run
    if known is None and count is not False:
        known = count_now(recipe, loaded.path.parent, loaded.trust)
    if known is not None:
        model.parameters, model.size_bytes = known.parameters, known.size_bytes
    return model


def _known(model: ModelResult) -> dict[str, Any]:
    """What is known before a run, in the shape of results.json."""
    counted = {"parameters", "size_bytes"} if model.parameters.total is not None else set()
    return model.model_dump(mode="json", include={"variant", "source", "type"} | counted)


def _print(loaded: LoadedRecipe, plan: Plan, models: list[ModelResult], arguments: argparse.Namespace) -> None:
    from profiler.report.plan import plan_tables
    from profiler.report.terminal import show
    from profiler.report.variants import parameter_table

    print(f"{loaded.path}: no mistakes.\n")
    tables = plan_tables(loaded, plan, arguments.logdir)
    shown: list[Any] = []
    for model in models:
        if model.parameters.total is not None and model.parameters not in shown:
            shown.append(model.parameters)
            same = [other.variant for other in models if other.parameters == model.parameters]
            title = f"Parameters - {model.source}, {', '.join(same)}"
            tables.append(parameter_table(title, model.parameters, model.size_bytes))
    keys = _flat("", loaded.recipe.model_dump(mode="json", exclude_defaults=not arguments.all))
    lines = [f"  {key}: {value}" for key, value in keys if arguments.all or value not in ({}, AS_IT_IS)]
    head = "Keys" if arguments.all else "Keys that differ from the defaults (--all shows every key)"
    show([*tables, "\n".join([f"{head}:", *lines])])


def _flat(prefix: str, value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        return [row for key, inner in value.items() for row in _flat(f"{prefix}.{key}" if prefix else key, inner)]
    if prefix == "variants":
        return [(f"{prefix}.{each.pop('name')}", _only_set(each)) for each in value]
    return [(prefix, "null" if value is None else value)]


def _only_set(values: dict[str, Any]) -> str:
    """The keys of a variant that change something; most are not set."""
    default = Variant(name="as-it-is").model_dump(mode="json")
    changed = {key: value for key, value in values.items() if value != default[key]}
    return ", ".join(f"{key}: {value}" for key, value in changed.items()) or AS_IT_IS
