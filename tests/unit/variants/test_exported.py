"""Parts of a model that an engine takes: what they hold that others use too, and where exporters need help."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from profiler.models.model import Model
from profiler.runtimes.onnxruntime import drop_empty_squeezes
from profiler.variants.exported import only_inside
from profiler.variants.layers import recorded_calls
from profiler.variants.parts import Example, Found, Seen


class Network(nn.Module):
    """One network with both halves of a model, as SpeechBrain's transformer has them."""

    def __init__(self) -> None:
        super().__init__()
        self.encoding, self.decoding = nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4))


class Encoder(nn.Module):
    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        return self.network.encoding(value)  # type: ignore[no-any-return]


class Recogniser(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.network = Network()
        self.encoder = Encoder(self.network)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        return self.network.decoding(self.encoder(value))  # type: ignore[no-any-return]


def test_what_a_part_holds_and_others_call_keeps_its_weights() -> None:
    """The encoder is exported; it holds the decoder, which torch runs."""
    module = Recogniser()
    model = Model(module, lambda batch: batch, module, "scores", 16000, {})
    with recorded_calls(model) as calls:
        model.run(torch.ones(1, 4))
    seen = Example(None, Seen({}, calls, set()))
    nothing: Any = None
    found = Found(nothing, {"encoder": module.encoder}, [], [seen], nothing)
    inside = list(only_inside(model, found).values())
    assert module.network.encoding in inside
    assert not set(module.network.decoding.modules()) & set(inside)


class Squeezed(nn.Module):
    """As SpeechBrain's convolutions: of four channels nothing is squeezed, of one it is."""

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        return value.squeeze(1) + value[:, :1].squeeze(1).unsqueeze(1)


def test_a_squeeze_that_changes_nothing_is_no_operator_for_onnx() -> None:
    value = torch.rand(2, 4, 5)
    program = torch.export.export(Squeezed(), (value,))
    drop_empty_squeezes(program)
    squeezes = [node for node in program.graph.nodes if node.target is torch.ops.aten.squeeze.dim]
    assert len(squeezes) == 1
    torch.testing.assert_close(program.module()(value), Squeezed()(value))
