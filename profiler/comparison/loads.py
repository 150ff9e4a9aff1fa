"""Two runs under load, or two variants of one, against each other: latency at the same load, and the highest load.

Latency, for each load that both were put under, and each percentile that the requests of both support. Two ways:

    took turns (`ab`)   A B, B A, ... with the same requests at the same moments: the log of the ratio in each round,
                        and a t interval over rounds, as for calls (judge.py); p99, which a round is too short for, by
                        the bootstrap over rounds, of both sides at once
    any other two       a step is cut into windows of consecutive requests, for requests near each other share a queue;
                        the bootstrap over windows of each side gives the error, to which the run-to-run floor is added

The highest load is known as far as the search went: it lies between what was proven and the lowest that was shown to
exceed the limit, and so does the ratio. Ratios are of times: above 1 the other one is slower, or carries less.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from profiler.comparison.judge import Shift, slow_calls, typical_calls, word
from profiler.comparison.result import CellComparison, Interval, Speed
from profiler.results.statistics import percentiles
from profiler.results.types import ServingResult, ServingStep

PERCENTS = (50, 90, 99)
IN_A_ROUND = {50: typical_calls, 90: slow_calls}
WINDOWS = 20  # of a step
DRAWS = 400
ROUNDS = 6  # with fewer there is no interval
WITHOUT_RESULT = 0.01  # of the requests: from here on latency says little, for the slowest are missing
NAMES = {"single_stream": "one by one", "offline": "all at once", "server": "requests/s", "streams": "streams"}
CAPACITY = {"server": "requests/s carried", "streams": "streams carried"}
Place = tuple[str, float]  # scenario, load
Windows = Sequence[Sequence[float]]


def compare_loads(first: ServingResult, second: ServingResult, floor: float, threshold: float) -> list[CellComparison]:
    """A row for each load and percentile that both have, and one for what each carries."""
    names = first.variant, second.variant
    mine, theirs = places(first), places(second)
    rows = []
    for place in [place for place in mine if place in theirs]:
        rows += _at(names, place, mine[place], theirs[place], floor, threshold)
    for scenario in CAPACITY:
        rows += _capacity(names, scenario, first, second, floor, threshold)
    return rows


def places(result: ServingResult) -> dict[Place, list[ServingStep]]:
    """Its steps by load, in the order of loads; of an A/B run those that took turns."""
    turns = any(step.round is not None for step in result.steps)
    known = [step for step in result.steps if (step.round is not None) == turns and step.status != "interrupted"]
    order = list(NAMES)
    found: dict[Place, list[ServingStep]] = {}
    for step in sorted(known, key=lambda step: (order.index(step.scenario), step.load or 0.0)):
        found.setdefault((step.scenario, step.load or 0.0), []).append(step)
    return found


def place_name(place: Place) -> str:
    scenario, load = place
    if scenario in ("single_stream", "offline"):
        return NAMES[scenario]
    return f"{load:g} {NAMES[scenario]}"


def _at(
    names: tuple[str, str], place: Place, mine: list[ServingStep], theirs: list[ServingStep], floor: float, limit: float
) -> list[CellComparison]:
    problem = next((f"baseline {text}" for text in [_problem(mine)] if text), "") or _problem(theirs)
    by_round = [{step.round: step.samples for step in side if step.samples} for side in (mine, theirs)]
    turns = sorted(number for number in by_round[0].keys() & by_round[1].keys() if number is not None)
    windows: tuple[Windows, Windows]
    if turns:
        windows = [by_round[0][number] for number in turns], [by_round[1][number] for number in turns]
    else:
        windows = _windows(mine), _windows(theirs)
    supported = [percentiles([value for window in side for value in window]) for side in windows]
    rows = []
    for percent in PERCENTS:
        key = f"p{percent}"
        values = tuple(side.get(key) for side in supported)
        if None in values and not (problem and percent == PERCENTS[0]):
            continue
        row = CellComparison(variants=names, load=f"{place_name(place)}, {key}", latency_s=values)  # type: ignore[arg-type]
        row.status = _status(mine), _status(theirs)
        if problem or None in values:
            row.speed.reason = problem
        elif turns and len(turns) < ROUNDS:
            row.speed.reason = f"{len(turns)} rounds only: how much they vary is unknown"
        else:
            row.speed = _speed(windows, percent, values, bool(turns), floor, limit)  # type: ignore[arg-type]
        rows.append(row)
    return rows


def _problem(steps: list[ServingStep]) -> str:
    """Why its latency cannot be judged; empty where it can."""
    sent = sum(step.requests.sent for step in steps)
    lost = sent - sum(step.requests.ok for step in steps)
    if lost > WITHOUT_RESULT * sent:
        return f"has {lost} of {sent} requests without a result"
    return "the load generator was late" if all(step.generator_late for step in steps) else ""


def _status(steps: list[ServingStep]) -> str:
    return "failed" if all(step.status == "failed" for step in steps) else "ok"


def _windows(steps: list[ServingStep]) -> Windows:
    """Of the step with the most requests: the proof of a load, and not a look at it; or rounds as they are."""
    if all(step.round is not None for step in steps):
        return [step.samples for step in steps if step.samples]
    samples = max((step.samples for step in steps), key=len)
    edges = [len(samples) * number // WINDOWS for number in range(WINDOWS + 1)]
    return [samples[start:end] for start, end in pairwise(edges) if end > start]


def _speed(
    windows: tuple[Windows, Windows],
    percent: int,
    values: tuple[float, float],
    paired: bool,
    floor: float,
    threshold: float,
) -> Speed:
    one, two = windows
    if paired and percent in IN_A_ROUND:
        return Speed(**Shift.of(one, two, IN_A_ROUND[percent]).ratio(threshold).model_dump())
    error = math.sqrt(_bootstrap(one, two, percent, paired) ** 2 + (0.0 if paired else 2.0 * floor**2))
    freedom = len(one) - 1 if paired else len(one) + len(two) - 2
    shift = Shift(math.log(values[1] / values[0]), max(error, 1e-9), freedom)
    return Speed(**shift.ratio(threshold).model_dump())


def _bootstrap(one: Windows, two: Windows, percent: int, paired: bool) -> float:
    """Standard error of the log of the ratio of two percentiles, when whole windows are drawn anew."""
    import numpy as np

    chance = np.random.default_rng(0)

    def logs(windows: Windows, drawn: Any) -> Any:
        values = np.concatenate([np.asarray(window) for window in windows])
        owner = np.repeat(np.arange(len(windows)), [len(window) for window in windows])
        order = np.argsort(values)
        reached = np.cumsum(drawn[:, owner[order]], axis=1)  # how many of a draw are as low as each value
        needed = np.ceil(percent / 100 * reached[:, -1:])
        return np.log(values[order][np.argmax(reached >= needed, axis=1)])

    draws = [chance.multinomial(len(side), [1 / len(side)] * len(side), size=DRAWS) for side in (one, two)]
    return float(np.std(logs(two, draws[0] if paired else draws[1]) - logs(one, draws[0]), ddof=1))


# -- the highest load


def _capacity(
    names: tuple[str, str], scenario: str, first: ServingResult, second: ServingResult, floor: float, threshold: float
) -> list[CellComparison]:
    bests = [side.streams if scenario == "streams" else side.requests_per_second for side in (first, second)]
    if not any(bests):
        return []
    brackets = [_bracket(side, scenario, best or 0.0) for side, best in zip((first, second), bests, strict=True)]
    row = CellComparison(
        variants=names,
        load=CAPACITY[scenario],
        latency_s=(None, None),
        shown=(_bracket_text(brackets[0]), _bracket_text(brackets[1])),
    )
    (low_a, high_a), (low_b, high_b) = brackets
    if first.limit_s != second.limit_s or first.percentile != second.percentile:
        row.speed.reason = "the limits differ"
    elif not all(bests):
        row.speed.reason = "one of them was shown to carry none"
    else:
        # What was proven may be true of more, up to what was refuted; the machine of another hour does a little else.
        widen = math.exp(1.96 * math.sqrt(2.0) * floor)
        ratio = low_a / low_b
        if high_a is not None and high_b is not None:
            ci: Interval = (low_a / high_b / widen, high_a / low_b * widen)
            row.speed = Speed(verdict=word(ci, threshold), ratio=ratio, ci=ci, detectable=max(1 + threshold, ci[1]))
        else:
            row.speed = Speed(verdict="unclear", ratio=ratio, reason="no load was found that is too high")
    return [row]


def _bracket(result: ServingResult, scenario: str, best: float) -> tuple[float, float | None]:
    """The highest load that was proven, and the lowest above it that was shown to be too much; None: there is none."""
    refuted = [step.load for step in result.of(scenario) if step.status == "exceeds" and (step.load or 0.0) > best]
    return best, min((load for load in refuted if load is not None), default=None)


def _bracket_text(bracket: tuple[float, float | None]) -> str:
    low, high = bracket
    if not low:
        return "none"
    return f"{low:g}" + (f" (< {high:g})" if high is not None else "")
