"""Tasks that models of several libraries share: CTC on frames, cross entropy on a decoder, the transducer's lattice."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from profiler.errors import ModelError
from profiler.training.task import Outputs, Task

if TYPE_CHECKING:
    from profiler.models.model import Model
    from profiler.recipe.schema import Training
    from profiler.training.targets import Targets

HEAD = "ctc_head"
TRIAL_SECONDS = 1.0
Encode = Callable[[Any], tuple[Any, Any]]  # what `prepare` gives -> values [B, T, C], frames of each row


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
        return trial(model, width)
    except TrialFailed as error:
        raise ModelError(f"The model cannot be trained: {error}") from error
