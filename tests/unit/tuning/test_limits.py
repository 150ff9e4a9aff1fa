"""`--under`: what may be written, and what a figure does to a limit."""

from __future__ import annotations

import pytest

from profiler.errors import UserError
from profiler.tuning.limits import Limit, Rate, parse_limits


@pytest.mark.parametrize(
    ("text", "figure", "most", "relative"),
    [
        ("memory 1 GB", "memory", 1e9, False),
        ("size 100MB", "size", 1e8, False),
        ("latency 200 ms", "latency", 0.2, False),
        ("latency <= 2s", "latency", 2.0, False),
        ("rtf 0.05", "rtf", 0.05, False),
        ("energy 2 J", "energy", 2.0, False),
        ("wer +0.5", "wer", 0.005, True),
        ("WER 12 %", "wer", 0.12, False),
        ("cer +1 points", "cer", 0.01, True),
    ],
)
def test_a_limit_is_read_with_its_unit(text: str, figure: str, most: float, relative: bool) -> None:
    (limit,) = parse_limits(text)
    assert (limit.figure, limit.most, limit.relative) == (figure, pytest.approx(most), relative)


def test_limits_are_separated_by_commas_and_written_back_as_people_read_them() -> None:
    found = parse_limits("memory 1 GB, wer +0.5, latency 300 ms")
    assert [limit.text for limit in found] == ["memory 1.00 GB", "WER +0.5 points", "latency 300 ms"]
    assert parse_limits("") == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("memroy 1 GB", "Did you mean `memory`?"),
        ("speed 3", "Known: rtf 0.1; latency 200 ms"),
        ("latency 3", "write latency 200 ms"),
        ("memory +1 GB", "only error rates are limited by a difference"),
        ("memory much", "`much` is no limit for memory"),
        ("wer", "the limit is missing; write wer +0.5"),
        ("memory <=", "the limit is missing; write memory 1 GB"),
        ("rtf 0", "greater than 0"),
        ("rtf nan", "greater than 0"),
        ("latency 1 s, latency 2 s", "limited twice"),
    ],
)
def test_what_is_no_limit_is_refused_with_what_is_known(text: str, said: str) -> None:
    with pytest.raises(UserError) as error:
        parse_limits(text)
    assert said in str(error.value)


def test_a_look_leaves_what_is_a_little_over_undecided_and_a_measurement_does_not() -> None:
    (limit,) = parse_limits("latency 100 ms")
    assert limit.verdict({"latency": 0.09}, look=True) == "kept"
    assert limit.verdict({"latency": 0.12}, look=True) == "unclear"
    assert limit.verdict({"latency": 0.12}) == "over"
    assert limit.verdict({"latency": 0.2}, look=True) == "over"
    assert limit.verdict({"latency": None}) == "unknown"


def test_an_error_rate_is_clearly_over_where_all_of_its_ci_is() -> None:
    limit = Limit("wer", 0.005, relative=True)
    assert limit.verdict({"wer": Rate(0.10, None, 0.004, (0.0, 0.01))}) == "kept"
    assert limit.verdict({"wer": Rate(0.11, None, 0.010, (0.002, 0.018))}) == "unclear"
    assert limit.verdict({"wer": Rate(0.13, None, 0.030, (0.010, 0.050))}) == "over"
    assert limit.verdict({"wer": Rate(0.13)}) == "unknown", "the first variant has no rate"
    assert Limit("wer", 0.12).verdict({"wer": Rate(0.13, (0.11, 0.15))}) == "unclear"
