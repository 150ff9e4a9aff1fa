"""A call of a module as tensors: a cache of keys and values goes in, is filled, and comes out as the same object."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from profiler.errors import NotSupported
from profiler.models.torchaudio.on_cpu import ensure_torchaudio
from profiler.runtimes.tensors import CacheOutput, given, outputs, put_together

ensure_torchaudio()
from transformers.cache_utils import DynamicCache, DynamicSlidingWindowLayer, EncoderDecoderCache  # noqa: E402

ROWS, HEADS, SIZE = 2, 2, 4


def keys(length: int, value: float = 0.0) -> torch.Tensor:
    return torch.full((ROWS, HEADS, length, SIZE), value)


def decoder_cache(steps: int = 0, frames: int = 7) -> Any:
    cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
    if steps:
        cache.self_attention_cache.update(keys(steps), keys(steps), 0)
        cache.cross_attention_cache.update(keys(frames), keys(frames), 0)
        cache.is_updated[0] = True
    return cache


def step(ids: torch.Tensor, cache: Any) -> dict[str, Any]:
    """What a decoder does in a step: it joins its keys to the cache, and looks at the encoder once."""
    cache.self_attention_cache.update(keys(ids.shape[1], 1.0), keys(ids.shape[1], 2.0), 0)
    if not cache.is_updated.get(0):
        cache.cross_attention_cache.update(keys(7, 3.0), keys(7, 4.0), 0)
        cache.is_updated[0] = True
    return {"scores": ids * 2, "ids": ids, "cache": cache, "nothing": None}


def replayed(ids: torch.Tensor, cache: Any) -> tuple[Any, Any]:
    """The step as a file would do it, in a call with a cache that is filled like this one: output, and the cache."""
    call = given((ids,), {"cache": cache})
    seen = call.kept()
    (one,), named = seen.again(list(call.tensors)).arguments
    made, leaves, structure = outputs(step(ids, cache), call)
    assert named["cache"] is not cache
    other = decoder_cache(int(seen.arguments[1]["cache"].get_seq_length()))
    again = given((one,), {"cache": other})
    assert again.how == call.how
    return put_together(leaves, structure, made, again), other


@pytest.mark.parametrize("before", [0, 3])
def test_a_step_leaves_the_cache_that_it_was_given_as_the_module_would(before: int) -> None:
    output, cache = replayed(torch.ones(ROWS, 1, dtype=torch.int64), decoder_cache(before))
    assert output["cache"] is cache
    assert output["nothing"] is None
    assert cache.get_seq_length() == before + 1
    assert cache.self_attention_cache.layers[0].keys[0, 0, -1, 0] == 1
    assert cache.self_attention_cache.layers[0].values[0, 0, -1, 0] == 2
    assert cache.cross_attention_cache.get_seq_length() == 7
    assert cache.is_updated[0]


def test_what_is_given_back_as_it_came_is_no_tensor_of_the_engine() -> None:
    cache = decoder_cache(3)
    call = given((torch.ones(ROWS, 1),), {"cache": cache})
    made, leaves, _ = outputs(step(call.tensors[0], cache), call)
    (left,) = [leaf for leaf in leaves if isinstance(leaf, CacheOutput)]
    own, cross = left.layers
    assert len(made) == 3, "scores, and the keys and values of the decoder itself"
    assert all(number >= 0 for number in own[0])
    assert all(number < 0 for number in cross[0]), "the encoder's are those that came in"


def test_the_first_step_is_another_kind_of_call_than_a_later_one() -> None:
    first, second, third = (given((), {"cache": decoder_cache(steps)}).how for steps in (0, 1, 2))
    assert first != second
    assert second == third


def test_a_call_that_is_kept_is_that_of_before() -> None:
    cache = decoder_cache(3)
    seen = given((torch.ones(ROWS, 1),), {"cache": cache}).kept()
    step(torch.ones(ROWS, 1), cache)
    assert cache.get_seq_length() == 4
    assert seen.arguments[1]["cache"].get_seq_length() == 3


def test_caches_that_cannot_be_handed_on_are_refused() -> None:
    sliding = DynamicCache()
    sliding.layers.append(DynamicSlidingWindowLayer(sliding_window=4))
    with pytest.raises(NotSupported, match="DynamicSlidingWindowLayer"):
        given((sliding,), {})
    ids = torch.ones(ROWS, 1)
    with pytest.raises(NotSupported, match="makes its cache of keys and values itself"):
        outputs({"scores": ids * 2, "cache": decoder_cache(1)}, given((ids,), {}))
    with pytest.raises(NotSupported, match="does not give back"):
        outputs(ids * 2, given((ids, decoder_cache(1)), {}))
