"""Small networks, each with one thing that conversions stumble over; for `type: Module`, waveforms in, frames out."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

FRAME = 160


def frames(waveforms: torch.Tensor) -> torch.Tensor:
    return waveforms.unfold(1, FRAME, FRAME)


class Linears(nn.Module):
    """Linear layers and nothing in their way."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(FRAME, 64), nn.ReLU(), nn.Linear(64, 64))
        self.head = nn.Linear(64, 8)

    def forward(self, waveforms: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(frames(waveforms)))


class SameLinear(nn.Linear):
    """A subclass that computes as its parent does."""


class ScaledLinear(nn.Linear):
    """A subclass that computes in a way of its own."""

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(value, self.weight * 2, self.bias)


class Subclasses(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.plain = nn.Linear(FRAME, 32)
        self.same = SameLinear(32, 32)
        self.normed = nn.utils.parametrizations.weight_norm(nn.Linear(32, 32))
        self.scaled = ScaledLinear(32, 32)

    def forward(self, waveforms: torch.Tensor) -> torch.Tensor:
        return self.scaled(self.normed(self.same(self.plain(frames(waveforms)))))


class OnlyScaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scaled = ScaledLinear(FRAME, 32)

    def forward(self, waveforms: torch.Tensor) -> torch.Tensor:
        return self.scaled(frames(waveforms))


class TorchEncoder(nn.Module):
    """torch's own encoder layers, whose fast path takes the weights of their parts."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(FRAME, 4, 64, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, waveforms: torch.Tensor) -> torch.Tensor:
        return self.encoder(frames(waveforms))


class Direct(nn.Module):
    """One linear layer is called, of another only the weight is used."""

    def __init__(self) -> None:
        super().__init__()
        self.called = nn.Linear(FRAME, 32)
        self.used = nn.Linear(32, 32)

    def forward(self, waveforms: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(self.called(frames(waveforms)), self.used.weight, self.used.bias)


class Tied(nn.Module):
    """The head shares its weight with the embedding, as in many decoders."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, FRAME)
        self.head = nn.Linear(FRAME, 50, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, waveforms: torch.Tensor) -> torch.Tensor:
        tokens = (frames(waveforms).mean(2).abs() * 49).long().clamp(max=49)
        return self.head(self.embedding(tokens) + frames(waveforms))


class Recurrent(nn.Module):
    """LSTMs as libraries use them, one of a kind that torch has no int8 form of."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(FRAME, 32, batch_first=True, bidirectional=True)
        self.projected = nn.LSTM(64, 32, proj_size=16, batch_first=True)
        self.head = nn.Linear(16, 8)

    def forward(self, waveforms: torch.Tensor) -> torch.Tensor:
        self.lstm.flatten_parameters()
        return self.head(self.projected(self.lstm(frames(waveforms))[0])[0])


class Convolutions(nn.Module):
    """No linear layer at all."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 8, 3)
        self.second = nn.Conv2d(8, 8, 3)

    def forward(self, waveforms: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(frames(waveforms)[:, None]))


class Features(nn.Module):
    """A spectrum, which has no half precision on a CPU, before layers that have."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(FRAME))
        self.norm = nn.BatchNorm1d(FRAME // 2 + 1)
        self.lstm = nn.LSTM(FRAME // 2 + 1, 16, batch_first=True)

    def forward(self, waveforms: torch.Tensor) -> torch.Tensor:
        spectrum = torch.stft(waveforms, FRAME, window=self.window, return_complex=True).abs()
        start = torch.zeros(1, len(waveforms), 16)
        return self.lstm(self.norm(spectrum).transpose(1, 2), (start, start))[0]


class LearnedSpectrum(nn.Module):
    """A spectrum of something that has the weights' precision."""

    def __init__(self) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(FRAME))

    def forward(self, waveforms: torch.Tensor) -> torch.Tensor:
        return torch.fft.rfft(frames(waveforms) * self.gain).abs()


class Numpy(nn.Module):
    """Code around a part that is made for float32."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Linears()

    def __call__(self, waveforms: torch.Tensor) -> Any:  # in place of forward: this code is in no module
        return torch.from_numpy(self.inner(waveforms).numpy() + 1)


class Steps(nn.Module):
    """A loop over steps, as in a search."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Linear(FRAME, 16)
        self.step = nn.GRUCell(16, 16)

    def forward(self, waveforms: torch.Tensor) -> torch.Tensor:
        state = torch.zeros(len(waveforms), 16)
        for value in self.encoder(frames(waveforms)).unbind(1):
            state = self.step(value, state)
        return state


class Nothing(nn.Module):
    """No weights."""

    def forward(self, waveforms: torch.Tensor) -> torch.Tensor:
        return waveforms
