"""Errors are counted as by hand; intervals come from drawing utterances anew, always the same for the same seed."""

from __future__ import annotations

import random

import jiwer
import numpy as np
import pytest

from profiler.accuracy.score import INTERVAL_NEEDS, Score, difference, interval, score
from profiler.accuracy.transcripts import Transcript
from profiler.results.types import RateDifference

WORDS = ["red", "green", "blue", "black", "white", "yellow"]


def heard(pairs: list[tuple[str, str]], normalise: str = "none") -> Score | None:
    return score([Transcript(f"u{n}", r, h, 1.0, 0.1, n, 1) for n, (r, h) in enumerate(pairs)], normalise)


def scored(pairs: list[tuple[str, str]], normalise: str = "none") -> Score:
    found = heard(pairs, normalise)
    assert found is not None
    return found


def with_errors(share: float, count: int = 60, seed: int = 1) -> list[tuple[str, str]]:
    """Sentences of ten words in which a share of the words was heard wrong."""
    chance = random.Random(seed)
    pairs = []
    for _ in range(count):
        said = chance.choices(WORDS, k=10)
        pairs.append((" ".join(said), " ".join(w if chance.random() > share else "wrong" for w in said)))
    return pairs


def test_errors_are_those_counted_by_hand() -> None:
    found = scored([("the cat sat", "the cat sat down"), ("a b c d", "a x d"), ("hello world", "")])
    assert found.words.insertions.tolist() == [1, 0, 0]
    assert found.words.substitutions.tolist() == [0, 1, 0]
    assert found.words.deletions.tolist() == [0, 1, 2]
    assert found.words.units.tolist() == [3, 4, 2]
    assert found.words.rate == pytest.approx(5 / 9)
    assert found.characters.units.tolist() == [11, 7, 11], "spaces between words count as characters"


def test_rates_are_those_of_jiwer() -> None:
    pairs = with_errors(0.2)
    found = scored(pairs)
    references, hypotheses = (list(texts) for texts in zip(*pairs, strict=True))
    assert found.words.rate == pytest.approx(jiwer.wer(references, hypotheses))
    assert found.characters.rate == pytest.approx(jiwer.cer(references, hypotheses))


def test_a_rate_may_be_above_one() -> None:
    assert scored([("yes", "no no no")]).words.rate == pytest.approx(3.0)


def test_normalisation_is_of_both_texts() -> None:
    pairs = [("Dr. Smith's colour, TWENTY-one!", "doctor smith is color 21")]
    assert scored(pairs, "none").words.rate == pytest.approx(5 / 4)
    assert scored(pairs, "english").words.rate == 0


def test_references_of_which_nothing_is_left_are_named_and_not_counted() -> None:
    found = scored([("[noise]", "hm"), ("yes", "yes")], "basic")
    assert (found.ids, found.empty) == (["u1"], ["u0"])
    assert heard([("...", "hm")], "basic") is None


def test_the_interval_is_the_same_each_time_and_holds_the_rate() -> None:
    errors = scored(with_errors(0.2)).words
    low, high = interval(errors, seed=0) or (1.0, 0.0)
    assert low < errors.rate < high
    assert interval(errors, seed=0) == (low, high)
    assert interval(errors, seed=1) != (low, high)


def test_the_interval_is_as_wide_as_theory_says() -> None:
    """With independent words of equal utterances the rate is binomial: half width 1.96 sqrt(p (1 - p) / n)."""
    errors = scored(with_errors(0.2, count=400)).words
    low, high = interval(errors, seed=0) or (1.0, 0.0)
    expected = 1.96 * np.sqrt(errors.rate * (1 - errors.rate) / 4000)
    assert (high - low) / 2 == pytest.approx(expected, rel=0.2)


def test_few_utterances_have_no_interval() -> None:
    assert interval(scored(with_errors(0.2, INTERVAL_NEEDS - 1)).words, seed=0) is None
    assert interval(scored(with_errors(0.2, INTERVAL_NEEDS)).words, seed=0) is not None


def test_a_small_difference_on_the_same_utterances_is_found() -> None:
    """The second makes the first one's errors and a few more: far less than either interval, and no chance."""
    one = with_errors(0.2)
    two = [(said, h.replace("red", "wrong", 1)) for said, h in one]
    first, second = scored(one), scored(two)
    found = difference("float32", first, second, seed=0)
    assert found is not None
    assert found.ci95 is not None
    low, high = found.ci95
    assert 0 < low < found.value < high
    wide = interval(first.words, seed=0) or (0.0, 0.0)
    assert high - low < (wide[1] - wide[0]) / 2
    assert found.utterances == 60


def test_a_difference_is_of_what_both_heard() -> None:
    first = scored([("yes", "yes"), ("no", "yes")])
    second = Score(["u1"], first.words.at([1]), first.characters.at([1]))
    assert difference("float32", first, second, seed=0) == RateDifference(to="float32", value=0.0, utterances=1)
    assert difference("float32", first, Score(["other"], second.words, second.characters), seed=0) is None
