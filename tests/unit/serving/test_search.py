"""The search for the highest load: few steps, and what is said to be carried was proven."""

from __future__ import annotations

import pytest

from profiler.results.types import RequestCounts, ServingStep
from profiler.serving.search import Search


def search(capacity: float, start: float, whole: bool = False, steps: int = 20, proves: float | None = None) -> Search:
    """One on a machine that carries this much; `proves`: what it carries for long enough to prove it."""
    made = Search(start, steps, 0.1, whole)
    for _ in range(100):
        if (choice := made.next()) is None:
            break
        load, proof = choice
        limit = (proves or capacity) if proof else capacity
        status = "exceeds" if load > limit else "holds" if proof else "not proven"
        step = ServingStep(scenario="server", load=load, proof=proof, status=status, requests=RequestCounts(sent=64))
        made.learn(step, 99)
    return made


@pytest.mark.parametrize("start", [0.5, 8.0, 11.0, 60.0])
def test_the_highest_load_is_found_from_below_and_from_above(start: float) -> None:
    found = search(10.0, start)
    assert found.best is not None
    assert 8.9 <= found.best <= 10.0


@pytest.mark.parametrize("capacity", [1, 2, 7, 20])
def test_streams_are_found_to_the_last_one(capacity: int) -> None:
    assert search(capacity, 3.0, whole=True).best == capacity


def test_none_is_carried_where_one_is_too_many() -> None:
    found = search(0.5, 4.0, whole=True)
    assert found.best is None
    assert [load for load, _, _ in found.tried] == [4, 2, 1]


def test_a_load_whose_proof_fails_gives_way_to_the_next_lower_one() -> None:
    found = search(10.0, 9.0, proves=8.0)
    assert found.best is not None
    assert 7.0 <= found.best <= 8.0


def test_steps_are_bounded_and_the_last_ones_are_for_the_proof() -> None:
    found = search(1000.0, 1.0, steps=5)
    assert len(found.tried) <= 5
    assert found.tried[-1][1], "to prove"
    assert found.best is not None


def test_a_look_with_a_late_request_counts_as_too_much() -> None:
    made = Search(8.0, 10, 0.1)
    late = RequestCounts(sent=64, late=2)
    made.learn(ServingStep(scenario="server", load=8.0, status="not proven", more_needed=600, requests=late), 99)
    assert made.next() == (4.0, False)


def test_in_a_hurry_what_is_known_to_hold_is_proven_at_once() -> None:
    made = Search(8.0, 10, 0.1)
    assert made.next(hurry=True) == (8.0, False), "nothing is known yet"
    fine = RequestCounts(sent=64)
    made.learn(ServingStep(scenario="server", load=8.0, status="not proven", more_needed=600, requests=fine), 99)
    assert made.next() == (12.0, False)
    assert made.next(hurry=True) == (8.0, True)
