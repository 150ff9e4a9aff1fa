"""Batches as training and evaluation draw them; a sample of them covers all lengths."""

from __future__ import annotations

import random
import statistics
from typing import Any

import pytest
from pydantic import ValidationError

from profiler.dataset.batching import draw, make_batches, padded_seconds, share_of_padding
from profiler.dataset.items import Utterance
from profiler.recipe.schema import Dataset


def utterances(*lengths: float) -> list[Utterance]:
    return [Utterance(f"u{number}", seconds, target_tokens=number) for number, seconds in enumerate(lengths)]


def many(count: int = 1000) -> list[Utterance]:
    chance = random.Random(1)
    return utterances(*(chance.uniform(1, 20) for _ in range(count)))


def batches(found: list[Utterance], **settings: Any) -> list[list[float]]:
    return [[u.seconds for u in batch] for batch in make_batches(found, Dataset(source="x", **settings))]


def test_without_a_word_there_is_one_utterance_a_batch() -> None:
    assert batches(utterances(3, 1, 2)) == [[3], [1], [2]]


def test_a_fixed_number_in_each_order() -> None:
    found = utterances(5, 1, 4, 2, 3)
    assert batches(found, batch_size=2) == [[5, 1], [4, 2], [3]]
    assert batches(found, batch_size=2, order="sorted") == [[1, 2], [3, 4], [5]]
    shuffled = batches(found, batch_size=2, order="shuffled", seed=3)
    assert sorted(seconds for batch in shuffled for seconds in batch) == [1, 2, 3, 4, 5]
    assert shuffled == batches(found, batch_size=2, order="shuffled", seed=3), "the same seed, the same order"
    assert shuffled != batches(found, batch_size=2, order="shuffled", seed=4)


def test_up_to_so_many_seconds_or_frames_counts_padding() -> None:
    found = utterances(2, 3, 1, 1, 12, 1)
    # 3 x 3 s = 9 s fit in 10 s, four rows of 3 s would not; 12 s are longer than any batch and stand alone.
    wanted = [[2, 3, 1], [1], [12], [1]]
    assert batches(found, batch_seconds=10) == wanted
    assert batches(found, batch_frames=1000) == wanted, "100 frames a second"
    assert batches(found, batch_frames=250, frames_per_second=25) == wanted
    assert batches(utterances(0.1, 0.1, 0.1), batch_seconds=0.3) == [[0.1, 0.1, 0.1]], "rounding breaks no batch"


def test_targets_stay_with_their_audio() -> None:
    found = many(50)
    made = make_batches(found, Dataset(source="x", batch_size=7, order="sorted"))
    assert sum(map(len, made)) == 50
    for batch in made:
        for utterance in batch:
            assert utterance == found[int(utterance.id[1:])]


def test_padding_is_what_the_longest_adds() -> None:
    (batch,) = make_batches(utterances(1, 3), Dataset(source="x", batch_size=2))
    assert padded_seconds(batch) == 6
    assert share_of_padding([batch]) == pytest.approx(1 / 3)


@pytest.mark.parametrize("order", ["corpus", "sorted", "shuffled"])
@pytest.mark.parametrize("limit", [10, 100, 400])
def test_a_sample_covers_the_whole_distribution(order: Any, limit: int) -> None:
    everything = make_batches(many(), Dataset(source="x", batch_size=10, order=order))
    drawn = draw(everything, limit)
    assert len(drawn) == limit // 10
    assert all(batch in everything for batch in drawn), "whole batches, padded as in the full set"
    assert [everything.index(batch) for batch in drawn] == sorted(everything.index(batch) for batch in drawn)
    mean_of_all = statistics.fmean(map(padded_seconds, everything))
    assert statistics.fmean(map(padded_seconds, drawn)) == pytest.approx(mean_of_all, rel=0.05)
    if limit > 10:
        shares = [sorted(map(padded_seconds, everything)).index(padded_seconds(batch)) / 100 for batch in drawn]
        assert min(shares) < 0.1
        assert max(shares) >= 0.9


def test_a_sample_never_exceeds_its_limit() -> None:
    everything = make_batches(many(), Dataset(source="x", batch_seconds=60, order="sorted"))
    for limit in (30, 111, 500, 999):
        assert sum(map(len, draw(everything, limit))) <= limit
    assert draw(everything, 1000) == draw(everything, None) == everything


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"batch_size": 2, "batch_seconds": 3.0}, "batch_size and batch_seconds contradict each other"),
        ({"batch_size": 8, "limit": 4}, "limit: 4 is less than one batch"),
        ({"batch_seconds": 0.0}, "greater than 0"),
        ({"order": "random"}, "Input should be"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValidationError, match=sentence):
        Dataset(source="x", **settings)
