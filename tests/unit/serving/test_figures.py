"""Requests become a step: what is late, what is proven, where the time went, what a backlog is."""

from __future__ import annotations

import random

import pytest

from profiler.results.statistics import late_allowed, requests_needed, shown_to_exceed
from profiler.results.types import ServingStep
from profiler.serving.figures import rise, step_of
from profiler.serving.records import Load, Request, StepEnd


def request(number: int, latency: float, due: float | None = None, **more: object) -> Request:
    at = number * 0.1 if due is None else due
    made = Request(number, 0, 1.0, at, at, sent=at, began=at, ended=at + latency, done=at + latency, batch=1, worker=0)
    for name, value in more.items():
        setattr(made, name, value)
    return made


def server(requests: list[Request], sent: int | None = None, percent: int = 99, limit: float = 1.0) -> ServingStep:
    load = Load(scenario="server", load=10.0, limit=limit)
    return step_of(load, percent, requests, len(requests) if sent is None else sent, StepEnd())


@pytest.mark.parametrize(("percent", "late", "needed"), [(99, 0, 459), (99, 1, 662), (90, 0, 44), (90, 1, 64)])
def test_the_rule_is_that_of_mlperf(percent: int, late: int, needed: int) -> None:
    assert requests_needed(late, percent) == needed
    assert late_allowed(needed, percent) == late
    assert late_allowed(needed - 1, percent) == late - 1


def test_one_late_request_of_many_is_chance_and_five_are_not() -> None:
    assert not shown_to_exceed(1, 64, 99)
    assert shown_to_exceed(5, 64, 99)
    assert not shown_to_exceed(0, 64, 99)


def test_a_limit_holds_with_enough_requests_and_else_it_says_how_many_more() -> None:
    assert server([request(number, 0.5) for number in range(459)]).status == "holds"
    few = server([request(number, 0.5) for number in range(400)])
    assert (few.status, few.more_needed) == ("not proven", 59)
    slow = server([request(number, 2.0 if number % 10 == 0 else 0.5) for number in range(459)])
    assert slow.status == "exceeds"


def test_what_has_no_result_is_late_and_counted_once() -> None:
    requests = [
        *(request(number, 0.1) for number in range(8)),
        request(8, 0.1, status="error", reason="died"),
        request(9, 30.0, status="timeout", reason="no result within 30 s"),
    ]
    step = server(requests, sent=13)
    counts = step.requests
    assert (counts.sent, counts.ok, counts.errors, counts.timeouts, counts.unfinished) == (13, 8, 1, 1, 3)
    assert counts.sent == counts.ok + counts.errors + counts.timeouts + counts.unfinished
    assert counts.late == 5
    assert counts.reasons == {"died": 1, "no result within 30 s": 1}
    assert step.latency_s is not None
    assert step.latency_s.max == pytest.approx(0.1), "errors have no latency"


def test_the_lateness_of_the_generator_counts_for_the_request_and_marks_the_step() -> None:
    requests = [request(number, 0.1) for number in range(100)]
    end = StepEnd(scheduled=[(0.5, 0.6)] * 100)
    step = step_of(Load(scenario="server", load=10.0), 99, requests, 100, end)
    assert step.generator_late
    assert step.latency_s is not None
    assert step.lateness_s is not None
    assert step.latency_s.median == pytest.approx(0.6), "from when it was due"
    assert step.lateness_s.median == pytest.approx(0.5)
    assert not step_of(Load(scenario="server", load=10.0), 99, [request(0, 0.1)], 1, StepEnd()).generator_late


def test_a_delay_that_rises_is_a_backlog_though_no_request_is_late_yet() -> None:
    load = Load(scenario="streams", load=3.0, limit=1.0)
    steady = [request(number, 0.1 + 0.001 * (number % 7)) for number in range(700)]
    growing = [request(number, 0.1 + 0.0005 * number) for number in range(700)]
    assert step_of(load, 99, steady, 700, StepEnd()).status == "holds"
    step = step_of(load, 99, growing, 700, StepEnd())
    assert step.requests.late == 0
    assert step.status == "exceeds"
    assert "a backlog builds up" in (step.reason or "")
    assert rise(growing) == pytest.approx(0.35, rel=0.1)


def test_percentiles_of_known_service_times_are_those_of_the_distribution() -> None:
    chance = random.Random(1)
    requests = [request(number, chance.uniform(0.1, 0.2)) for number in range(5000)]
    tail = server(requests).tail
    assert tail["p99"] == pytest.approx(0.199, rel=0.02)
    assert tail["p50"] == pytest.approx(0.15, rel=0.02)
    assert "p99" not in server(requests[:500]).tail, "too few to tell"


def test_speed_of_a_request_and_of_all_are_told_apart() -> None:
    requests = [request(number, 0.5, due=0.5 * (number // 4)) for number in range(40)]
    step = server(requests)
    assert step.rtf == pytest.approx(0.5), "a second of audio in half a second"
    assert step.rtfx == pytest.approx(8.0), "four at once"
    assert max(count for _, count in step.queue) == 4
