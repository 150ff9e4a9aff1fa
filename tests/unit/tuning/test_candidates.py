"""A recipe -> the variants that `tune` tries."""

from __future__ import annotations

import pytest

from profiler.errors import UserError
from profiler.recipe.schema import Recipe
from profiler.tuning.candidates import Ranges, find_candidates, thread_counts


def recipe(*variants: dict[str, object]) -> Recipe:
    return Recipe.model_validate(
        {
            "pretrained_model": {"source": "x", "type": "AutoModel"},
            "profiling_dimensions": {"audio_mockup_secs": [1.0], "batch_sizes": [1]},
            "variants": list(variants) or [{"name": "float32"}],
        }
    )


def test_the_product_of_precisions_and_threads_beside_the_recipes_own() -> None:
    found = find_candidates(recipe(), Ranges(), ["torch"], cores=2, default=2)
    assert [variant.name for variant in found.variants] == [
        "float32",
        "torch-float32-1t",
        "torch-bfloat16-1t",
        "torch-int8-1t",
        "torch-bfloat16-2t",
        "torch-int8-2t",
    ], "float32 with 2 threads is the recipe's own"
    assert found.variants[0].threads == 2


def test_what_differs_in_threads_alone_computes_the_same() -> None:
    found = find_candidates(recipe(), Ranges(), ["torch"], cores=2, default=2)
    assert found.computes["float32"] == found.computes["torch-float32-1t"]
    assert found.computes["torch-int8-1t"] == found.computes["torch-int8-2t"] != found.computes["float32"]


def test_the_product_keeps_what_the_first_variant_sets_and_others_are_tried_as_they_are() -> None:
    settings = {"measure.seed": 1}
    found = find_candidates(
        recipe({"name": "beam", "set": settings}, {"name": "greedy", "threads": 1}),
        Ranges(precisions=["int8"], threads=[1]),
        ["torch"],
        cores=2,
        default=2,
    )
    assert [variant.name for variant in found.variants] == ["beam", "greedy", "torch-int8-1t"]
    assert found.variants[2].set == settings
    assert found.origin["torch-int8-1t"] == "beam"


def test_compiling_is_tried_when_it_is_asked_for() -> None:
    names = find_candidates(recipe(), Ranges(compile=True), ["torch"], 1, 1).origin
    assert "torch-float32-compiled-1t" in names
    assert not any("compiled" in name for name in find_candidates(recipe(), Ranges(), ["torch"], 1, 1).origin)


def test_threads_are_doubled_up_to_all() -> None:
    assert thread_counts(1) == [1]
    assert thread_counts(6) == [1, 2, 4, 6]
    assert thread_counts(8) == [1, 2, 4, 8]


@pytest.mark.parametrize(
    ("ranges", "said"),
    [
        (Ranges(runtimes=["tensorrt"]), "--engines tensorrt"),
        (Ranges(precisions=["in8"]), "Did you mean `int8`?"),
        (Ranges(threads=list(range(1, 60))), "a run has at most 100"),
    ],
)
def test_what_cannot_be_tried_is_refused(ranges: Ranges, said: str) -> None:
    with pytest.raises(UserError) as error:
        find_candidates(recipe(), ranges, ["torch"], 2, 2)
    assert said in str(error.value)
