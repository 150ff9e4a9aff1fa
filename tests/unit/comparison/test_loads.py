"""Two runs under load: latency at the same load, the highest load, and when nothing can be said."""

from __future__ import annotations

import math
import random

import pytest

from profiler.comparison.loads import compare_loads, place_name, places
from profiler.comparison.result import CellComparison
from profiler.results.types import RequestCounts, ServingResult, ServingStep

THRESHOLD = 0.02
FLOOR = 0.03


def step(load: float, count: int = 700, slower: float = 1.0, seed: int = 0, **more: object) -> ServingStep:
    """Latencies of a queue: each is like the one before it."""
    chance, wait, samples = random.Random(seed), 0.0, []
    for _ in range(count):
        wait = max(0.0, 0.8 * wait + chance.gauss(0.0, 0.01))
        samples.append(slower * (0.1 + wait) * math.exp(chance.gauss(0.0, 0.02)))
    return ServingStep(
        **{"scenario": "server", "load": load, "status": "holds", **more},
        samples=samples,
        requests=RequestCounts(sent=count, ok=count),
    )


def result(*steps: ServingStep, **more: object) -> ServingResult:
    about = {"variant": "float32", "limit_s": 1.0, "percentile": 99, "confidence": 0.99, **more}
    return ServingResult(**about, steps=steps)


def rows(first: ServingResult, second: ServingResult, floor: float = FLOOR) -> dict[str, CellComparison]:
    return {row.load: row for row in compare_loads(first, second, floor, THRESHOLD)}


def test_each_percentile_that_both_support_is_compared_at_the_same_load() -> None:
    found = rows(result(step(4), step(8)), result(step(8, slower=2.0, seed=1), step(16)))
    assert list(found) == ["8 requests/s, p50", "8 requests/s, p90", "8 requests/s, p99"]
    for row in found.values():
        assert row.speed.verdict == "slower"
        assert row.speed.ratio == pytest.approx(2.0, rel=0.25)
        low, high = row.speed.ci or (0.0, 0.0)
        assert 1.0 < low < 2.0 < high
    assert list(rows(result(step(8, count=100)), result(step(8)))) == ["8 requests/s, p50", "8 requests/s, p90"]


def test_equal_runs_are_unclear_and_never_different() -> None:
    verdicts = [
        row.speed.verdict
        for seed in range(25)
        for row in rows(result(step(8, seed=seed)), result(step(8, seed=100 + seed))).values()
    ]
    assert set(verdicts) == {"unclear"}


def test_the_floor_of_the_machine_widens_the_interval() -> None:
    widths = []
    for floor in (0.0, 0.1):
        low, high = rows(result(step(8)), result(step(8, seed=1)), floor)["8 requests/s, p50"].speed.ci or (1.0, 1.0)
        widths.append(high / low)
    assert widths[1] > 1.5 * widths[0]


def turns(slower: float, rounds: int = 8, seed: int = 0) -> tuple[ServingResult, ServingResult]:
    """A machine that is up to twice as slow in some rounds, for both sides."""
    chance = random.Random(seed)
    sides: tuple[list[ServingStep], list[ServingStep]] = ([], [])
    for number in range(rounds):
        machine = chance.uniform(1.0, 2.0)
        for side, own in zip(sides, (1.0, slower), strict=True):
            side.append(step(8, count=100, slower=machine * own, seed=number, round=number))
    return result(*sides[0], variant="A"), result(*sides[1], variant="B")


def test_sides_that_took_turns_are_compared_round_by_round() -> None:
    found = rows(*turns(1.05), floor=0.0)
    assert {row.speed.verdict for row in found.values()} == {"slower"}
    assert found["8 requests/s, p50"].speed.ratio == pytest.approx(1.05, rel=0.01)
    assert found["8 requests/s, p50"].speed.confidence == 0.999
    assert rows(*turns(1.0), floor=0.0)["8 requests/s, p50"].speed.verdict == "same"
    few = rows(*turns(1.05, rounds=3), floor=0.0)["8 requests/s, p50"]
    assert (few.speed.verdict, few.speed.ratio) == ("not judged", None)
    assert "3 rounds only" in few.speed.reason


def test_requests_without_a_result_are_no_faster() -> None:
    lossy = step(8, slower=0.5)
    lossy.requests = RequestCounts(sent=800, ok=700, timeouts=100)
    row = rows(result(step(8)), result(lossy))["8 requests/s, p50"]
    assert (row.speed.verdict, row.speed.reason) == ("not judged", "has 100 of 800 requests without a result")


def test_a_side_that_fails_now_is_a_regression() -> None:
    failed = ServingStep(scenario="server", load=8, status="failed", requests=RequestCounts(sent=10, errors=10))
    row = rows(result(step(8)), result(failed))["8 requests/s, p50"]
    assert row.status == ("ok", "failed")


def test_what_is_carried_lies_between_what_was_proven_and_what_was_refuted() -> None:
    def carries(best: float, refuted: float | None) -> ServingResult:
        steps = [step(best)] + ([step(refuted, status="exceeds")] if refuted else [])
        return result(*steps, requests_per_second=best)

    row = rows(carries(10, 11), carries(5, 5.5))["requests/s carried"]
    assert row.speed.verdict == "slower"
    assert row.shown == ("10 (< 11)", "5 (< 5.5)")
    assert row.speed.ratio == 2.0
    low, high = row.speed.ci or (0.0, 0.0)
    assert low < 10 / 5.5 < 11 / 5 < high
    assert rows(carries(10, 11), carries(10.5, 12))["requests/s carried"].speed.verdict == "unclear"
    assert rows(carries(10, None), carries(5, 5.5))["requests/s carried"].speed.verdict == "unclear"


def test_loads_have_names() -> None:
    found = places(result(step(8), step(0, scenario="single_stream"), step(3, scenario="streams")))
    assert [place_name(place) for place in found] == ["one by one", "8 requests/s", "3 streams"]
