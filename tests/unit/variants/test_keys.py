"""What a variant may ask for, and what does not go together."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from profiler.recipe.schema import Variant
from profiler.variants.convert import changes_model


@pytest.mark.parametrize(
    "keys",
    [
        {"quantize": "dynamic"},
        {"quantize": "dynamic", "layers": "linear_and_recurrent", "engine": "fbgemm"},
        {"quantize": "dynamic", "compile": True},
        {"quantize": "static", "engine": "qnnpack", "threads": 1},
        {"quantize": "weight_only", "compile": True, "attention": "math"},
        {"precision": "bfloat16", "compile": True, "memory_format": "channels_last"},
    ],
)
def test_a_variant_may_combine(keys: dict[str, Any]) -> None:
    assert changes_model(Variant(name="one", **keys))


@pytest.mark.parametrize("keys", [{}, {"precision": "float32"}, {"threads": 1, "set": {"measure.budget": 1}}])
def test_a_variant_of_settings_alone_leaves_the_model_as_it_is(keys: dict[str, Any]) -> None:
    assert not changes_model(Variant(name="one", **keys))


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({"quantize": "dynamic", "precision": "float16"}, "does not go with precision: float16"),
        ({"layers": "linear_and_recurrent"}, "needs quantize: dynamic"),
        ({"quantize": "static", "layers": "linear_and_recurrent"}, "needs quantize: dynamic"),
        ({"quantize": "weight_only", "engine": "x86"}, "engine: x86 needs quantize: dynamic or static"),
        ({"engine": "x86"}, "engine: x86 needs quantize: dynamic or static"),
        ({"quantize": "static", "compile": True}, "compile does not go with quantize: static"),
        ({"quantize": "dynamic", "compile": True, "engine": "x86"}, "leave out layers and engine"),
        ({"engine": "cudnn", "quantize": "static"}, "'x86', 'fbgemm', 'qnnpack' or 'onednn'"),
        ({"quantize": "int4"}, "'dynamic', 'static', 'weight_only' or 'qat'"),
    ],
)
def test_what_does_not_go_together_is_refused_with_a_sentence(keys: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Variant(name="one", **keys)
    assert sentence in str(caught.value)
