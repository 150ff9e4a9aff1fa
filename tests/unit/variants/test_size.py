"""Bytes of the saved state: as torch.save writes them, and as the quantisation lab published them."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from profiler.measure.parameters import size_bytes
from profiler.models.model import Model
from profiler.models.torchaudio.on_cpu import ensure_torchaudio
from profiler.variants.layers import all_modules, become
from profiler.variants.quantize import choose_linear, dynamic_layer, static_layer


def model_of(module: nn.Module) -> Model:
    return Model(module.eval(), lambda batch: batch, module, "numbers", 16000, dict(module.named_children()))


def written(module: nn.Module) -> int:
    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    return file.tell()


class Speech(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.LSTM(256, 256, num_layers=2, bidirectional=True)
        self.norm = nn.BatchNorm1d(512)
        self.decoder = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 2048))
        self.ctc = nn.Linear(512, 1024)


def as_it_is(model: Model) -> None:
    pass


def linear_dynamic(model: Model) -> None:
    for layer in choose_linear(model)[0]:
        become(layer, dynamic_layer(layer))


def all_dynamic(model: Model) -> None:
    linear_dynamic(model)
    for layer in [module for module in all_modules(model) if isinstance(module, nn.LSTM)]:
        become(layer, dynamic_layer(layer))


def all_static(model: Model) -> None:
    for layer in choose_linear(model)[0]:
        become(layer, static_layer(layer, (0.1, 128), (0.1, 128), torch.backends.quantized.engine))


def weight_only(model: Model) -> None:
    from torchao.quantization import Int8WeightOnlyConfig, quantize_

    quantize_(model.module, Int8WeightOnlyConfig(set_inductor_config=False))


def half(model: Model) -> None:
    model.module.to(torch.bfloat16)


CHANGES = [as_it_is, linear_dynamic, all_dynamic, all_static, weight_only, half]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_the_size_is_that_of_the_file_which_torch_writes(change: Callable[[Model], None]) -> None:
    model = model_of(Speech())
    change(model)
    found = size_bytes(model)
    assert found.total == pytest.approx(written(model.module), rel=0.01)
    assert found.total == sum(found.components.values())
    assert set(found.components) == {"encoder", "norm", "decoder", "ctc"}
    assert found.components["decoder"] == pytest.approx(written(model.module.decoder), rel=0.01)


def test_float_models_have_the_size_that_is_counted_on_the_meta_device() -> None:
    with torch.device("meta"):
        counted = size_bytes(model_of(Speech()))
    assert size_bytes(model_of(Speech())) == counted


def test_a_layer_in_two_places_counts_once_float_or_packed() -> None:
    once = nn.Linear(64, 64)
    module = nn.ModuleDict({"one": nn.Sequential(once), "two": nn.Sequential(once)})
    model = model_of(module)
    assert size_bytes(model).components == {"one": 4 * (64 * 64 + 64)}
    linear_dynamic(model)
    assert set(size_bytes(model).components) == {"one"}


# The lab's conformer and LSTM hybrids, of ESPnet's own classes. KB of 1000 bytes: float32, then int8 linear layers.


def conformer_encoder() -> Any:
    from espnet2.asr.encoder.conformer_encoder import ConformerEncoder

    return ConformerEncoder(
        80,
        output_size=512,
        attention_heads=8,
        linear_units=2048,
        num_blocks=12,
        macaron_style=True,
        rel_pos_type="latest",
        pos_enc_layer_type="rel_pos",
        selfattention_layer_type="rel_selfattn",
        activation_type="swish",
        use_cnn_module=True,
        cnn_module_kernel=31,
    )


def decoder() -> Any:
    from espnet2.asr.decoder.transformer_decoder import TransformerDecoder

    return TransformerDecoder(5000, 512, attention_heads=8, linear_units=2048, num_blocks=6)


def ctc() -> Any:
    from espnet2.asr.ctc import CTC

    return CTC(5000, 512)


def lstm_encoder() -> Any:
    from espnet2.asr.encoder.rnn_encoder import RNNEncoder

    return RNNEncoder(
        80, rnn_type="lstm", bidirectional=True, use_projection=True, num_layers=4, hidden_size=320, output_size=320
    )


@pytest.mark.parametrize(
    ("build", "before", "after"),
    [
        (conformer_encoder, 333_240, 120_201),
        (decoder, 121_456, 38_323),
        (ctc, 10_261, 2_582),
        (lstm_encoder, 27_217, 24_762),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_sizes_of_the_quantisation_lab_come_out(build: Callable[[], Any], before: int, after: int) -> None:
    pytest.importorskip("espnet2")
    ensure_torchaudio()
    with contextlib.redirect_stdout(io.StringIO()):
        model = model_of(build())
    assert size_bytes(model).total == pytest.approx(1000 * before, rel=0.01)
    linear_dynamic(model)
    assert size_bytes(model).total == pytest.approx(1000 * after, rel=0.01)
