"""Losses as modules, so that a breakdown can label them: loss(outputs, targets) -> the mean over the rows of a batch.

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
from profiler.training import lattice
from profiler.training.targets import Targets
from profiler.training.task import Outputs

IGNORED = -100  # in place of a token that is not there
TORCH = f"torch {torch.__version__}"
OWN = f"{TORCH}, plain operations of the profiler's own"
INSTALL = 'pip install "speech-profiler[transducer]"'
# How much of the simple loss is in the sum, as in the recipes that the pruned loss comes from.
SIMPLE_SCALE = 0.5
WINDOW = 5  # tokens that the pruned lattice keeps in each frame


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


def with_start(targets: Targets, start: int) -> torch.Tensor:
    """What a decoder is given: the start of a sentence, then its tokens."""
    return functional.pad(targets.tokens, (1, 0), value=start)


def with_end(targets: Targets, end: int) -> torch.Tensor:
    """What it has to say: the tokens, then the end; what follows is ignored."""
    place = torch.arange(targets.tokens.shape[1] + 1, device=targets.tokens.device)
    lengths = targets.lengths.to(targets.tokens.device)[:, None]
    wanted = functional.pad(targets.tokens, (0, 1), value=end)
    return wanted.masked_fill(place == lengths, end).masked_fill(place > lengths, IGNORED)


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
            found = _steps(chosen, targets.tokens, self.blank)
            return lattice.cost(*found, frames, lengths)[0].mean()
        tokens, frames, lengths = targets.tokens.int(), frames.int(), lengths.int()
        if self.library == "warprnnt_numba":
            from warprnnt_numba.rnnt_loss.rnnt_pytorch import rnnt_loss

            # It takes a mean of its own, of the shape [1].
            return rnnt_loss(scores, tokens, frames, lengths, blank=self.blank, reduction="mean").squeeze()
        from torchaudio.functional import rnnt_loss

        return rnnt_loss(scores, tokens, frames, lengths, blank=self.blank, reduction="mean")


def _steps(scores: Any, tokens: Any, blank: int) -> tuple[Any, Any]:
    """Log probabilities of the blank at each place, and of the token that comes next."""
    following = tokens[:, None, :, None].expand(-1, scores.shape[1], -1, 1)
    return scores[..., blank], scores[:, :, :-1].gather(3, following)[..., 0]


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
        costs, likely = lattice.cost(step, token, frames, targets.lengths.to(frames.device))
        return costs.mean(), likely


class Pruned(torch.nn.Module):
    """The lattice of the real joiner in a window of each frame: scores [B, T, window, V] from `begin` on."""

    def forward(self, scores: Any, begin: Any, targets: Targets, frames: Any, blank: int) -> Any:
        places = targets.tokens.shape[1] + 1
        chosen = functional.log_softmax(scores.float(), -1)
        at = begin[:, :, None] + torch.arange(scores.shape[2], device=scores.device)
        # At the last place there is no further token; whatever stands there is cut off below.
        following = functional.pad(targets.tokens, (0, 1)).gather(1, at.flatten(1)).view_as(at)
        token = lattice.spread(chosen.gather(3, following[..., None])[..., 0], begin, places)[..., :-1]
        blanks = lattice.spread(chosen[..., blank], begin, places)
        return lattice.cost(blanks, token, frames, targets.lengths.to(frames.device))[0].mean()


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
        begin = lattice.windows(likely, frames, targets.lengths.to(frames.device), width)
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
