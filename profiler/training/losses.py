"""Losses as modules, so that a breakdown can label them: loss(outputs, targets) -> the mean over the rows of a batch.

The transducer's lattice, in plain torch, is the probability of the target over all ways to say it in the frames. A way
begins at frame 0 with no token said and ends with a blank at the last frame with all of them said. At each place
(frame, tokens said) it goes on with a blank to the next frame or with a token to the next place of the same frame. All
places of a frame are computed at once, as a running sum; frames come one after another. Gradients are the probabilities
of the steps, worked out in the same pass, so that autograd sees one operation.

Imports torch: for use in a worker.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
from typing import Any

import torch
from torch.nn import functional

from profiler.errors import ModelError
from profiler.training.tasks import Outputs, Targets

IMPOSSIBLE = -1e4  # a log probability that no path of real ones comes near
IGNORED = -100  # in place of a token that is not there
TORCH = f"torch {torch.__version__}"
OWN = f"{TORCH}, plain operations of the profiler's own"
INSTALL = 'pip install "speech-profiler[transducer]"'
# How much of the simple loss is in the sum, as in the recipes that the pruned loss comes from.
SIMPLE_SCALE = 0.5
CTC_SHARE = 0.3  # of the CTC loss beside a decoder's, as recipes of such models have it
WINDOW = 5  # tokens that the pruned lattice keeps in each frame


class Lattice(torch.autograd.Function):
    """blank [B, T, U + 1], token [B, T, U], frames [B], tokens [B] -> costs [B], and how likely each step is taken."""

    @staticmethod
    def forward(context: Any, blank: Any, token: Any, frames: Any, tokens: Any) -> Any:
        total, by_blank, by_token = _solve(blank.detach().double(), token.detach().double(), frames, tokens)
        context.save_for_backward(by_blank.to(blank.dtype), by_token.to(token.dtype))
        likely = by_blank + functional.pad(by_token, (0, 1))
        context.mark_non_differentiable(likely)
        return -total.to(blank.dtype), likely

    @staticmethod
    def backward(context: Any, costs: Any, likely: Any) -> Any:
        by_blank, by_token = context.saved_tensors
        scale = costs[:, None, None]
        return -by_blank * scale, -by_token * scale, None, None


def cost(blank: Any, token: Any, frames: Any, tokens: Any) -> tuple[Any, Any]:
    """Minus the log probability of each row, and how likely each place is part of the way that was taken."""
    found: tuple[Any, Any] = Lattice.apply(blank, token, frames, tokens)
    return found


def _solve(blank: Any, token: Any, frames: Any, tokens: Any) -> tuple[Any, Any, Any]:
    size, length, places = blank.shape
    to_here = _sweep(_begin(blank.new_zeros(size), places), functional.pad(blank, (0, 0, 1, 0))[:, :length], token)
    # The way back is the same sweep over each row turned around, its last frame and token first.
    frame = torch.arange(length, device=blank.device)
    place = torch.arange(places, device=blank.device)
    at_frame = (frames[:, None] - 1 - frame).clamp(min=0)  # [B, T]
    at_place = (tokens[:, None] - place).clamp(min=0)  # [B, U + 1]
    turned_blank = _taken(blank, at_frame, at_place)
    turned_token = _taken(token, at_frame, (at_place[:, :-1] - 1).clamp(min=0)) if places > 1 else token
    from_end = _sweep(_begin(turned_blank[:, 0, 0], places), turned_blank, turned_token)
    inside = (frame < frames[:, None])[:, :, None] & (place <= tokens[:, None])[:, None, :]
    from_here = _taken(from_end, at_frame, at_place).masked_fill(~inside, -torch.inf)
    total = from_end.gather(1, (frames - 1)[:, None, None].expand(-1, 1, places))[:, 0]
    total = total.gather(1, tokens[:, None])[:, 0]
    after = functional.pad(from_here[:, 1:], (0, 0, 0, 1), value=-torch.inf)
    ends = (frame == frames[:, None] - 1)[:, :, None] & (place == tokens[:, None])[:, None, :]
    after = after.masked_fill(ends, 0.0)
    by_blank = _likely(to_here + blank + after - total[:, None, None], inside)
    by_token = _likely(to_here[..., :-1] + token + from_here[..., 1:] - total[:, None, None], inside[..., 1:])
    return total, by_blank, by_token


def _begin(start: Any, places: int) -> Any:
    return functional.pad(start[:, None], (0, places - 1), value=-torch.inf)


def _sweep(first: Any, stay: Any, move: Any) -> Any:
    """Log sums over all ways to each place: `stay` leads into a frame, `move` from place to place in it."""
    said = functional.pad(move.cumsum(-1), (1, 0))
    rows: list[Any] = []
    for frame in range(stay.shape[1]):
        row = rows[-1] + stay[:, frame] if rows else first
        rows.append(said[:, frame] + torch.logcumsumexp(row - said[:, frame], -1))
    return torch.stack(rows, 1)


def _taken(values: Any, at_frame: Any, at_place: Any) -> Any:
    by_frame = values.gather(1, at_frame[:, :, None].expand(-1, -1, values.shape[2]))
    return by_frame.gather(2, at_place[:, None, :].expand(-1, by_frame.shape[1], -1))


def _likely(log: Any, inside: Any) -> Any:
    return log.masked_fill(~inside, -torch.inf).exp()


def windows(likely: Any, frames: Any, tokens: Any, width: int) -> Any:
    """Where in each frame a window of `width` places begins that holds the most likely ones: [B, T].

    Windows never go back, overlap from frame to frame, begin at the first place and end at the last one, so that a way
    leads through them.
    """
    _, length, places = likely.shape
    width = min(width, places)
    sums = functional.pad(likely.cumsum(-1), (1, 0))
    begin = (sums[..., width:] - sums[..., :-width]).argmax(-1)
    last = (tokens + 1 - width).clamp(min=0)[:, None]
    frame = torch.arange(length, device=likely.device)
    begin = torch.where(frame >= frames[:, None] - 1, last, begin.minimum(last)).cummax(1).values
    if width == 1:
        return begin
    slope = (width - 1) * frame
    begin = (begin - slope).flip(1).cummax(1).values.flip(1) + slope  # raised where the next one lies too far ahead
    return begin.minimum(slope)


def spread(values: Any, begin: Any, places: int) -> Any:
    """Scores of the places in windows [B, T, width] -> of all places [B, T, places]; the others are impossible."""
    everywhere = values.new_full((*values.shape[:2], places), IMPOSSIBLE)
    return everywhere.scatter(2, begin[:, :, None] + torch.arange(values.shape[2], device=values.device), values)


class CTC(torch.nn.Module):
    """Scores of tokens for each frame [B, T, V]; the blank is one of them."""

    def __init__(self, blank: int) -> None:
        super().__init__()
        self.blank = blank

    def forward(self, outputs: Outputs, targets: Targets) -> torch.Tensor:
        scores = functional.log_softmax(outputs.values.float(), -1).transpose(0, 1)
        return functional.ctc_loss(scores, targets.tokens, outputs.frames, targets.lengths, self.blank)


class CrossEntropy(torch.nn.Module):
    """Scores of tokens for each step of a decoder [B, U + 1, V], that was given the target up to there."""

    def __init__(self, end: int) -> None:
        super().__init__()
        self.end = end

    def forward(self, outputs: Outputs, targets: Targets) -> torch.Tensor:
        wanted = with_end(targets, self.end)
        return functional.cross_entropy(outputs.values.float().flatten(0, 1), wanted.flatten(), ignore_index=IGNORED)


class Joined(torch.nn.Module):
    """Both losses of a model with a CTC head and a decoder, from the scores of both."""

    def __init__(self, ctc: CTC, attention: torch.nn.Module) -> None:
        super().__init__()
        self.ctc, self.attention = ctc, attention

    def forward(self, outputs: Outputs, targets: Targets) -> torch.Tensor:
        by_frame, decoded = outputs.values
        found = self.ctc(Outputs(by_frame, outputs.frames), targets)
        return CTC_SHARE * found + (1 - CTC_SHARE) * self.attention(decoded, targets)  # type: ignore[no-any-return]


def with_start(targets: Targets, start: int) -> torch.Tensor:
    """What a decoder is given: the start of a sentence, then its tokens."""
    return functional.pad(targets.tokens, (1, 0), value=start)


def with_end(targets: Targets, end: int, ignored: int = IGNORED) -> torch.Tensor:
    """What it has to say: the tokens, then the end; what follows is ignored."""
    place = torch.arange(targets.tokens.shape[1] + 1, device=targets.tokens.device)
    lengths = targets.lengths.to(targets.tokens.device)[:, None]
    wanted = functional.pad(targets.tokens, (0, 1), value=end)
    return wanted.masked_fill(place == lengths, end).masked_fill(place > lengths, ignored)


class Transducer(torch.nn.Module):
    """Scores of tokens for each place of the lattice [B, T, U + 1, V], by the library that `library` names."""

    def __init__(self, blank: int, library: str) -> None:
        super().__init__()
        self.blank = blank
        self.library = library

    def forward(self, outputs: Outputs, targets: Targets) -> torch.Tensor:
        scores = outputs.values.float()
        frames, lengths = outputs.frames.to(scores.device), targets.lengths.to(scores.device)
        if self.library == "torch":
            chosen = functional.log_softmax(scores, -1)
            following = targets.tokens[:, None, :, None].expand(-1, scores.shape[1], -1, 1)
            token = chosen[:, :, :-1].gather(3, following)[..., 0]
            return cost(chosen[..., self.blank], token, frames, lengths)[0].mean()
        tokens, frames, lengths = targets.tokens.int(), frames.int(), lengths.int()
        if self.library == "warprnnt_numba":
            from warprnnt_numba.rnnt_loss.rnnt_pytorch import rnnt_loss

            # It takes a mean of its own, of the shape [1].
            return rnnt_loss(scores, tokens, frames, lengths, blank=self.blank, reduction="mean").squeeze()
        from torchaudio.functional import rnnt_loss

        return rnnt_loss(scores, tokens, frames, lengths, blank=self.blank, reduction="mean")


class Simple(torch.nn.Module):
    """The lattice where a score is the sum of one by frame [B, T, V] and one by place [B, U + 1, V].

    Nothing of the size of the whole joint is made: sums over the vocabulary are a product of matrices.
    """

    def forward(self, by_frame: Any, by_place: Any, targets: Targets, frames: Any, blank: int) -> tuple[Any, Any]:
        by_frame, by_place = by_frame.float(), by_place.float()
        top_frame, top_place = by_frame.amax(-1, keepdim=True), by_place.amax(-1, keepdim=True)
        product = (by_frame - top_frame).exp() @ (by_place - top_place).exp().transpose(1, 2)
        whole = product.log() + top_frame + top_place.transpose(1, 2)  # [B, T, U + 1]
        said = targets.tokens[:, None].expand(-1, by_frame.shape[1], -1)
        at_place = by_place[:, :-1].gather(2, targets.tokens[:, :, None])[..., 0]
        token = by_frame.gather(2, said) + at_place[:, None] - whole[..., :-1]
        step = by_frame[..., blank, None] + by_place[:, None, :, blank] - whole
        costs, likely = cost(step, token, frames, targets.lengths.to(frames.device))
        return costs.mean(), likely


class Pruned(torch.nn.Module):
    """The lattice of the real joiner in a window of each frame: scores [B, T, window, V] from `begin` on."""

    def forward(self, scores: Any, begin: Any, targets: Targets, frames: Any, blank: int) -> Any:
        places = targets.tokens.shape[1] + 1
        chosen = functional.log_softmax(scores.float(), -1)
        at = begin[:, :, None] + torch.arange(scores.shape[2], device=scores.device)
        # At the last place there is no further token; whatever stands there is cut off below.
        following = functional.pad(targets.tokens, (0, 1)).gather(1, at.flatten(1)).view_as(at)
        token = spread(chosen.gather(3, following[..., None])[..., 0], begin, places)[..., :-1]
        blanks = spread(chosen[..., blank], begin, places)
        return cost(blanks, token, frames, targets.lengths.to(frames.device))[0].mean()


class PrunedTransducer(torch.nn.Module):
    """Simple and pruned loss together: the first says where the second has to look.

    `outputs.values` are the encoder's and the decoder's vectors; `projections` make scores of each of them for the
    simple loss; `joiner` makes scores of pairs of them.
    """

    def __init__(self, projections: tuple[Any, Any], joiner: Any, blank: int, window: int = WINDOW) -> None:
        super().__init__()
        self.simple, self.pruned = Simple(), Pruned()
        self.blank, self.window = blank, window
        # They are parts of the model, under their own names: not to be listed here once more.
        self._parts = (*projections, joiner)

    def forward(self, outputs: Outputs, targets: Targets) -> torch.Tensor:
        by_frame, by_place = outputs.values
        project_frame, project_place, joiner = self._parts
        frames = outputs.frames.to(by_frame.device)
        simple, likely = self.simple(project_frame(by_frame), project_place(by_place), targets, frames, self.blank)
        width = min(self.window, by_place.shape[1])
        begin = windows(likely, frames, targets.lengths.to(frames.device), width)
        at = (begin[:, :, None] + torch.arange(width, device=begin.device)).flatten(1)
        near = by_place.gather(1, at[:, :, None].expand(-1, -1, by_place.shape[2]))
        scores = joiner(by_frame[:, :, None], near.unflatten(1, (-1, width)))
        pruned = self.pruned(scores, begin, targets, frames, self.blank)
        return SIMPLE_SCALE * simple + pruned


def choose_library(wanted: str, device: str) -> str:
    """The transducer loss that is run: what the recipe says, or the first that is there and usable on the device."""
    if wanted == "warprnnt_numba" and not has_warprnnt():
        raise ModelError(f"training.transducer_library: warprnnt_numba is not installed. Install it: {INSTALL}")
    if wanted == "torchaudio" and not has_native_torchaudio():
        raise ModelError(
            "training.transducer_library: torchaudio's loss needs its native library, which does not load here (its "
            "packages are made for CUDA); leave it at auto"
        )
    if wanted != "auto":
        return wanted
    if has_native_torchaudio():
        return "torchaudio"
    # On a CPU warprnnt_numba goes from place to place in Python: minutes for a batch that takes milliseconds here.
    return "warprnnt_numba" if device.startswith("cuda") and has_warprnnt() else "torch"


def has_warprnnt() -> bool:
    return all(importlib.util.find_spec(name) is not None for name in ("warprnnt_numba", "numba"))


def has_native_torchaudio() -> bool:
    """Whether torchaudio runs on its library: one that it refused may be loaded all the same, with its operators."""
    running = getattr(sys.modules.get("torchaudio._extension"), "_IS_TORCHAUDIO_EXT_AVAILABLE", False)
    # The second name is that of torchaudio 2.9 and later.
    return running and any(hasattr(torch.ops.torchaudio, name) for name in ("rnnt_loss", "rnnt_loss_forward"))


def library_name(library: str) -> str:
    """'torchaudio 2.11.0', as the results name it."""
    if library == "torch":
        return OWN
    package = library.replace("_", "-")
    return f"{package} {importlib.metadata.version(package)}"
