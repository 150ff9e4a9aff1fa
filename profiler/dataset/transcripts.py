"""Which utterances of a set can be scored, and what is wrong with the transcripts of the others."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field

from profiler.dataset.items import Problem, Reading, Utterance
from profiler.recipe.schema import Dataset

LENGTHS_ALONE = "the set has transcripts, but lengths in the place of audio"


@dataclass(frozen=True)
class Scoring:
    """Whether a set is scored, with which utterances, and what stands against others. `reason`: why it is not."""

    scored: bool
    utterances: list[Utterance]
    problems: list[Problem] = field(default_factory=list)
    reason: str | None = None


def check_transcripts(reading: Reading, settings: Dataset) -> Scoring:
    """A set without any transcript is timed and no more; in one that has some, each utterance needs its own."""
    everything = reading.utterances
    if settings.transcripts == "ignore" or len(reading.without_text) == len(everything):
        return Scoring(False, everything)
    if len(reading.without_audio) == len(everything):
        return Scoring(False, everything, reason=LENGTHS_ALONE)
    kept: list[Utterance] = []
    problems: list[Problem] = []
    for utterance in everything:
        message = _problem(utterance, settings.normalise)
        if message is None:
            kept.append(utterance)
        else:
            problems.append(Problem(utterance.id, message))
    return Scoring(True, kept, problems)


def fingerprint(utterances: Iterable[Utterance]) -> str:
    """The same for the same utterances with the same references, in whatever order and from whatever folder."""
    content = sorted((utterance.id, utterance.text) for utterance in utterances)
    return hashlib.sha256(json.dumps(content).encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _problem(utterance: Utterance, normalise: str) -> str | None:
    if utterance.text is None:
        return "has no transcript"
    if utterance.audio is None:
        return "has a transcript, but no audio"
    if not utterance.text.strip():
        return "its transcript is empty"
    from profiler.accuracy.normalise import normaliser

    if not normaliser(normalise)(utterance.text):
        return f"nothing is left of its transcript, '{utterance.text}', after the normalisation {normalise}"
    return None
