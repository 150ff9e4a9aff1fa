"""The shipped recipes describe the published models: their parameter counts are exact, down to the unit."""

from __future__ import annotations

import json
from typing import Any

import pytest

from profiler.measure.parameters import count_parameters, size_bytes
from profiler.models.load import build_for_counting
from profiler.models.model import model_request
from profiler.recipe.load import load_recipe
from tests.helpers import program, tiny
from tests.helpers.shipped import ROWS


def counted(recipe: str, **settings: Any) -> dict[str, Any]:
    loaded = load_recipe(tiny.RECIPES / f"{recipe}.yaml", settings)
    model = build_for_counting(model_request(loaded.recipe, loaded.path.parent))
    in_memory = sum(parameter.numel() for parameter in model.module.parameters() if not parameter.is_meta)
    if ROWS[recipe].weights == "random":  # a model that is only there with its weights is counted as it is loaded
        assert in_memory < 10_000, "counting takes no memory worth speaking of"
    return count_parameters(model).model_dump() | {"bytes": size_bytes(model).total}


@pytest.mark.parametrize("recipe", ROWS)
def test_a_shipped_recipe_has_its_exact_number_of_parameters(recipe: str) -> None:
    parameters, row = counted(recipe), ROWS[recipe]
    assert parameters["total"] == row.parameters
    assert sum(parameters["components"].values()) == row.parameters
    for name, count in row.components.items():
        assert parameters["components"][name] == count, name
    if row.parameters:
        # What is saved beside the parameters are buffers, of 8 bytes at most: counters, positions, running means.
        assert 4 * row.parameters <= parameters["bytes"] <= 4 * row.parameters + 8 * parameters["buffers"]


@pytest.mark.parametrize("recipe", [name for name, row in ROWS.items() if row.overrides and row.parameters])
def test_overrides_of_sizes_are_counted(recipe: str) -> None:
    parameters = counted(recipe, **{"pretrained_model.overrides": ROWS[recipe].overrides})
    assert 0 < parameters["total"] < 50_000


def test_the_crdnn_is_a_recogniser_and_a_language_model() -> None:
    components = counted("crdnn")["components"]
    assert components.pop("language_model") == 53_104_104
    assert sum(components.values()) == 119_881_514
    assert set(components) == {"encoder", "decoder", "ctc"}


def test_show_prints_the_same_count() -> None:
    done = program.run("show", "recipes/crdnn.yaml", "--json")
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)["models"][0]
    assert shown["parameters"]["total"] == ROWS["crdnn"].parameters
    assert shown["parameters"]["components"]["language_model"] == 53_104_104
