"""The transducer's lattice in plain torch: the probability of the target, over all ways to say it in the frames.

A way begins at frame 0 with no token said and ends with a blank at the last frame with all of them said. At each place
(frame, tokens said) it goes on with a blank to the next frame or with a token to the next place of the same frame. All
places of a frame are computed at once, as a running sum; frames come one after another. Gradients are the probabilities
of the steps, worked out in the same pass, so that autograd sees one operation.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

IMPOSSIBLE = -1e4  # a log probability that no path of real ones comes near


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
