"""Modules for the benchmarks, named in recipes as `benchmarks.models.X`."""

from __future__ import annotations

import random

import torch


class Nothing(torch.nn.Module):
    """A model that does nothing: all that a cell takes is overhead."""

    def forward(self, waveforms: torch.Tensor) -> torch.Tensor:
        return waveforms


class TinyOperations(torch.nn.Module):
    """Thousands of operations that do next to nothing: the hardest case for an instrument that watches operations."""

    def __init__(self, operations: int = 5000) -> None:
        super().__init__()
        self.operations = operations

    def forward(self, waveforms: torch.Tensor) -> torch.Tensor:
        value = waveforms[:, :8]
        for _ in range(self.operations):
            value = value + 1.0
        return value


class Encoder(torch.nn.Module):
    """A small transformer encoder over frames of 25 ms, slower at will by a known share.

    For audio of `slow_at` seconds (0: of any length) a layer is passed once more by `extra` of the frames: of 10 layers
    a tenth of a pass is 1 % more work. `slow_calls` of the calls take twice as long, chosen by chance.
    """

    def __init__(
        self,
        layers: int = 10,
        width: int = 256,
        slow_at: float = 0.0,
        extra: float = 0.0,
        slow_calls: float = 0.0,
    ) -> None:
        super().__init__()
        self.frames = torch.nn.Linear(400, width)
        self.layers = torch.nn.ModuleList(
            torch.nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True) for _ in range(layers)
        )
        self.slow_at = round(slow_at * 16000)
        self.extra = extra
        self.slow_calls = slow_calls

    def forward(self, waveforms: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = self.frames(waveforms.unfold(1, 400, 160))
        for _ in range(2 if random.random() < self.slow_calls else 1):
            passed = hidden
            for layer in self.layers:
                passed = layer(passed)
        if self.extra and self.slow_at in (0, waveforms.shape[1]):
            self.layers[0](hidden[:, : max(1, round(self.extra * hidden.shape[1]))])
        return passed
