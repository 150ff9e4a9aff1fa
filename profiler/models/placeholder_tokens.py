"""Stand-in for a trained tokenizer, for models built with random weights.

A tokenizer is trained, like the weights, and comes in the same download. A model that is built from its architecture
alone has neither, yet its timed region ends with text. Each token is written as a numbered piece (`t17`), so what comes
out looks like a transcript in shape and length and can never be mistaken for one.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["PlaceholderTokens"]


class PlaceholderTokens:
    """The one tokenizer method that SpeechBrain's ASR models call: decode_ids([5, 17]) is 't5 t17'."""

    def __init__(self, vocabulary_size: int) -> None:
        # Made once: decoding is in the timed region, and looks each token up.
        self._pieces = [f"t{number}" for number in range(vocabulary_size)]

    def decode_ids(self, ids: Iterable[int]) -> str:
        """Text for a sequence of token numbers; one outside the vocabulary is an IndexError."""
        return " ".join([self._pieces[number] for number in ids])
