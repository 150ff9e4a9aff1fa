"""The schedule of an A/B run under load: the same load in turns, A B, B A, until it is decided or time is spent."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from profiler.comparison.loads import ROUNDS
from profiler.execution.serving_turns import MOST_ROUNDS, ServingTurns
from profiler.recipe.schema import Serving
from profiler.results.types import ServingResult, ServingStep, Times


@dataclass
class Played:
    """A stand-in for the steps: what each side's requests take."""

    takes: dict[str, float]
    asked: list[tuple[str, str, float, int | None]] = field(default_factory=list)
    status: str = "measured"

    def step(self, side: ServingResult, scenario: Any, load: float, count: int, **more: Any) -> ServingStep:
        number = more.get("round")
        self.asked.append((side.variant, scenario, load, number))
        base = self.takes[side.variant] * (1 + 0.001 * (number or 0))
        samples = [base * (1 + 0.01 * place) for place in range(count)]
        step = ServingStep(scenario=scenario, load=load or None, round=number, status=self.status, samples=samples)  # type: ignore[arg-type]
        step.computing_s, step.utilisation = Times.of(samples), 0.1
        return step


def turns(played: Played, seconds: float = 1000.0, **settings: Any) -> tuple[ServingTurns, Any]:
    made = ServingTurns.__new__(ServingTurns)
    recipe = SimpleNamespace(serving=Serving(**settings))
    made.loaded = SimpleNamespace(by_variant={"A": recipe, "B": recipe})  # type: ignore[assignment]
    made.spent = {}
    made._step = played.step  # type: ignore[method-assign, assignment]
    made.threshold, made.seconds = 0.02, seconds
    about = {"limit_s": 1.0, "percentile": 99, "confidence": 0.99}
    return made, tuple(ServingResult(variant=name, **about) for name in "AB")


def test_sides_take_turns_until_it_is_decided() -> None:
    played = Played({"A": 0.1, "B": 0.2})
    made, sides = turns(played)
    made._turns(sides, "server", 8.0)
    assert [side for side, *_ in played.asked[:6]] == ["A", "B", "B", "A", "A", "B"]
    assert len(played.asked) == 2 * ROUNDS, "twice as slow is seen at once"
    assert {load for _, _, load, _ in played.asked} == {8.0}


def test_time_that_is_spent_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played({"A": 0.1, "B": 0.1})
    made, sides = turns(played, seconds=0.0)
    monkeypatch.setattr("profiler.execution.serving_turns.decided", lambda *given: None)
    made._turns(sides, "server", 8.0)
    assert len(played.asked) == 2 * ROUNDS
    made.seconds = 1000.0
    played.asked.clear()
    made._turns(sides, "server", 8.0)
    assert len(played.asked) == 2 * MOST_ROUNDS


def test_a_side_that_fails_is_not_asked_again() -> None:
    played = Played({"A": 0.1, "B": 0.1}, status="failed")
    made, sides = turns(played)
    made._turns(sides, "server", 8.0)
    assert len(played.asked) == 1


def test_the_limit_to_a_server_ends_it() -> None:
    played = Played({"A": 0.1, "B": 0.1})
    made, sides = turns(played, outside={"rate": 10, "seconds": 5})
    made.spent = {"A": 6.0}
    made._turns(sides, "server", 8.0)
    assert played.asked == []


def test_without_a_load_half_of_what_the_slower_side_could_do_is_taken() -> None:
    made, sides = turns(Played({"A": 0.1, "B": 0.2}), scenarios=["single_stream", "server", "streams"], workers=2)
    loads = dict(made._loads(sides))
    assert loads["single_stream"] == 0.0
    assert loads["server"] == pytest.approx(0.5 * 2 / 0.215, rel=0.05)
    assert loads["streams"] == 5.0
    assert turns(Played({}), scenarios=["server"], loads=[3, 4])[0]._loads(sides) == [("server", 3.0), ("server", 4.0)]
