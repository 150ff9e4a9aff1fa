"""`key=value` on the command line: dotted keys, values typed as YAML."""

from __future__ import annotations

from typing import Any

import pytest

from profiler.errors import UserError
from profiler.yaml_values import nest, parse_override


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("measure.warmup=3", "measure.warmup", 3),
        ("measure.width=0.05", "measure.width", 0.05),
        ("profiling_dimensions.batch_sizes=[1, 8]", "profiling_dimensions.batch_sizes", [1, 8]),
        ("profiling_dimensions.triangle_only=true", "profiling_dimensions.triangle_only", True),
        ("profiling_dimensions.example_audio=null", "profiling_dimensions.example_audio", None),
        ("profiling_dimensions.example_audio=", "profiling_dimensions.example_audio", None),
        ("pretrained_model.source=a/b", "pretrained_model.source", "a/b"),
        ("pretrained_model.source='4'", "pretrained_model.source", "4"),
        ("pretrained_model.overrides={beam_size: 4, lm: {a: b}}", "pretrained_model.overrides", None),
        ("a.b=x=y", "a.b", "x=y"),
        (" a.b =1", "a.b", 1),
    ],
)
def test_values_are_typed_as_in_the_recipe(text: str, key: str, value: Any) -> None:
    expected = {"beam_size": 4, "lm": {"a": "b"}} if "beam_size" in text else value
    parsed = parse_override(text)
    assert parsed == (key, expected)
    assert type(parsed[1]) is type(expected)


@pytest.mark.parametrize("text", ["measure.warmup", "=3", " =3", ""])
def test_what_is_no_override_is_shown_with_an_example(text: str) -> None:
    with pytest.raises(UserError, match="key=value, such as") as error:
        parse_override(text)
    assert f"`{text}`" in str(error.value)


@pytest.mark.parametrize("text", ["a=[1", "a={b: ", "a='x", "a=!apply:os.system [ls]", "a=!!python/name:os.system ''"])
def test_a_value_that_is_no_plain_yaml_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="not YAML") as error:
        parse_override(text)
    assert text in str(error.value)


def test_dotted_keys_become_sections() -> None:
    assert nest({"a.b": 1, "a.c.d": [2], "e": 3}) == {"a": {"b": 1, "c": {"d": [2]}}, "e": 3}


def test_a_key_cannot_be_a_value_and_a_section() -> None:
    with pytest.raises(UserError, match=r"`a\.b`.*keep one"):
        nest({"a": 1, "a.b": 2})
