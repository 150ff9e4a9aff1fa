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
