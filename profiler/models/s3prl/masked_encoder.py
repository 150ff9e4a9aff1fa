"""The encoder behind Mockingjay and TERA, from torch's own layers, with the parameter names of s3prl's checkpoints.

s3prl's own code does not import beside today's torchaudio. Imports torch: for use in a worker.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

from profiler.errors import ModelError
from profiler.models.features.filterbank import TINY, Features

LONGEST = 24_000  # frames for which there are positions, where a model sets no limit
ACTIVATIONS: dict[str, Any] = {"gelu": functional.gelu, "relu": functional.relu, "swish": functional.silu}


@dataclass(frozen=True)
class MaskedEncoderSizes:
    """What a recipe may override, by the names that s3prl gives them."""

    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    input_dim: int
    sequence_length: int  # frames that are processed at a time; 0: all
    hidden_act: str = "gelu"
    layer_norm_eps: float = 1e-12
    initializer_range: float = 0.02


class OnlineMel(Features):
    """s3prl's features: rows brought to one level, log-mel power spectrum of centred windows, deltas, normalised."""

    def __init__(
        self,
        mels: int,
        target_level: float,
        n_freq: int,
        window_ms: float,
        shift_ms: float,
        deltas: int,
        normalize: bool,
        rate: int,
    ) -> None:
        super().__init__(window_ms, shift_ms, deltas, normalize, rate)
        from torchaudio.functional import melscale_fbanks

        self.level = 10 ** (target_level / 20)
        self.fft_size = 2 * (n_freq - 1)
        with torch.device("cpu"):
            self.keep(torch.hann_window(self.window_samples), melscale_fbanks(n_freq, 0.0, rate / 2, mels, rate))

    def values(self, waveforms: torch.Tensor, lengths: torch.Tensor | None) -> torch.Tensor:
        samples: Any = waveforms.shape[1] if lengths is None else lengths[:, None].to(waveforms.device)
        loudness = (waveforms.square().sum(dim=1, keepdim=True) / samples).sqrt()
        spectrum = torch.stft(
            waveforms * (self.level / (loudness + TINY)),
            self.fft_size,
            self.shift_samples,
            self.window_samples,
            self.window.float(),
            pad_mode="reflect",
            return_complex=True,
        )
        return (spectrum.abs().square().transpose(1, 2) @ self.filters.float() + TINY).log()

    def used_frames(self, lengths: torch.Tensor) -> torch.Tensor:
        return 1 + lengths // self.shift_samples


class MaskedEncoder(torch.nn.Module):
    """Waveforms to the hidden states of the last layer. Long input is cut in equal pieces, each encoded by itself."""

    def __init__(self, features: torch.nn.Module, sizes: MaskedEncoderSizes) -> None:
        super().__init__()
        self.features = features
        self.transformer = Transformer(sizes)
        self.sequence_length = sizes.sequence_length

    def forward(self, waveforms: torch.Tensor, lengths: torch.Tensor | None = None) -> torch.Tensor:
        values = self.features(waveforms, lengths)
        mask = None
        if lengths is not None:
            frames = torch.arange(values.shape[1], device=values.device)
            mask = frames[None] < self.features.used_frames(lengths)[:, None].to(values.device)
        count = math.ceil(values.shape[1] / self.sequence_length) if self.sequence_length else 1
        pieces = values.chunk(count, dim=1)
        masks = [None] * len(pieces) if mask is None else mask.chunk(count, dim=1)
        return torch.cat([self.transformer(*both) for both in zip(pieces, masks, strict=True)], dim=1)


