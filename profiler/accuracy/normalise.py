"""Ways to make two texts comparable before words are counted: the same for reference and hypothesis, and named."""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib.metadata import version
from typing import Literal

Normalisation = Literal["none", "basic", "english"]
NORMALISATIONS: tuple[Normalisation, ...] = ("none", "basic", "english")
PACKAGE = "whisper-normalizer"
REMEMBERED = 1 << 15  # texts

SENTENCES = {
    "none": "texts as they are; words are what stands between spaces",
    "basic": "Whisper's basic normaliser: lower case, punctuation and symbols to spaces, no remarks in brackets",
    "english": "Whisper's English normaliser, as the open leaderboards use it: lower case, no punctuation, "
    "contractions written out, numbers as digits, British spelling as American",
}


@functools.cache
def normaliser(name: str) -> Callable[[str], str]:
    """Text -> text; single spaces between words, none around."""
    if name == "none":
        return _spaced
    if name == "basic":
        from whisper_normalizer.basic import BasicTextNormalizer

        normalise = BasicTextNormalizer()
    else:
        from whisper_normalizer.english import EnglishTextNormalizer

        normalise = EnglishTextNormalizer()
    # Every variant is compared with the same references.
    return functools.lru_cache(REMEMBERED)(lambda text: _spaced(normalise(text)))


def made_by(name: str) -> str | None:
    """The package that does it, with its version: another one may write numbers in another way."""
    return None if name == "none" else f"{PACKAGE} {version(PACKAGE)}"


def _spaced(text: str) -> str:
    return " ".join(text.split())
