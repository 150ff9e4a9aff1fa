"""The timing pass, on a clock that only moves when the model works."""

from __future__ import annotations

import gc
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from profiler.device import Device
from profiler.measure.latency import (
    SUSPICIOUS_RATIO,
    RoundSize,
    Timing,
    notice_stops,
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

    def measure(model: Model, size: RoundSize, inputs: Any = "WAB", **more: Any) -> Timing:
        monkeypatch.setattr(time, "perf_counter", lambda: model.now)
        return time_calls(model, inputs, Device("cpu"), size, **more)

    return measure


def always(seconds: float) -> Model:
    return Model(lambda value: seconds)


def test_calls_are_timed_one_by_one(time_model: Callable[..., Timing]) -> None:
    model = Model(iter([9.0, 1.0, 2.0, 3.0, 4.0, 5.0]))
    assert time_model(model, RoundSize(seconds=100.0)).samples == pytest.approx([1, 2, 3, 4, 5])


def test_warm_up_calls_are_kept_apart(time_model: Callable[..., Timing]) -> None:
    model = Model(iter([0.05, 0.02, 0.005, *[1.0] * 10]))
    timing = time_model(model, RoundSize(warmup=3, seconds=100.0))
    assert timing.warmup == pytest.approx([0.05, 0.02, 0.005])
    assert timing.samples == pytest.approx([1] * 5)


@pytest.mark.parametrize(
    ("each", "calls"),
    [(0.001, 4), (0.08, 4), (0.125, 2), (0.251, 1), (30.0, 1)],
)
def test_long_calls_are_warmed_up_for_a_quarter_of_a_second_and_no_more(
    time_model: Callable[..., Timing], each: float, calls: int
) -> None:
    assert len(time_model(always(each), RoundSize(warmup=4)).warmup) == calls


def test_warm_up_has_an_input_of_its_own_and_the_others_come_in_pairs(time_model: Callable[..., Timing]) -> None:
    model = always(0.1)
    time_model(model, RoundSize(warmup=2, max_calls=6, seconds=100.0), inputs="WAB")
    assert "".join(model.inputs) == "WW" + "AABBAA"


def test_a_round_makes_a_few_calls(time_model: Callable[..., Timing]) -> None:
    assert len(time_model(always(0.001), RoundSize()).samples) == 5


def test_someone_may_watch_between_the_calls(time_model: Callable[..., Timing]) -> None:
    seen: list[tuple[int, int]] = []

    def watch(timing: Timing) -> None:
        seen.append((len(timing.warmup), len(timing.samples)))

    time_model(always(0.01), RoundSize(max_calls=3), on_sample=watch)
    assert seen == [(1, 0), (2, 0), (2, 1), (2, 2), (2, 3)]


def test_the_watcher_costs_no_measured_time(time_model: Callable[..., Timing]) -> None:
    model = always(0.01)

    def slow(timing: Timing) -> None:
        model.now += 100.0

    timing = time_model(model, RoundSize(), on_sample=slow)
    assert timing.samples == pytest.approx([0.01] * 5)


def test_the_garbage_collector_rests_meanwhile_and_works_again_after(time_model: Callable[..., Timing]) -> None:
    states: list[bool] = []

    def watching(value: Any) -> float:
        states.append(gc.isenabled())
        return 0.01

    time_model(Model(watching), RoundSize(warmup=1))
    assert states == [True] + [False] * 5
    assert gc.isenabled()


def test_a_failing_call_leaves_the_garbage_collector_on(time_model: Callable[..., Timing]) -> None:
    def fail(value: Any) -> float:
        raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError, match="out of memory"):
        time_model(Model(fail), RoundSize(warmup=0))
    assert gc.isenabled()


# --- wall time and CPU time ---


def test_real_time_is_wall_time() -> None:
    timing = time_calls(lambda value: time.sleep(0.01), "WA", Device("cpu"), RoundSize(warmup=1))
    assert all(sample >= 0.01 for sample in timing.samples)
    assert timing.device_samples == []  # a CPU has no clock of its own


