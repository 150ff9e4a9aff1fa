"""Targets: tokens that a batch is trained on. Their lengths are real or speech-like, the tokens themselves are random.

What a token is does not change what a step costs; how many there are does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from profiler.errors import ModelError

if TYPE_CHECKING:
    import torch


@dataclass
class Targets:
    """Rows of tokens, padded with the first allowed one; `lengths` says how many of each row there are."""

    tokens: torch.Tensor  # [batch, tokens]
    lengths: torch.Tensor  # [batch], in memory of the CPU
    names: list[str]  # of the rows, for messages
    seconds: float = 0.0  # of audio in the batch, without padding
    fits: bool = False  # set once they were seen to fit what the model makes of their audio

    @property
    def total(self) -> int:
        return int(self.lengths.sum())

    def refuse_longer(self, frames: Any, what: str = "frames that the model makes of their audio") -> None:
        """Raise ModelError where a row has more tokens than there is room for: `frames` is a number, or one a row."""
        if self.fits:
            return
        rooms = frames.tolist() if hasattr(frames, "tolist") else [frames] * len(self.names)
        for name, tokens, room in zip(self.names, self.lengths.tolist(), rooms, strict=True):
            if tokens > room:
                raise ModelError(
                    f"the target of {name} is too long: {tokens} tokens, and there are {room} {what}; "
                    "lower training.targets_per_second, or fix the data set"
                )
        self.fits = True


def make_targets(lengths: Sequence[int], allowed: range, seed: int, device: str, names: list[str]) -> Targets:
    """Random tokens of these lengths. No two neighbours are alike: CTC would need one more frame for each such pair."""
    import torch

    chance = np.random.default_rng(seed)
    width = max(1, *lengths)
    steps = chance.integers(1, max(2, len(allowed)), size=(len(lengths), width))
    tokens = allowed.start + steps.cumsum(axis=1) % len(allowed)
    for row, length in zip(tokens, lengths, strict=True):
        row[length:] = allowed.start
    return Targets(torch.from_numpy(tokens).to(device), torch.tensor(list(lengths)), names)


def lengths_for(seconds: Sequence[float], per_second: float) -> list[int]:
    """As many tokens as speech of these lengths has, at least one."""
    return [max(1, round(each * per_second)) for each in seconds]
