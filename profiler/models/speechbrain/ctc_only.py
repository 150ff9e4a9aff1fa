"""Makes SpeechBrain's beam search with a CTC weight of 1 search by CTC.

With that weight no attention decoder is run, and nothing puts the scores of a step back to zero: SpeechBrain 1.1.2 adds
each step's CTC scores to those of the steps before, of other beams at that, and the text that comes out is nonsense.
"""

from __future__ import annotations

from typing import Any

NOTE = (
    "With CTC weight 1 SpeechBrain's search adds the scores of all earlier steps to each step's own; here every step "
    "starts from zero."
)


def start_steps_from_zero(interface: Any) -> list[str]:
    """Change the searchers of an interface that run on CTC alone; returns what to note about it."""
    searchers = [
        module
        for module in interface.modules()
        if hasattr(module, "_attn_weight_step") and getattr(module, "attn_weight", None) == 0
    ]
    for searcher in searchers:
        _start_from_zero(searcher)
    return [NOTE] if searchers else []


def _start_from_zero(searcher: Any) -> None:
    original = searcher._attn_weight_step

    def attn_weight_step(tokens: Any, memory: Any, states: Any, lengths: Any, attention: Any, scores: Any) -> Any:
        return original(tokens, memory, states, lengths, attention, scores.new_zeros(scores.shape))

    searcher._attn_weight_step = attn_weight_step
