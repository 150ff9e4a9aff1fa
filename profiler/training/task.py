"""What a model brings to be trained with a loss: the same for every library, so that one step trains all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import torch

    from profiler.training.targets import Targets

Loss = Literal["ctc", "cross_entropy", "hybrid", "transducer", "pruned_transducer"]


@dataclass
class Outputs:
    """What the forward pass gives: the values that the loss takes, and how many frames of each row are audio."""

    values: Any
    frames: torch.Tensor  # [batch], in memory of the CPU


@dataclass
class Task:
    """A model with a loss. `forward` takes what the model's `prepare` gives; `loss` takes its outputs, and targets."""

    name: str  # of the loss, as the tables say it
    library: str  # whose code computes it
    forward: Callable[[Any, Targets], Outputs]
    loss: torch.nn.Module
    tokens: range  # that a target may hold: not the blank, not the ends of a sentence
    heads: dict[str, torch.nn.Module] = field(default_factory=dict)  # layers that are there for training alone
    most_tokens: int | None = None  # of a target, where a decoder has so many positions
    per_frame: bool = True  # each token needs a frame
    notes: list[str] = field(default_factory=list)
