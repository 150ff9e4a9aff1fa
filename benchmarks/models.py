"""Modules for the benchmarks, named in recipes as `benchmarks.models.X`."""

from __future__ import annotations

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
    """A small transformer encoder over frames of 25 ms, of which a known share is slower at will.

    For audio of `slow_at` seconds some of the layers are passed once more: 1 of 10 layers is 10 % more work, in that
    cell of the grid and in no other.
    """

    def __init__(self, layers: int = 10, width: int = 256, slow_at: float = 0.0, extra: int = 1) -> None:
        super().__init__()
        self.frames = torch.nn.Linear(400, width)
        self.layers = torch.nn.ModuleList(
            torch.nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True) for _ in range(layers)
        )
        self.slow_at = round(slow_at * 16000)
        self.extra = extra

    def forward(self, waveforms: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = self.frames(waveforms.unfold(1, 400, 160))
        again = self.extra if waveforms.shape[1] == self.slow_at else 0
        for layer in (*self.layers, *self.layers[:again]):
            hidden = layer(hidden)
        return hidden
