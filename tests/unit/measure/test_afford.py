"""How many calls a cell affords: from the length of a call, and the time that the recipe gives. No model is run."""

from __future__ import annotations

import sys

import pytest

from profiler.execution.predict import Forecast, allowance, round_size
from profiler.measure.afford import Allowance, PassCalls
from profiler.plan import Cell
from profiler.recipe.schema import Measure, Recipe

FRENCH = {
    "pretrained_model": {"source": "speechbrain/asr-wav2vec2-commonvoice-fr", "type": "EncoderASR"},
    "profiling_dimensions": {"audio_mockup_secs": [1, 32], "batch_sizes": [1, 8], "export_logs": True},
}
LENGTHS = (0.25, 2.0, 8.0, 16.0, 32.0, 64.0)  # seconds of one call


def recipe(**measure: object) -> Recipe:
    return Recipe.model_validate(FRENCH | {"measure": measure})


def calls(call_s: float, **measure: object) -> dict[str, int]:
    return allowance(recipe(**measure)).calls(call_s)


def test_short_calls_are_made_as_often_as_ever() -> None:
    usual = calls(0.25)
    assert usual["memory"] == 2
    assert usual["breakdown"] >= 4
    assert calls(2.0) == usual
    assert not any(allowance(recipe()).long(each) for each in (None, 0.001, 0.25, 2.0))


def test_a_call_of_a_minute_is_made_three_times() -> None:
    """One warms up and has its memory recorded, one is timed, one is traced: a trace was asked for."""
    made = {name: count for name, count in calls(64.0).items() if count}
    assert made == {"time": 2, "trace": 1}


def test_a_pass_that_needs_no_call_of_its_own_is_never_left_out_for_the_time_of_calls() -> None:
    assert allowance(recipe()).left_out("energy", 64.0) is None


def test_between_them_each_pass_makes_the_fewest_calls_and_the_last_go_first() -> None:
    assert {"energy": 0, "operations": 1, "breakdown": 2, "trace": 1}.items() <= calls(8.0).items()
    assert "breakdown" not in calls(32.0)
    counts = [sum(calls(each).values()) for each in LENGTHS]
    assert counts == sorted(counts, reverse=True)


def test_the_first_round_stays_within_the_limit_where_the_time_of_the_cell_does_not_hold_it() -> None:
    made = calls(250.0)
    assert (made["time"], made["memory"]) == (2, 0)
    assert "trace" not in made, "500 s of 600 s are spent"
    reason = allowance(recipe()).left_out("trace", 250.0)
    assert reason is not None
    assert "measure.limit" in reason


def test_more_time_gives_more_calls() -> None:
    assert calls(64.0, budget=200.0) == calls(0.25)
    rounds = [allowance(recipe(budget=budget)).more_rounds(20.0, None) for budget in (1.0, 10.0, 20.0, 60.0)]
    assert rounds == [1, 2, 5, 9]


@pytest.mark.parametrize(
    ("call_s", "rounds"),
    [(0.5, sys.maxsize), (2.0, sys.maxsize), (4.0, 7), (8.0, 6), (10.0, 5), (16.0, 2), (32.0, 1), (64.0, 1)],
)
def test_rounds_become_fewer_where_calls_are_long(call_s: float, rounds: int) -> None:
    """Of a minute, with 10 s of budget: with a call to warm up in each round, or from 5 s on in the first alone."""
    assert allowance(recipe()).more_rounds(call_s, None) == rounds


def test_a_round_of_long_calls_has_no_warm_up() -> None:
    assert (round_size(Measure()).warmup, round_size(Measure(), long=True).warmup) == (2, 0)


def test_a_pass_that_is_left_out_says_why() -> None:
    found = allowance(recipe())
    assert found.left_out("breakdown", 0.25) is None
    assert found.left_out("time", 64.0) is None
    assert found.left_out("breakdown", 64.0) == (
        "a call takes 64.0 s; 2 calls more would pass the 60.0 s that a cell has beside its timing (6 x measure.budget)"
    )


def test_what_decides_is_the_length_of_a_call_not_that_time_is_short() -> None:
    """A quick look with next to no budget keeps all passes of a small model."""
    assert not allowance(recipe(budget=0.05, rounds=1)).long(0.9)
    assert not Allowance().long(3600.0)
    assert Allowance(seconds=10.0, passes={"time": PassCalls(2, 2)}).long(6.0)


def test_a_cell_is_skipped_by_the_calls_that_it_would_make() -> None:
    """Twelve calls of 64 s would pass the limit of 10 minutes; three are made, and do not. Two of 320 s do."""
    forecast = Forecast(recipe())
    forecast._latency.put(1.0, 1, 0.25)
    large, longer = Cell("float32", 32.0, 8), Cell("float32", 160.0, 8)
    assert forecast.latency(large) == 64.0
    assert forecast.reason_to_skip(large, available_memory=10**12, rate=16000) is None
    assert forecast.reason_to_skip(longer, available_memory=10**12, rate=16000) == (
        "would take about 11 min at 5.3 min per call, over measure.limit (10 min)"
    )
