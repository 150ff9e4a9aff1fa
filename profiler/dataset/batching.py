"""Utterances -> batches as training and evaluation draw them, and a sample of the batches where all are too many."""

from __future__ import annotations

import random
from collections.abc import Sequence

from profiler.dataset.items import Utterance
from profiler.recipe.schema import Dataset

Batch = tuple[Utterance, ...]
ROUNDING = 1e-9


def make_batches(utterances: Sequence[Utterance], settings: Dataset) -> list[Batch]:
    """All batches of a set, none left out; the last one may be smaller."""
    ordered = list(utterances)
    if settings.order == "shuffled":
        random.Random(settings.seed).shuffle(ordered)
    elif settings.order == "sorted":
        ordered.sort(key=lambda utterance: utterance.seconds)
    most_seconds = seconds_at_most(settings)
    if most_seconds is not None:
        return _by_seconds(ordered, most_seconds)
    size = settings.batch_size or 1
    return [tuple(ordered[start : start + size]) for start in range(0, len(ordered), size)]


def seconds_at_most(settings: Dataset) -> float | None:
    """What a batch may hold, padding included; None where batches have a fixed number of utterances."""
    if settings.batch_frames is not None:
        return settings.batch_frames / settings.frames_per_second
    return settings.batch_seconds


def draw(batches: list[Batch], limit: int | None) -> list[Batch]:
    """At most `limit` utterances in whole batches, spread evenly over the lengths of all batches.

    Whole batches, because utterances that are drawn one by one would no longer be padded as in the full set. They are
    the middle ones of equal shares of the batches in order of length: neither the longest nor the shortest alone.
    """
    total = sum(map(len, batches))
    if limit is None or total <= limit:
        return batches
    by_length = sorted(range(len(batches)), key=lambda number: padded_seconds(batches[number]))
    count = max(1, len(batches) * limit // total)
    while True:
        chosen = sorted(by_length[(2 * part + 1) * len(batches) // (2 * count)] for part in range(count))
        if count == 1 or sum(len(batches[number]) for number in chosen) <= limit:
            return [batches[number] for number in chosen]
        count -= 1


def padded_seconds(batch: Batch) -> float:
    """What a model is given: every row as long as the longest."""
    return len(batch) * max(utterance.seconds for utterance in batch)


def real_seconds(batch: Batch) -> float:
    return sum(utterance.seconds for utterance in batch)


def share_of_padding(batches: Sequence[Batch]) -> float:
    padded = sum(map(padded_seconds, batches))
    return 1.0 - sum(map(real_seconds, batches)) / padded if padded else 0.0


def _by_seconds(ordered: list[Utterance], most: float) -> list[Batch]:
    """Batches up to so many seconds; an utterance that is longer by itself gets a batch of its own."""
    batches: list[Batch] = []
    current: list[Utterance] = []
    longest = 0.0
    for utterance in ordered:
        longer = max(longest, utterance.seconds)
        if current and longer * (len(current) + 1) > most + ROUNDING:
            batches.append(tuple(current))
            current, longer = [], utterance.seconds
        current.append(utterance)
        longest = longer
    return [*batches, tuple(current)] if current else batches
