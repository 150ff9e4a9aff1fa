"""Kaldi's log-mel filterbank for a whole batch at once, with deltas and normalisation, each recording by itself.

`torchaudio.compliance.kaldi.fbank` gives the same figures one recording at a time. Imports torch: for use in a worker.
"""

from __future__ import annotations

from typing import Any

import torch

from profiler.errors import ModelError
from profiler.models.features.adapter import RATE, fft_size, samples_in
from profiler.models.torchaudio.on_cpu import ensure_torchaudio

PREEMPHASIS = 0.97
LOWEST_HZ = 20.0
DELTA_REACH = 2  # frames on either side
FLOOR = torch.finfo(torch.float32).eps
TINY = 1e-10  # added to a spread that may be zero


class Features(torch.nn.Module):
    """Waveforms [batch, samples] to [batch, frames, values x (1 + deltas)]; nothing in it is learned.

    `lengths` [batch] says how many samples of each row are audio: deltas and normalisation then look at those alone,
    and the frames after them are zero.
    """

    def __init__(self, window_ms: float, shift_ms: float, deltas: int, normalize: bool, rate: int) -> None:
        super().__init__()
        ensure_torchaudio()
        self.rate, self.deltas, self.normalize = rate, deltas, normalize
        self.window_samples, self.shift_samples = samples_in(window_ms, rate), samples_in(shift_ms, rate)

    def keep(self, window: torch.Tensor, filters: torch.Tensor) -> None:
        """Not saved with a model: they follow from its settings."""
        self.register_buffer("window", window, persistent=False)
        self.register_buffer("filters", filters, persistent=False)

    def forward(self, waveforms: torch.Tensor, lengths: torch.Tensor | None = None) -> torch.Tensor:
        if waveforms.shape[-1] < self.window_samples:
            raise ModelError(
                f"{1000 * waveforms.shape[-1] / self.rate:g} ms of audio is shorter than one window of the features "
                f"({1000 * self.window_samples / self.rate:g} ms); raise profiling_dimensions.audio_mockup_secs"
            )
        values = self.values(waveforms.float(), lengths)
        return finish(values, self.deltas, self.normalize, None if lengths is None else self.used_frames(lengths))

    def values(self, waveforms: torch.Tensor, lengths: torch.Tensor | None) -> torch.Tensor:
        raise NotImplementedError

    def used_frames(self, lengths: torch.Tensor) -> torch.Tensor:
        """How many frames of each row are audio."""
        raise NotImplementedError


class Filterbank(Features):
    """Kaldi's log-mel filterbank."""

    def __init__(
        self,
        mels: int = 80,
        window_ms: float = 25.0,
        shift_ms: float = 10.0,
        deltas: int = 0,
        normalize: bool = False,
        rate: int = RATE,
    ) -> None:
        super().__init__(window_ms, shift_ms, deltas, normalize, rate)
        from torchaudio.compliance.kaldi import get_mel_banks

        self.fft_size = fft_size(self.window_samples)
        with torch.device("cpu"):  # real even where a model is only counted, so that it can go to any device
            window = torch.hann_window(self.window_samples, periodic=False).pow(0.85)
            filters, _ = get_mel_banks(mels, self.fft_size, rate, LOWEST_HZ, 0.0, 100.0, -500.0, 1.0)
            # The highest frequency is in none of the filters.
            self.keep(window, torch.nn.functional.pad(filters, (0, 1)).T.contiguous())

    def values(self, waveforms: torch.Tensor, lengths: torch.Tensor | None) -> torch.Tensor:
        frames = waveforms.unfold(-1, self.window_samples, self.shift_samples)
        frames = frames - frames.mean(-1, keepdim=True)
        previous = torch.cat((frames[..., :1], frames[..., :-1]), dim=-1)
        frames = (frames - PREEMPHASIS * previous) * self.window.float()
        power = torch.fft.rfft(frames, n=self.fft_size).abs().square()
        return (power @ self.filters.float()).clamp(min=FLOOR).log()

    def used_frames(self, lengths: torch.Tensor) -> torch.Tensor:
        """A row shorter than a window has one."""
        return ((lengths - self.window_samples) // self.shift_samples + 1).clamp(min=1)


def finish(values: torch.Tensor, deltas: int, normalize: bool, used: torch.Tensor | None) -> torch.Tensor:
    """Deltas beside the values [batch, frames, values], normalised over time; what is not `used` becomes zero."""
    orders = [values]
    for _ in range(deltas):
        orders.append(delta(orders[-1], used))
    values = torch.cat(orders, dim=-1) if deltas else values
    if normalize:
        return normalized(values, used)
    return values if used is None else values * _is_used(values, used)


def delta(values: torch.Tensor, used: torch.Tensor | None) -> torch.Tensor:
    """The slope over time, by regression over two frames on either side; the first and the last frame are repeated."""
    frames = values.shape[1]
    places = torch.arange(-DELTA_REACH, frames + DELTA_REACH, device=values.device).clamp(min=0)
    if used is None:
        longer = values[:, places.clamp(max=frames - 1)]
    else:
        within = torch.minimum(places[None], used[:, None].to(values.device) - 1)
        longer = torch.take_along_dim(values, within[..., None], dim=1)
    total: Any = 0.0
    for distance in range(1, DELTA_REACH + 1):
        later = longer[:, DELTA_REACH + distance : DELTA_REACH + distance + frames]
        earlier = longer[:, DELTA_REACH - distance : DELTA_REACH - distance + frames]
        total = total + distance * (later - earlier)
    return total / (2 * sum(distance**2 for distance in range(1, DELTA_REACH + 1)))


def normalized(values: torch.Tensor, used: torch.Tensor | None) -> torch.Tensor:
    """Mean 0 and spread 1 over the used frames of each row, for each value."""
    if used is None:
        count: Any = values.shape[1]
        centred = values - values.mean(dim=1, keepdim=True)
        freedom: Any = max(1, count - 1)
    else:
        mask = _is_used(values, used)
        count = used[:, None, None].to(values.device)
        centred = (values - (values * mask).sum(dim=1, keepdim=True) / count) * mask
        freedom = (count - 1).clamp(min=1)
    spread = (centred.square().sum(dim=1, keepdim=True) / freedom).sqrt()
    return centred / (spread + TINY)


def _is_used(values: torch.Tensor, used: torch.Tensor) -> torch.Tensor:
    frames = torch.arange(values.shape[1], device=values.device)
    return (frames[None] < used[:, None].to(values.device))[..., None]
