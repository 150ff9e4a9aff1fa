"""The timing pass, on a clock that only moves when the model works."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from profiler.device import Device
from profiler.measure.latency import (
    SUSPICIOUS_RATIO,
    StopRule,
    Timing,
    repeated_over_fresh,
    time_calls,
)


class Model:
    """Takes as many seconds for a call as it is told, and remembers its inputs."""

    def __init__(self, durations: Iterator[float] | Callable[[Any], float]) -> None:
        self.durations = durations
        self.inputs: list[Any] = []
        self.now = 0.0

    def __call__(self, value: Any) -> None:
        self.inputs.append(value)
        self.now += self.durations(value) if callable(self.durations) else next(self.durations)


@pytest.fixture
def time_model(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Timing]:
    """time_calls with the model's own clock."""

    def measure(model: Model, rule: StopRule, inputs: Any = "ABC", warmup: int = 2, **more: Any) -> Timing:
        monkeypatch.setattr(time, "perf_counter", lambda: model.now)
        return time_calls(model, inputs, Device("cpu"), rule, warmup, **more)

    return measure


def always(seconds: float) -> Model:
    return Model(lambda value: seconds)


def alternating(*seconds: float) -> Model:
    def endless() -> Iterator[float]:
        while True:
            yield from seconds

    return Model(endless())


def test_calls_are_timed_one_by_one(time_model: Callable[..., Timing]) -> None:
    model = Model(iter([9.0, 9.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]))
    timing = time_model(model, StopRule(min_calls=6, width=0.01, budget=1.0))
    assert timing.samples == pytest.approx([1, 2, 3, 4, 5, 6])


def test_warm_up_calls_are_kept_apart(time_model: Callable[..., Timing]) -> None:
    model = Model(iter([50.0, 20.0, 5.0, *[1.0] * 10]))
    timing = time_model(model, StopRule(min_calls=6, width=0.01, budget=100.0), warmup=3)
    assert timing.warmup == pytest.approx([50, 20, 5])
    assert timing.samples == pytest.approx([1] * 6)


def test_inputs_come_in_pairs_and_round_again(time_model: Callable[..., Timing]) -> None:
    model = alternating(1.0, 5.0)
    time_model(model, StopRule(min_calls=8, width=0.001, budget=1.0), inputs="ABC", warmup=2)
    assert "".join(model.inputs) == "AB" + "AABBCCAA"


def test_it_stops_when_the_interval_is_narrow_enough(time_model: Callable[..., Timing]) -> None:
    timing = time_model(always(1.0), StopRule(min_calls=5, width=0.03, budget=1e9))
    assert timing.stopped_by == "width"
    assert len(timing.samples) == 6  # fewer cannot bound a median with 95 % confidence


def test_it_stops_when_the_budget_is_spent(time_model: Callable[..., Timing]) -> None:
    timing = time_model(alternating(1.0, 3.0), StopRule(min_calls=5, width=0.03, budget=20.0))
    assert timing.stopped_by == "budget"
    assert 20 <= sum(timing.samples) < 30


def test_it_makes_the_fewest_calls_even_without_a_budget(time_model: Callable[..., Timing]) -> None:
    timing = time_model(alternating(1.0, 3.0), StopRule(min_calls=10, width=0.03, budget=0.001))
    assert timing.stopped_by == "budget"
    assert len(timing.samples) == 10


def test_it_stops_at_the_most_calls(time_model: Callable[..., Timing]) -> None:
    timing = time_model(alternating(1.0, 3.0), StopRule(min_calls=5, width=0.03, budget=1e9))
    assert timing.stopped_by == "max_calls"
    assert len(timing.samples) == StopRule(5, 0.03, 1.0).max_calls


def test_samples_of_earlier_rounds_count(time_model: Callable[..., Timing]) -> None:
    rule = StopRule(min_calls=5, width=0.03, budget=1e9, earlier=(1.0,) * 10)
    timing = time_model(always(1.0), rule)
    assert timing.stopped_by == "width"
    assert len(timing.samples) == 5


def test_another_speed_than_in_earlier_rounds_asks_for_more(time_model: Callable[..., Timing]) -> None:
    rule = StopRule(min_calls=5, width=0.03, budget=40.0, earlier=(1.0,) * 6)
    assert len(time_model(always(2.0), rule).samples) > 5


