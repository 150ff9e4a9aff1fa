"""The model of the A/A trial, built in the worker: a small transformer encoder, the kind of work speech models do."""

from __future__ import annotations

import torch


class TrialEncoder(torch.nn.Module):
    """Waveforms -> frames of 25 ms every 10 ms -> transformer layers. About 40 ms for 2 s of audio on one thread."""

    def __init__(self, layers: int = 6, width: int = 256) -> None:
        super().__init__()
        self.frames = torch.nn.Linear(400, width)
        self.layers = torch.nn.ModuleList(
            torch.nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True) for _ in range(layers)
        )

    def forward(self, waveforms: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = self.frames(waveforms.unfold(1, 400, 160))
        for layer in self.layers:
            hidden = layer(hidden)
        return hidden
