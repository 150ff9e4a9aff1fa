"""Load in an A/B run: both sides are put under the same load in turns, with the same requests at the same moments.

    round 1   A B        round 2   B A        round 3   A B   ...   until it is decided, or the time is spent

Both models stay loaded; while one side is under load, the other sleeps. What is made of the rounds is in
comparison/loads.py.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from profiler.comparison.judge import decided
from profiler.comparison.loads import ROUNDS
from profiler.execution.serving import OUTSIDE_AT_START, Scenario, ServingPasses
from profiler.recipe.sides import Pair
from profiler.results.types import ServingResult

HALF = 0.5  # of what the slower side could do: enough for requests to meet, far from where a queue has no end
ROUND_SECONDS = 4.0  # of load on a side in a round
FEWEST, MOST = 16, 128  # requests of it
FIRST_REQUESTS = 16  # of the step that tells what a side could do
FIRST_RESULTS = 40  # of one speaker, for the same
MOST_ROUNDS = 60


class ServingTurns(ServingPasses):
    """What is asked of A and B under load."""

    pairs: Sequence[Pair] = ()
    threshold: float = 0.0
    seconds: float = 0.0  # for each load at most, once it has had its first rounds

    def ask(self, pairs: Sequence[Pair], threshold: float, seconds: float) -> ServingTurns:
        self.pairs, self.threshold, self.seconds = pairs, threshold, seconds
        return self

    def run(self) -> None:
        for pair in self.pairs:
            sides = self._new(pair.a), self._new(pair.b)
            with self._keeping(*sides):
                for side in sides:
                    self.workers.ready(side.variant)
                for scenario, load in self._loads(sides):
                    self._turns(sides, scenario, load)

    def _loads(self, sides: tuple[ServingResult, ServingResult]) -> list[tuple[Scenario, float]]:
        """Those of the recipe; where it names none, half of what the slower side could do."""
        settings = self.loaded.by_variant[sides[0].variant].serving
        found: list[tuple[Scenario, float]] = []
        for scenario in settings.scenarios:
            asked: dict[str, Sequence[float]] = {"server": settings.loads, "streams": settings.streams}
            given = asked.get(scenario)
            if given is None:
                found.append((scenario, 0.0))
            elif given:
                found += [(scenario, float(load)) for load in given]
            else:
                could = min(self._could(side, scenario) for side in sides)
                load = max(1.0, float(int(could))) if scenario == "streams" else float(f"{could:.2g}")
                found += [(scenario, load)] if could > 0 else []
        return found

    def _could(self, side: ServingResult, scenario: Scenario) -> float:
        """Half of what a side could do, by one request after another, or one speaker; 0 where that failed."""
        settings = self.loaded.by_variant[side.variant].serving
        if settings.outside is not None:
            most = self._most(settings, scenario)
            return max(1.0, OUTSIDE_AT_START * most) if scenario == "streams" else OUTSIDE_AT_START * most
        if scenario == "streams":
            one = self._step(side, scenario, 1.0, FIRST_RESULTS)
            return HALF / one.utilisation if one.utilisation else 0.0
        alone = self._step(side, "single_stream", 0.0, FIRST_REQUESTS)
        return HALF * settings.workers / max(alone.computing_s.mean, 1e-4) if alone.computing_s else 0.0

    def _turns(self, sides: tuple[ServingResult, ServingResult], scenario: Scenario, load: float) -> None:
        samples: tuple[list[list[float]], list[list[float]]] = ([], [])
        began = time.monotonic()
        for number in range(MOST_ROUNDS):
            order = (0, 1) if number % 2 == 0 else (1, 0)
            for place in order:
                if not self._seconds(sides[place].variant):
                    return
                step = self._step(sides[place], scenario, load, self._count(scenario, load), round=number)
                samples[place].append(step.samples)
                if step.status == "failed":
                    return
            if number + 1 < ROUNDS:
                began = time.monotonic()
            elif decided(*samples, self.threshold) is not None or time.monotonic() - began > self.seconds:
                return

    @staticmethod
    def _count(scenario: Scenario, load: float) -> int:
        """Requests of a side in a round; of live speakers, results."""
        if scenario == "streams":
            return int(FIRST_RESULTS * max(1.0, load / 2))
        return min(MOST, max(FEWEST, math.ceil(ROUND_SECONDS * load)))