def test_someone_may_watch_between_the_calls(time_model: Callable[..., Timing]) -> None:
    seen: list[tuple[int, int]] = []
    rule = StopRule(min_calls=5, width=0.03, budget=1e9)
    time_model(always(1.0), rule, on_sample=lambda timing: seen.append((len(timing.warmup), len(timing.samples))))
    assert seen == [(1, 0), (2, 0), (2, 1), (2, 2), (2, 3), (2, 4), (2, 5), (2, 6)]


def test_the_watcher_costs_no_measured_time(time_model: Callable[..., Timing]) -> None:
    model = always(1.0)

    def slow(timing: Timing) -> None:
        model.now += 100.0

    timing = time_model(model, StopRule(min_calls=5, width=0.03, budget=1e9), on_sample=slow)
    assert timing.samples == pytest.approx([1.0] * 6)


def test_the_garbage_collector_rests_meanwhile_and_works_again_after(time_model: Callable[..., Timing]) -> None:
    states: list[bool] = []

    def watching(value: Any) -> float:
        states.append(gc.isenabled())
        return 1.0

    time_model(Model(watching), StopRule(min_calls=5, width=0.03, budget=1e9), warmup=1)
    assert states == [True] + [False] * 6
    assert gc.isenabled()


def test_a_failing_call_leaves_the_garbage_collector_on(time_model: Callable[..., Timing]) -> None:
    def fail(value: Any) -> float:
        raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError, match="out of memory"):
        time_model(Model(fail), StopRule(min_calls=5, width=0.03, budget=1.0), warmup=0)
    assert gc.isenabled()


def test_real_time_is_wall_time() -> None:
    timing = time_calls(
        lambda value: time.sleep(0.01), "A", Device("cpu"), StopRule(min_calls=6, width=0.5, budget=0.1), 1
    )
    assert all(sample >= 0.01 for sample in timing.samples)
    assert timing.device_samples == []  # a CPU has no clock of its own


# --- the rule ---


@pytest.mark.parametrize(
    ("samples", "decision"),
    [
        ([1.0] * 4, None),
        ([1.0] * 5, None),  # min_calls is reached, but five samples bound no median
        ([1.0] * 6, "width"),
        ([1.0, 2.0] * 3, None),
        ([1.0, 2.0] * 10, "budget"),
        ([0.001, 0.002] * (StopRule(5, 0.03, 1.0).max_calls // 2), "max_calls"),
    ],
)
def test_the_rule_says_why_to_stop(samples: list[float], decision: str | None) -> None:
    assert StopRule(min_calls=5, width=0.03, budget=25.0).decide(samples) == decision


def test_the_rule_looks_often_at_first_and_seldom_later() -> None:
    rule = StopRule(min_calls=5, width=0.03, budget=1.0)
    looks, calls = [], 0
    while calls < StopRule(5, 0.03, 1.0).max_calls:
        calls = rule.next_look(calls)
        looks.append(calls)
    assert looks[:4] == [5, 6, 7, 8]
    assert looks[-1] == StopRule(5, 0.03, 1.0).max_calls
    assert len(looks) < 200


# --- does something cache? ---


def test_equal_calls_show_no_caching() -> None:
    assert repeated_over_fresh([1.0] * 8) == 1.0


def test_a_cache_shows_in_the_second_of_each_pair() -> None:
    ratio = repeated_over_fresh([1.0, 0.1, 1.1, 0.1, 0.9, 0.1, 1.0, 0.1])
    assert ratio == pytest.approx(0.1)
    assert SUSPICIOUS_RATIO > 0.1


def test_one_slow_call_is_not_taken_for_a_cache() -> None:
    assert repeated_over_fresh([5.0, 1.0, 1.0, 1.0, 1.0, 1.0]) == 1.0


def test_a_last_call_without_its_pair_does_not_count() -> None:
    assert repeated_over_fresh([1.0, 0.5, 1.0, 0.5, 1.0, 0.5, 99.0]) == 0.5


@pytest.mark.parametrize("samples", [[], [1.0], [1.0] * 5])
def test_few_pairs_tell_nothing(samples: list[float]) -> None:
    assert repeated_over_fresh(samples) is None


def test_a_model_that_caches_is_caught_by_the_pass(time_model: Callable[..., Timing]) -> None:
    last: list[Any] = [None]

    def cached(value: Any) -> float:
        seconds = 0.01 if value == last[0] else 1.0
        last[0] = value
        return seconds

    timing = time_model(Model(cached), StopRule(min_calls=20, width=0.01, budget=1.0))
    ratio = repeated_over_fresh(timing.samples)
    assert ratio is not None
    assert ratio < SUSPICIOUS_RATIO