class Transformer(torch.nn.Module):
    """Features [batch, frames, values] to hidden states; what s3prl saves under `Transformer`."""

    def __init__(self, sizes: MaskedEncoderSizes) -> None:
        super().__init__()
        self.input_representations = InputRepresentations(sizes)
        self.encoder = MaskedLayers(sizes)
        for module in self.modules():
            if isinstance(module, torch.nn.Linear):
                torch.nn.init.normal_(module.weight, std=sizes.initializer_range)
                torch.nn.init.zeros_(module.bias)

    def forward(self, values: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        """`mask` [batch, frames] is true where there is audio."""
        attended = None
        if mask is not None:
            # A piece may lie wholly after the end of a short row; that row attends to all of it, for nothing.
            attended = (mask | ~mask.any(dim=1, keepdim=True))[:, None, None]
        return self.encoder(self.input_representations(values), attended)


class InputRepresentations(torch.nn.Module):
    """Linear, plus sinusoids for the position, normalised."""

    def __init__(self, sizes: MaskedEncoderSizes) -> None:
        super().__init__()
        self.spec_transform = torch.nn.Linear(sizes.input_dim, sizes.hidden_size)
        self.LayerNorm = torch.nn.LayerNorm(sizes.hidden_size, eps=sizes.layer_norm_eps)
        table = positions(sizes.sequence_length or LONGEST, sizes.hidden_size)
        self.register_buffer("positions", table, persistent=False)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        if values.shape[1] > len(self.positions):
            raise ModelError(f"the model has positions for {len(self.positions)} frames, not for {values.shape[1]}")
        values = self.spec_transform(values.to(self.LayerNorm.weight.dtype))
        return self.LayerNorm(values + self.positions[: values.shape[1]])


def positions(frames: int, width: int) -> torch.Tensor:
    """Sine and cosine in turn, each pair slower than the one before."""
    speeds = 10_000 ** -((torch.arange(width) // 2).double() * 2 / width)
    angles = torch.arange(frames).double()[:, None] * speeds
    return torch.where(torch.arange(width) % 2 == 0, angles.sin(), angles.cos()).float()


class MaskedLayers(torch.nn.Module):
    def __init__(self, sizes: MaskedEncoderSizes) -> None:
        super().__init__()
        self.layer = torch.nn.ModuleList(MaskedLayer(sizes) for _ in range(sizes.num_hidden_layers))

    def forward(self, states: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        for layer in self.layer:
            states = layer(states, mask)
        return states


class MaskedLayer(torch.nn.Module):
    """Attention, then two linear layers, each added to its input and normalised."""

    def __init__(self, sizes: MaskedEncoderSizes) -> None:
        super().__init__()
        self.attention = Attention(sizes)
        self.intermediate = Dense(sizes.hidden_size, sizes.intermediate_size)
        self.output = AddedAndNormalised(sizes.intermediate_size, sizes)
        self.activation = ACTIVATIONS[sizes.hidden_act]

    def forward(self, states: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        states = self.attention(states, mask)
        return self.output(self.activation(self.intermediate(states)), states)


class Attention(torch.nn.Module):
    def __init__(self, sizes: MaskedEncoderSizes) -> None:
        super().__init__()
        self.self = SelfAttention(sizes)
        self.output = AddedAndNormalised(sizes.hidden_size, sizes)

    def forward(self, states: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        return self.output(self.self(states, mask), states)


class SelfAttention(torch.nn.Module):
    def __init__(self, sizes: MaskedEncoderSizes) -> None:
        super().__init__()
        self.heads = sizes.num_attention_heads
        self.query, self.key, self.value = (torch.nn.Linear(sizes.hidden_size, sizes.hidden_size) for _ in range(3))

    def forward(self, states: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        query, key, value = (
            part(states).unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        attended = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return attended.transpose(1, 2).flatten(2)


class Dense(torch.nn.Module):
    """A linear layer under the name that it has in the checkpoints."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.dense = torch.nn.Linear(inputs, outputs)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        return self.dense(states)


class AddedAndNormalised(Dense):
    def __init__(self, inputs: int, sizes: MaskedEncoderSizes) -> None:
        super().__init__(inputs, sizes.hidden_size)
        self.LayerNorm = torch.nn.LayerNorm(sizes.hidden_size, eps=sizes.layer_norm_eps)

    def forward(self, states: torch.Tensor, added: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return self.LayerNorm(self.dense(states) + added)
