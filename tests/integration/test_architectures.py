"""The shipped recipes describe the published models: their parameter counts are exact, down to the unit."""

from __future__ import annotations

import json
from typing import Any

import pytest

from profiler.measure.parameters import count_parameters, size_bytes
from profiler.models.load import build_for_counting
from profiler.models.request import model_request
from profiler.recipe.load import load_recipe
from profiler.shipped import shipped_recipes
from tests import program, tiny

PUBLISHED = {
    "wav2vec2": 94_396_320,
    "hubert": 94_371_712,
    "crdnn": 119_881_514 + 53_104_104,
    "wav2vec2-commonvoice-fr": 315_438_720 + 3_232_844,
}


def counted(recipe: str, **settings: Any) -> dict[str, Any]:
    loaded = load_recipe(tiny.RECIPES / f"{recipe}.yaml", settings)
    model = build_for_counting(model_request(loaded.recipe, loaded.path.parent))
    in_memory = sum(parameter.numel() for parameter in model.module.parameters() if not parameter.is_meta)
    assert in_memory < 10_000, "counting takes no memory worth speaking of"
    return count_parameters(model) | {"bytes": size_bytes(model)["total"]}


def test_every_shipped_recipe_is_counted_here() -> None:
    assert set(PUBLISHED) == set(shipped_recipes())


@pytest.mark.parametrize("recipe", PUBLISHED)
def test_a_shipped_recipe_has_the_published_number_of_parameters(recipe: str) -> None:
    parameters = counted(recipe)
    assert parameters["total"] == PUBLISHED[recipe]
    assert parameters["trainable"] == PUBLISHED[recipe]
    assert sum(parameters["components"].values()) == PUBLISHED[recipe]
    assert 4 * PUBLISHED[recipe] <= parameters["bytes"] < 4.01 * PUBLISHED[recipe]


def test_the_crdnn_is_a_recogniser_and_a_language_model() -> None:
    components = counted("crdnn")["components"]
    assert components.pop("language_model") == 53_104_104
    assert sum(components.values()) == 119_881_514
    assert set(components) == {"encoder", "decoder", "ctc"}
    assert components["ctc"] == 512 * 1000 + 1000


def test_the_french_model_is_a_large_wav2vec2_and_a_head() -> None:
    components = counted("wav2vec2-commonvoice-fr")["components"]
    assert components.pop("wav2vec2") == 315_438_720
    assert sum(components.values()) == 3_232_844


def test_the_ctc_head_of_wav2vec2_has_32_letters() -> None:
    components = counted("wav2vec2")["components"]
    assert components["lm_head"] == 768 * 32 + 32
    assert components["feature_extractor"] == 4_200_448


@pytest.mark.parametrize("recipe", PUBLISHED)
def test_overrides_of_sizes_are_counted(recipe: str) -> None:
    parameters = counted(recipe, **{"pretrained_model.overrides": tiny.SHRUNK_RECIPES[recipe]})
    assert 0 < parameters["total"] < 50_000


@pytest.mark.slow
def test_show_prints_the_same_count() -> None:
    done = program.run("show", "recipes/crdnn.yaml", "--json")
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)["models"][0]
    assert shown["parameters"]["total"] == PUBLISHED["crdnn"]
    assert shown["parameters"]["components"]["language_model"] == 53_104_104
