"""Stand-in for a trained tokenizer, for models built with random weights.

A tokenizer is trained, like the weights, and comes in the same download. A model that is built from its
architecture alone has neither, yet its timed region ends with text. `PlaceholderTokens` closes that gap: each
token is written as a numbered piece (`t17`), so what comes out looks like a transcript in shape and length and
can never be mistaken for one. Decoding is inside the timed region, so it is one list lookup a token.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["PlaceholderTokens"]


class PlaceholderTokens:
    """Numbered pieces behind the one tokenizer method that SpeechBrain's ASR models call.

    >>> PlaceholderTokens(1000).decode_ids([5, 17, 999])
    't5 t17 t999'
    """

    def __init__(self, vocabulary_size: int) -> None:
        """Prepare the pieces `t0` to `t<vocabulary_size - 1>` once, so that decoding formats nothing."""
        self._pieces = [f"t{number}" for number in range(vocabulary_size)]

    def __len__(self) -> int:
        return len(self._pieces)

    def decode_ids(self, ids: Iterable[int]) -> str:
        """Text for a sequence of token numbers; one outside the vocabulary is an IndexError."""
        pieces = self._pieces
        return " ".join([pieces[number] for number in ids])
