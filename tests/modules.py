"""Modules of known behaviour, for recipes with `type: Module`: tests copy this file beside the recipe."""

from __future__ import annotations

import os
import signal
import threading
import time

import torch


class Nothing(torch.nn.Module):
    """Does nothing."""

    def forward(self, waveforms: torch.Tensor) -> torch.Tensor:
        return waveforms


class Sleeper(torch.nn.Module):
    """Takes a time that is known: so long for each second of audio in the batch."""

    def __init__(self, per_second: float = 0.01, fixed: float = 0.0) -> None:
        super().__init__()
        self.per_second = per_second
        self.fixed = fixed

    def forward(self, waveforms: torch.Tensor) -> torch.Tensor:
        time.sleep(self.fixed + self.per_second * waveforms.numel() / 16000)
        return waveforms


class Trouble(Sleeper):
    """Works, except for audio of `at` seconds: then it does `what`."""

    def __init__(self, what: str, at: float, per_second: float = 0.01) -> None:
        super().__init__(per_second)
        self.what = what
        self.samples = round(at * 16000)

    def forward(self, waveforms: torch.Tensor) -> torch.Tensor:
        if waveforms.shape[1] == self.samples:
            if self.what == "raise":
                raise RuntimeError("the model does not like this length")
            if self.what == "hang":
                time.sleep(3600)
            if self.what == "memory":
                self.hoard = [torch.ones(1 << 24) for _ in range(4096)]
            os.kill(os.getpid(), getattr(signal, self.what))
        return super().forward(waveforms)


class Hungry(torch.nn.Module):
    """Holds a known number of megabytes of tensors for each second of audio in the batch, then frees them."""

    def __init__(self, megabytes_per_second: float = 100.0) -> None:
        super().__init__()
        self.megabytes_per_second = megabytes_per_second

    def forward(self, waveforms: torch.Tensor) -> torch.Tensor:
        size = int(self.megabytes_per_second * 1e6 * waveforms.numel() / 16000 / 4)
        torch.ones(size)
        return waveforms


class Caching(torch.nn.Module):
    """Answers an input it has just seen from memory."""

    def forward(self, waveforms: torch.Tensor) -> torch.Tensor:
        if getattr(self, "seen", None) is not waveforms:
            time.sleep(0.02)
        else:
            time.sleep(0.002)
        self.seen = waveforms
        return waveforms


class Threaded(torch.nn.Module):
    """Computes in a thread of its own."""

    def forward(self, waveforms: torch.Tensor) -> torch.Tensor:
        kept: list[torch.Tensor] = []
        thread = threading.Thread(target=lambda: kept.append(waveforms * 2))
        thread.start()
        thread.join()
        return kept[0]
