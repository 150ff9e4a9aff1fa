"""What a model brings to be trained with a loss: the same for every library, so that one step trains all of them.

Targets are the tokens that a batch is trained on. Their lengths are real or speech-like, the tokens themselves are
random: what a token is does not change what a step costs; how many there are does. Tasks that models of several
libraries share are here: CTC on frames, cross entropy on a decoder, the transducer's lattice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from profiler.errors import ModelError

if TYPE_CHECKING:
    import torch

    from profiler.models.model import Model
    from profiler.recipe.schema import Training

HEAD = "ctc_head"
TRIAL_SECONDS = 1.0
Encode = Callable[[Any], tuple[Any, Any]]  # what `prepare` gives -> values [B, T, C], frames of each row


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
        """Raise ModelError where a row has more tokens than there is room for: `frames` is a number, or one per row."""
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
    import numpy as np
    import torch

    chance = np.random.default_rng(seed)
    width = max(1, *lengths)
    steps = chance.integers(1, max(2, len(allowed)), size=(len(lengths), width))
    tokens = allowed.start + steps.cumsum(axis=1) % len(allowed)
    for row, length in zip(tokens, lengths, strict=True):
        row[length:] = allowed.start
    return Targets(torch.from_numpy(tokens).to(device), torch.tensor(list(lengths)), names)


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


def ctc(encode: Encode, vocabulary: int, blank: int = 0) -> Task:
    """CTC on the scores that a model gives for each frame."""
    from profiler.training import losses

    def forward(value: Any, targets: Targets) -> Outputs:
        return Outputs(*encode(value))

    return Task("CTC", f"{losses.TORCH} (ctc_loss)", forward, losses.CTC(blank), ordinary_tokens(vocabulary, blank))


def ctc_with_head(encode: Encode, width: int, settings: Training, device: str) -> Task:
    """CTC on hidden states: a linear output layer is added, the first of its tokens is the blank."""
    import torch

    head = torch.nn.Linear(width, settings.vocabulary, device=device)

    def encode_to_scores(value: Any) -> tuple[Any, Any]:
        states, frames = encode(value)
        return head(states), frames

    task = ctc(encode_to_scores, settings.vocabulary)
    task.heads[HEAD] = head
    task.notes.append(
        f"The model has no output layer for tokens: a linear one ({HEAD}, {width} to {settings.vocabulary}) is trained "
        "with it."
    )
    return task


def cross_entropy(
    decode: Callable[[Any, Any], tuple[Any, Any]], start: int, end: int, tokens: range, most: int | None = None
) -> Task:
    """Cross entropy on a decoder: `decode(value, tokens with the start)` gives scores [B, U + 1, V], and frames."""
    from profiler.training import losses

    def forward(value: Any, targets: Targets) -> Outputs:
        return Outputs(*decode(value, losses.with_start(targets, start)))

    return Task(
        "cross entropy",
        f"{losses.TORCH} (cross_entropy)",
        forward,
        losses.CrossEntropy(end),
        tokens,
        most_tokens=most,
        per_frame=False,
    )


def joined(attention: Task, encode: Encode, head: Any, blank: int) -> Task:
    """Cross entropy on a decoder and CTC on the encoder's frames together. The encoder runs for each of them."""
    from profiler.training import losses

    def forward(value: Any, targets: Targets) -> Outputs:
        states, frames = encode(value)
        return Outputs((head(states), attention.forward(value, targets)), frames)

    name = f"{losses.CTC_SHARE:g} CTC + {1 - losses.CTC_SHARE:g} cross entropy"
    loss = losses.Joined(losses.CTC(blank), attention.loss)
    note = "The encoder runs once for the decoder and once for the CTC head."
    return Task(name, losses.TORCH, forward, loss, attention.tokens, notes=[*attention.notes, note])


def transducer(
    join: Callable[[Any, Any, Any], tuple[Any, Any]], vocabulary: int, blank: int, settings: Training, device: str
) -> Task:
    """The whole lattice: `join(value, tokens after a blank, their number)` gives [B, T, U + 1, V], and frames."""
    from profiler.training import losses

    library = losses.choose_library(settings.transducer_library, device)

    def forward(value: Any, targets: Targets) -> Outputs:
        return Outputs(*join(value, losses.with_start(targets, blank), targets.lengths + 1))

    return Task(
        "transducer, whole lattice",
        losses.library_name(library),
        forward,
        losses.Transducer(blank, library),
        ordinary_tokens(vocabulary, blank),
        per_frame=False,
    )


def ordinary_tokens(vocabulary: int, *special: int | None) -> range:
    """The longest run of tokens of which none is special, such as the blank or the ends of a sentence."""
    bounds = sorted({-1, vocabulary, *(each for each in special if each is not None and 0 <= each < vocabulary)})
    start, stop = max(pairwise(bounds), key=lambda pair: pair[1] - pair[0])
    if stop - start < 2:
        raise ModelError(f"The model has no ordinary tokens to learn: its vocabulary has {vocabulary}.")
    return range(start + 1, stop)


def frames_by_share(lengths: Any, samples: int, frames: int) -> Any:
    """Of so many frames those that are audio, where rows have so many samples of it: rounded, at least one."""
    import torch

    shares = torch.as_tensor(lengths).cpu().double() / samples
    return torch.round(shares * frames).long().clamp(min=1, max=frames)


def frames_of_output(output: Any) -> Any:
    """The tensor [batch, frames, values] of whatever a module gives."""
    import torch

    if isinstance(output, dict):
        output = list(output.values())
    if isinstance(output, (list, tuple)):
        output = next((part for part in output if isinstance(part, torch.Tensor) and part.dim() == 3), None)
    if not isinstance(output, torch.Tensor) or output.dim() != 3:
        shape = list(output.shape) if isinstance(output, torch.Tensor) else type(output).__name__
        raise ModelError(f"CTC needs an output of the shape [batch, frames, values], and the model gives {shape}")
    return output


def output_width(model: Model, encode: Callable[[Any], Any] | None = None) -> int:
    """How many values a frame of the model's output, or of `encode`'s, has; seen in a trial."""
    from profiler.audio import Speech
    from profiler.processes import TrialFailed, trial

    value = model.prepare(Speech(None, model.rate).batch(TRIAL_SECONDS, 1, seed=0))

    def width() -> int:
        import torch

        torch.set_num_threads(1)  # as the worker has it; the fork of a process that used several would hang with more
        with torch.no_grad():
            return int(frames_of_output((encode or model.run)(value)).shape[2])

    try:
        return trial(model, width, int)
    except TrialFailed as error:
        raise ModelError(f"The model cannot be trained: {error}") from error
