"""Operations of full-size models against published figures, and of whole ASR models with their searches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest
import torch

from profiler.audio import Batch
from profiler.models.icefall.conformer import Conformer, ConformerSizes
from profiler.models.load import build_for_counting, load_model
from profiler.models.model import Model, ModelRequest, model_request
from profiler.recipe.load import load_recipe
from profiler.results.types import Operations
from tests.conftest import TinyModel
from tests.helpers import tiny
from tests.helpers.operations import count_operations

RATE = 16000
# Of 32 utterances of LibriSpeech test-clean, in samples; the sum of MACs over them is published for HuBERT-base.
LENGTHS = """
    20560 34560 38480 42560 45600 48720 52000 55120 59120 62720 66400 71200 75200 78640 82800 87520 92720 98560 104400
    111120 118480 125040 132720 142640 154000 166720 180880 197920 217920 239280 268160 326000
"""
HUBERT_MACS = 1_669_156_022_848


def on_meta(recipe: str) -> Model:
    loaded = load_recipe(tiny.RECIPES / f"{recipe}.yaml", {"pretrained_model.weights": "random"})
    model = build_for_counting(model_request(loaded.recipe, loaded.path.parent))
    model.module.eval().to("meta")  # small parts that the library fills at once are in memory
    return model


def counted(model: Model, samples: int, rows: int = 1) -> Operations:
    """The model itself on silence, without its feature extractor, which only scales."""
    silence = torch.zeros(rows, samples, device=next(model.module.parameters()).device)
    return count_operations(model.module, silence, model.components, rows * samples / RATE)


@pytest.mark.slow
def test_hubert_base_over_real_lengths() -> None:
    model = on_meta("hubert")
    total = sum(counted(model, int(samples)).macs for samples in LENGTHS.split())
    assert total == pytest.approx(HUBERT_MACS, rel=0.005)


@pytest.mark.parametrize(("seconds", "macs_per_second"), [(1, 6.91e9), (5, 7.17e9), (32, 8.43e9)])
def test_wav2vec2_base_per_second_of_audio(seconds: int, macs_per_second: float) -> None:
    found = counted(on_meta("wav2vec2"), seconds * RATE)
    without_head = found.macs - found.components["lm_head"]
    assert without_head / seconds == pytest.approx(macs_per_second, rel=0.005)
    assert found.per_second == found.macs / seconds
    assert list(found.components) == ["feature_extractor", "feature_projection", "encoder", "lm_head"]
    frames = (seconds * RATE - 400) // 320 + 1
    assert found.components["feature_projection"] == frames * 512 * 768
    assert found.components["lm_head"] == frames * 768 * 32
    assert found.uncounted == []


def test_a_batch_counts_its_rows() -> None:
    model = on_meta("hubert")
    one, four = counted(model, RATE), counted(model, RATE, rows=4)
    assert four.macs == 4 * one.macs
    assert four.per_second == one.per_second


@pytest.mark.slow
def test_hubert_base_counts_the_same_in_memory_and_on_the_meta_device() -> None:
    loaded = load_recipe(tiny.RECIPES / "hubert.yaml", {"pretrained_model.weights": "random"})
    real, without_memory = load_model(model_request(loaded.recipe, loaded.path.parent)), on_meta("hubert")
    through_all = _counted_run(real, numpy.full(1, RATE // 2))
    assert (
        through_all.components == counted(real, RATE // 2).components == counted(without_memory, RATE // 2).components
    )
    assert "aten::_scaled_dot_product_flash_attention_for_cpu" in through_all.by_operator


def test_the_icefall_conformer_encoder() -> None:
    with torch.device("meta"):
        encoder = Conformer(ConformerSizes()).eval()
    assert sum(parameter.numel() for parameter in encoder.parameters()) == 83_494_400
    features = torch.zeros(1, 30 * 100, ConformerSizes().mels, device="meta")
    found = count_operations(encoder, features, dict(encoder.named_children()), 30.0)
    assert found.flops == pytest.approx(221.6e9, rel=0.01)
    frames = 749
    assert found.components["output"] == frames * 512 * 512
    assert [entry.partition(":")[0] for entry in found.uncounted] == ["after_norm"], "a zero by convention, and said"


def _counted_run(model: Model, lengths: Any) -> Operations:
    """The timed region of a model, on noise."""
    noise = numpy.random.default_rng(0).standard_normal((len(lengths), max(lengths))).astype("float32")
    batch = Batch(0.1 * noise, lengths, model.rate)
    return count_operations(model.run, model.prepare(batch), model.components, batch.seconds_of_audio)


@pytest.mark.parametrize("name", ["ctc", "encoder", "classifier", "whisper", "crdnn", "french", "speechbrain-whisper"])
def test_whole_models_are_counted_with_nothing_left_out(tiny_model: Callable[[str], TinyModel], name: str) -> None:
    """Features, search and language model run as they are timed; every operator is either counted or free."""
    made = tiny_model(name)
    model = load_model(ModelRequest(source=str(made.folder), folder=made.folder, type=made.type))
    found = _counted_run(model, numpy.array([RATE, RATE // 2]))
    assert found.macs > 0
    assert sum(found.components.values()) == found.macs == sum(found.by_operator.values())
    assert all(found.components.values()), found
    assert found.uncounted == []
    again = _counted_run(model, numpy.array([RATE, RATE // 2]))
    assert again == found
