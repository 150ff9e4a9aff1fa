"""What SpeechBrain's searches need here: a pinned number of steps, placeholder labels, search by CTC alone.

Untrained weights never end a sentence by themselves: the search would run to its cap, one step per frame, several times
as many as on speech. So it takes as many steps as speech of that length would need.
"""

from __future__ import annotations

import math
from typing import Any

from profiler.errors import ModelError


class PinnedSteps:
    """The searchers of an interface, held to a number of steps; set `seconds` before each call."""

    def __init__(self, interface: Any, tokens_per_second: float) -> None:
        self.tokens_per_second = tokens_per_second
        self.seconds = 0.0
        self.searchers = [
            module
            for module in interface.modules()
            if hasattr(module, "min_decode_ratio") and hasattr(module, "max_decode_ratio")
        ]
        for searcher in self.searchers:
            searcher.register_forward_pre_hook(self._pin)
            if hasattr(searcher, "max_attn_tokens"):
                # Of Whisper. SpeechBrain reads max_length, and transformers 4 says 20 where config.json has none.
                searcher.max_attn_tokens = searcher.model.model.decoder.config.max_target_positions
            if not _is_beam_search(searcher):
                _forbid_ending(searcher)

    def _pin(self, searcher: Any, arguments: tuple[Any, ...]) -> None:
        frames = arguments[0].shape[1]
        steps = max(1, math.ceil(self.seconds * self.tokens_per_second))
        scorer = getattr(searcher, "scorer", None)
        by_ctc = scorer is not None and "ctc" in {**scorer.full_scorers, **scorer.partial_scorers}
        if steps > frames and by_ctc:  # SpeechBrain would fail on an index, deep in its scorer
            raise ModelError(
                f"CTC writes at most one token a frame, and {steps} steps are more than the {frames} frames of "
                f"{self.seconds:g} s: lower pretrained_model.tokens_per_second ({self.tokens_per_second:g})"
            )
        # The searcher truncates ratio x frames to whole steps: half a step more keeps rounding from losing one.
        searcher.max_decode_ratio = (steps + 0.5) / frames
        # Greedy search has no lower limit: it starts counting at this ratio.
        searcher.min_decode_ratio = searcher.max_decode_ratio if _is_beam_search(searcher) else 0.0


def _is_beam_search(searcher: Any) -> bool:
    return hasattr(searcher, "beam_size")


def _forbid_ending(searcher: Any) -> None:
    """Greedy search ends when all rows have ended, whatever its lower limit: make that token impossible."""
    original = searcher.forward_step

    def forward_step(*arguments: Any, **more: Any) -> Any:
        logits, *rest = original(*arguments, **more)
        logits[..., searcher.eos_index] = -math.inf
        return (logits, *rest)

    searcher.forward_step = forward_step


NOTE = (
    "With CTC weight 1 SpeechBrain's search adds the scores of all earlier steps to each step's own; here every step "
    "starts from zero."
)


def start_steps_from_zero(interface: Any) -> list[str]:
    """Change the searchers of an interface that run on CTC alone; returns what to note about it."""

    def from_zero(original: Any) -> Any:
        return lambda *given: original(*given[:-1], given[-1].new_zeros(given[-1].shape))

    notes = []
    for module in interface.modules():
        if hasattr(module, "_attn_weight_step") and getattr(module, "attn_weight", None) == 0:
            module._attn_weight_step = from_zero(module._attn_weight_step)
            notes = [NOTE]
    return notes


class PlaceholderLabels:
    """Numbered classes behind the one method of a label encoder that SpeechBrain's classifiers call."""

    def decode_torch(self, indices: Any) -> list[str]:
        """A name for each of a row of class numbers, which is what a classifier finds for a batch."""
        return [f"class {int(index)}" for index in indices]