def test_a_call_that_sleeps_uses_no_cpu_time() -> None:
    timing = time_calls(lambda value: time.sleep(0.03), "WA", Device("cpu"), RoundSize(warmup=1))
    assert len(timing.cpu) == len(timing.samples) == 5
    assert min(timing.cpu) < 0.1 * min(timing.samples)


def busy(seconds: float) -> None:
    """Uses so much CPU time, however long that takes."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def test_a_call_that_works_uses_cpu_time_for_all_of_it() -> None:
    timing = time_calls(lambda value: busy(0.001), "WA", Device("cpu"), RoundSize(warmup=1, max_calls=200))
    assert all(cpu >= 0.001 for cpu in timing.cpu)
    assert min(timing.cpu) == pytest.approx(0.001, rel=0.2)
    # Other processes may stretch the wall time of most calls: of the quickest it is what was used.
    best = min(range(len(timing.samples)), key=lambda number: timing.samples[number])
    assert timing.cpu[best] / timing.samples[best] > 0.5


def test_the_work_of_other_threads_is_counted() -> None:
    def call(value: Any) -> None:
        worker = threading.Thread(target=busy, args=(0.02,))
        worker.start()
        worker.join()

    timing = time_calls(call, "WA", Device("cpu"), RoundSize(warmup=1, max_calls=2))
    assert all(cpu >= 0.02 for cpu in timing.cpu)


# --- a process that stood still ---


def test_a_call_in_which_the_process_was_stopped_is_left_out() -> None:
    made = []

    def call(value: Any) -> None:
        made.append(value)
        if len(made) == 3:
            os.kill(os.getpid(), signal.SIGSTOP)

    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        notice_stops()
        timing = time_calls(call, "WAB", Device("cpu"), RoundSize(warmup=1, max_calls=4))
        os.write(write_end, json.dumps([timing.left_out, timing.samples, "".join(made)]).encode())
        os._exit(0)
    os.waitpid(child, os.WUNTRACED)
    time.sleep(1)
    os.kill(child, signal.SIGCONT)
    os.waitpid(child, 0)
    left_out, samples, inputs = json.loads(os.read(read_end, 1 << 16))
    assert left_out == 1
    assert len(samples) == 4
    assert max(samples) < 0.5
    assert inputs == "WAAABB", "its input is taken again"


def test_a_call_in_which_the_machine_slept_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here the clock that goes on while a machine sleeps is moved on by hand."""
    slept, real = [0.0], time.clock_gettime

    def clock(which: int) -> float:
        return real(which) + (slept[0] if which == time.CLOCK_BOOTTIME else 0.0)

    def call(value: Any) -> None:
        made.append(value)
        slept[0] += 600.0 if len(made) == 2 else 0.0

    made: list[Any] = []
    monkeypatch.setattr(time, "clock_gettime", clock)
    timing = time_calls(call, "WA", Device("cpu"), RoundSize(warmup=1, max_calls=3))
    assert (timing.left_out, len(timing.samples)) == (1, 3)


# --- how many calls ---


@pytest.mark.parametrize(
    ("samples", "enough"),
    [
        ([], False),
        ([0.1], False),  # fewer than min_calls
        ([9.0], False),  # however long they take
        ([0.1, 0.1], False),
        ([0.2, 0.31], True),  # the time is spent
        ([9.0, 9.0], True),
        ([0.1, 0.1, 0.1], False),
        ([0.1, 0.1, 0.1, 0.1], True),  # max_calls
    ],
)
def test_a_round_ends_by_calls_or_by_time(samples: list[float], enough: bool) -> None:
    assert RoundSize(min_calls=2, max_calls=4, seconds=0.5).enough(samples) == enough


def test_one_call_is_enough_where_it_takes_longer_than_the_round(time_model: Callable[..., Timing]) -> None:
    assert len(time_model(always(2.0), RoundSize(min_calls=1, seconds=0.5)).samples) == 1


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

    timing = time_model(Model(cached), RoundSize(max_calls=20, seconds=100.0))
    ratio = repeated_over_fresh(timing.samples)
    assert ratio is not None
    assert ratio < SUSPICIOUS_RATIO
