"""The conformer of icefall's transducer recipes, in plain torch. Imports torch: for use in a worker.

80 mel -> two 3x3 convolutions of stride 2 -> blocks [half feed-forward, attention with relative positions, convolution,
half feed-forward] -> the projection to the joiner's width. With the sizes below it has 83,494,400 parameters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional


@dataclass(frozen=True)
class ConformerSizes:
    """What a recipe may override."""

    mels: int = 80
    layers: int = 12
    width: int = 512
    heads: int = 8
    feed_forward: int = 2048
    kernel: int = 31
    dropout: float = 0.1
    vocabulary: int = 500
    context: int = 2  # tokens that the decoder sees
    decoder_width: int = 512
    joiner_width: int = 512


class Conformer(nn.Module):
    """(batch, frames, mels) -> (batch, frames / 4, joiner's width)."""

    def __init__(self, sizes: ConformerSizes) -> None:
        super().__init__()
        self.width = sizes.width
        self.encoder_embed = Subsampling(sizes)
        self.layers = nn.ModuleList(ConformerLayer(sizes) for _ in range(sizes.layers))
        self.after_norm = nn.LayerNorm(sizes.width)
        self.output = nn.Linear(sizes.width, sizes.joiner_width)
        self.dropout = nn.Dropout(sizes.dropout)

    def forward(self, features: torch.Tensor, frames: torch.Tensor | None = None) -> torch.Tensor:
        """`frames` [batch]: how many of each row of the features are audio; None: all."""
        x = self.dropout(self.encoder_embed(features))
        padding = None
        if frames is not None:
            place = torch.arange(x.shape[1], device=x.device)
            padding = place >= subsampled(frames).to(x.device)[:, None]
        positions = self.dropout(distances(x.shape[1], self.width, x))
        for layer in self.layers:
            x = layer(x, positions, padding)
        output: torch.Tensor = self.output(self.after_norm(x))
        return output


def subsampled(frames: torch.Tensor) -> torch.Tensor:
    """How many frames are left of so many."""
    return ((frames - 1) // 2 - 1) // 2


def distances(length: int, width: int, like: torch.Tensor) -> torch.Tensor:
    """Sines and cosines in turn, for each distance from length - 1 down to 1 - length: (1, 2 length - 1, width)."""
    far = torch.arange(length - 1, -length, -1, device=like.device, dtype=torch.float32)
    speeds = torch.exp(torch.arange(0, width, 2, device=like.device) * (-math.log(10_000.0) / width))
    angles = far[:, None] * speeds
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)[None].to(like.dtype)


class Subsampling(nn.Module):
    def __init__(self, sizes: ConformerSizes) -> None:
        super().__init__()
        width = sizes.width
        self.conv = nn.Sequential(
            nn.Conv2d(1, width, 3, stride=2), nn.ReLU(), nn.Conv2d(width, width, 3, stride=2), nn.ReLU()
        )
        self.out = nn.Linear(width * (((sizes.mels - 1) // 2 - 1) // 2), width)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = self.out(self.conv(features.unsqueeze(1)).transpose(1, 2).flatten(2))
        return output


class ConformerLayer(nn.Module):
    def __init__(self, sizes: ConformerSizes) -> None:
        super().__init__()
        self.feed_forward_macaron, self.feed_forward = _feed_forward(sizes), _feed_forward(sizes)
        self.self_attn, self.conv = RelativeAttention(sizes), Convolution(sizes)
        self.norms = nn.ModuleList(nn.LayerNorm(sizes.width) for _ in range(5))
        self.dropout = nn.Dropout(sizes.dropout)

    def forward(self, x: torch.Tensor, positions: torch.Tensor, padding: torch.Tensor | None) -> torch.Tensor:
        x = x + 0.5 * self.dropout(self.feed_forward_macaron(self.norms[0](x)))
        x = x + self.dropout(self.self_attn(self.norms[1](x), positions, padding))
        x = x + self.dropout(self.conv(self.norms[2](x), padding))
        x = x + 0.5 * self.dropout(self.feed_forward(self.norms[3](x)))
        output: torch.Tensor = self.norms[4](x)
        return output


def _feed_forward(sizes: ConformerSizes) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(sizes.width, sizes.feed_forward),
        nn.SiLU(),
        nn.Dropout(sizes.dropout),
        nn.Linear(sizes.feed_forward, sizes.width),
    )


class RelativeAttention(nn.Module):
    """Scores are (query + u) . key + (query + v) . position, the latter for all 2 T - 1 distances and then shifted."""

    def __init__(self, sizes: ConformerSizes) -> None:
        super().__init__()
        self.heads, each = sizes.heads, sizes.width // sizes.heads
        self.scale = each**-0.5
        self.in_proj, self.out_proj = nn.Linear(sizes.width, 3 * sizes.width), nn.Linear(sizes.width, sizes.width)
        self.linear_pos = nn.Linear(sizes.width, sizes.width, bias=False)
        self.pos_bias_u = nn.Parameter(torch.zeros(sizes.heads, 1, each))
        self.pos_bias_v = nn.Parameter(torch.zeros(sizes.heads, 1, each))

    def forward(self, x: torch.Tensor, positions: torch.Tensor, padding: torch.Tensor | None) -> torch.Tensor:
        query, key, value = (self._split(part) for part in self.in_proj(x).chunk(3, dim=-1))
        by_content = (query + self.pos_bias_u) @ key.transpose(-1, -2)
        by_distance = (query + self.pos_bias_v) @ self._split(self.linear_pos(positions)).transpose(-1, -2)
        scores = (by_content + _shift(by_distance)) * self.scale
        if padding is not None:
            scores = scores.masked_fill(padding[:, None, None], torch.finfo(scores.dtype).min)
        output: torch.Tensor = self.out_proj((scores.softmax(-1) @ value).transpose(1, 2).flatten(2))
        return output

    def _split(self, x: torch.Tensor) -> torch.Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)


def _shift(scores: torch.Tensor) -> torch.Tensor:
    """(..., T, 2 T - 1) by distance -> (..., T, T) by key."""
    batch, heads, length, far = scores.shape
    padded = functional.pad(scores, (1, 0)).view(batch, heads, far + 1, length)
    return padded[:, :, 1:].reshape(batch, heads, length, far)[..., :length]


class Convolution(nn.Module):
    def __init__(self, sizes: ConformerSizes) -> None:
        super().__init__()
        width, kernel = sizes.width, sizes.kernel
        self.pointwise_conv1 = nn.Conv1d(width, 2 * width, 1)
        self.depthwise_conv = nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=width)
        self.norm = nn.BatchNorm1d(width)
        self.pointwise_conv2 = nn.Conv1d(width, width, 1)

    def forward(self, x: torch.Tensor, padding: torch.Tensor | None) -> torch.Tensor:
        x = functional.glu(self.pointwise_conv1(x.transpose(1, 2)), dim=1)
        if padding is not None:
            x = x.masked_fill(padding[:, None], 0.0)
        output: torch.Tensor = self.pointwise_conv2(functional.silu(self.norm(self.depthwise_conv(x))))
        return output.transpose(1, 2)


class Decoder(nn.Module):
    """Tokens said so far -> a vector for each place. It has no state: it sees the last `context` tokens alone."""

    def __init__(self, sizes: ConformerSizes) -> None:
        super().__init__()
        width = sizes.decoder_width
        self.context = sizes.context
        self.embedding = nn.Embedding(sizes.vocabulary, width)
        self.conv = nn.Conv1d(width, width, sizes.context, groups=width, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """(batch, places) with the blank as the first token -> (batch, places, width)."""
        embedded = functional.pad(self.embedding(tokens).transpose(1, 2), (self.context - 1, 0))
        return functional.relu(self.conv(embedded).transpose(1, 2))


class Joiner(nn.Module):
    """A vector of the encoder and one of the decoder -> scores of tokens."""

    def __init__(self, sizes: ConformerSizes) -> None:
        super().__init__()
        self.decoder_proj = nn.Linear(sizes.decoder_width, sizes.joiner_width)
        self.output_linear = nn.Linear(sizes.joiner_width, sizes.vocabulary)

    def forward(self, by_frame: torch.Tensor, by_place: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.output_linear(torch.tanh(by_frame + self.decoder_proj(by_place)))
        return scores


class ConformerTransducer(nn.Module):
    """Encoder, decoder, joiner, and the two projections that the simple loss needs."""

    def __init__(self, sizes: ConformerSizes) -> None:
        super().__init__()
        self.encoder = Conformer(sizes)
        self.decoder = Decoder(sizes)
        self.joiner = Joiner(sizes)
        self.simple_am_proj = nn.Linear(sizes.joiner_width, sizes.vocabulary)
        self.simple_lm_proj = nn.Linear(sizes.decoder_width, sizes.vocabulary)
