"""Files of a decoder, told by the names of their inputs: what each step is given, and what it leaves in the cache."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from profiler.errors import NotSupported
from profiler.models.own.onnx_folder import DecoderPart, NamedPart
from profiler.models.torchaudio.on_cpu import ensure_torchaudio
from profiler.runtimes.base import TensorInfo
from profiler.runtimes.part import Export, Manifest

ensure_torchaudio()
from transformers.cache_utils import DynamicCache, EncoderDecoderCache  # noqa: E402

ROWS, HEADS, FRAMES, SIZE, TOKENS = 2, 3, 5, 4, 7
NAMES = [f"0.{half}.{kind}" for half in ("decoder", "encoder") for kind in ("key", "value")]


class Decoder:
    """Stands in for a file that serves the first step and all later ones."""

    inputs = (
        TensorInfo("input_ids", "int64", (None, None)),
        TensorInfo("encoder_hidden_states", "float32", (None, None, SIZE)),
        TensorInfo("encoder_attention_mask", "int64", (None, None)),
        *(TensorInfo(f"past_key_values.{name}", "float32", (None, HEADS, None, SIZE)) for name in NAMES),
        TensorInfo("use_cache_branch", "bool", (1,)),
    )
    outputs = tuple(TensorInfo(name, "float32", ()) for name in ("logits", *(f"present.{name}" for name in NAMES)))

    def run(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        ids, encoded, mask, keys, values, _, _, later = tensors
        assert mask.shape == encoded.shape[:2]
        new = torch.ones(len(ids), HEADS, ids.shape[1], SIZE)
        own = [torch.cat([keys, new], 2), torch.cat([values, new], 2)] if later else [new, new]
        cross = torch.zeros(0) if later else torch.full((len(ids), HEADS, FRAMES, SIZE), 9.0)
        return [torch.zeros(*ids.shape, TOKENS), *own, cross, cross]


class Opened:
    """Stands in for the runtime: its sessions are open."""

    profiling = traced = False

    def open(self) -> None:
        pass

    def span(self, part: Any) -> Any:
        from contextlib import nullcontext

        return nullcontext()


def forward(input_ids: Any = None, encoder_hidden_states: Any = None, past_key_values: Any = None, **more: Any) -> None:
    pass


def opened(kind: Any, session: Any, **more: Any) -> Any:
    manifest = Manifest(file="decoder_model_merged.onnx", output="", leaves=[], export_s=0, export_peak_bytes=0)
    part = kind("decoder", Opened(), [Export("", (), Path(), manifest, True)], **more)
    part._sessions[0], part.signature = session, inspect.signature(forward)
    return part


def test_steps_fill_the_cache_that_the_search_hands_over() -> None:
    part, cache = opened(DecoderPart, Decoder()), EncoderDecoderCache(DynamicCache(), DynamicCache())
    encoded = torch.zeros(ROWS, FRAMES, SIZE)
    for tokens, known in ((3, 3), (1, 4), (1, 5)):
        ids = torch.ones(ROWS, tokens, dtype=torch.int64)
        made = part(input_ids=ids, encoder_hidden_states=encoded, past_key_values=cache, use_cache=True)
        assert made.last_hidden_state.shape == (ROWS, tokens, TOKENS)
        assert made.past_key_values is cache
        assert cache.get_seq_length() == known
    assert cache.cross_attention_cache.layers[0].keys.shape == (ROWS, HEADS, FRAMES, SIZE)
    assert cache.cross_attention_cache.layers[0].values[0, 0, 0, 0] == 9, "those of the first step"
    assert cache.is_updated[0]


def test_a_call_without_a_cache_keeps_nothing() -> None:
    made = opened(DecoderPart, Decoder())(torch.ones(ROWS, 1, dtype=torch.int64), torch.zeros(ROWS, FRAMES, SIZE))
    assert made.past_key_values is None


def test_an_input_that_the_model_is_not_called_with_is_named() -> None:
    session = Decoder()
    session.inputs = (*session.inputs, TensorInfo("speaker", "float32", (None,)))
    with pytest.raises(NotSupported, match=r"decoder_model_merged.onnx has an input speaker"):
        opened(DecoderPart, session)(torch.ones(ROWS, 1, dtype=torch.int64), torch.zeros(ROWS, FRAMES, SIZE))


def test_outputs_that_are_no_output_of_the_class_are_named() -> None:
    part = opened(NamedPart, Decoder(), output="BaseModelOutput")
    part._run = lambda number, tensors: [torch.zeros(1)]
    part._sessions[0].inputs, part._sessions[0].outputs = (), [TensorInfo("pooled", "float32", ())]
    with pytest.raises(NotSupported, match="gives pooled, which is not what a BaseModelOutput has"):
        part(torch.zeros(1))
