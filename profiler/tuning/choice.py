"""Results of the finalists -> points with all their figures, the Pareto front, and the one to take, with the reason.

A point is a variant at a batch size. It is on the front where no other is as good in RTF, latency, memory and error
rate and better in one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from profiler.comparison.compare import PAIRED_FROM, compare_results, match_rounds
from profiler.comparison.judge import THRESHOLD, paired_speed
from profiler.comparison.result import Ratio, Speed
from profiler.errors import UserError
from profiler.metrics import accuracy_of
from profiler.results.types import CellResult, Results
from profiler.tuning.halving import Aim
from profiler.tuning.limits import FIGURES, GOALS, RATES, Figures, Limit, Rate, rate_of
from profiler.units import many, significant

DIGITS = 3  # in which figures are compared for the front: what differs beyond them is noise
TIMES = ("rtf", "latency")


@dataclass
class Point:
    """One variant at one batch size."""

    cell: CellResult
    figures: Figures
    ratio: Speed | None = None  # of its times, over the first variant's at the same batch size
    front: bool = False
    over: list[str] = field(default_factory=list)  # limits that it does not keep, with its figure

    @property
    def name(self) -> str:
        return f"{self.cell.variant} (batch {self.cell.batch_size})"

    def number(self, figure: str) -> float | None:
        value = self.figures.get(figure)
        return value.value if isinstance(value, Rate) else value


@dataclass
class Choice:
    """The points, the best first, and the pick; None with the reason where none keeps the limits."""

    points: list[Point]
    pick: Point | None
    why: str
    goal: str = "rtf"

    @property
    def axes(self) -> tuple[str, str]:
        """The figure that is made small, and the one to show it against: error rates where they are known."""
        if self.points and all(point.number("wer") is not None for point in self.points):
            return self.goal, "wer"
        return self.goal, "memory" if self.goal != "memory" else "rtf"

    @property
    def places(self) -> list[tuple[Point, float, float]]:
        """The points that have both of these figures, with them."""
        x, y = self.axes
        found = [(point, point.number(x), point.number(y)) for point in self.points]
        return [(point, across, up) for point, across, up in found if across is not None and up is not None]


def choose(results: Results, aim: Aim) -> Choice:
    """Of the finalists' run."""
    points = [_point(results, cell, aim) for cell in results.cells if cell.status == "ok" and cell.latency_s]
    points = [point for point in points if point.number(aim.goal) is not None]
    points.sort(key=lambda point: (bool(point.over), point.number(aim.goal)))
    _mark_front(points, aim)
    _put_ratios(points, results)
    if not points:
        return Choice(points, None, "No finalist could be measured.", aim.goal)
    within = [point for point in points if not point.over]
    if not within:
        return Choice(points, None, f"No finalist keeps within the limits: {_nearest(points)}.", aim.goal)
    pick, why = _pick(within, aim)
    return Choice(points, pick, why, aim.goal)


def _point(results: Results, cell: CellResult, aim: Aim) -> Point:
    figures: dict[str, float | Rate | None] = {name: FIGURES[name].value(results, cell.variant, cell) for name in GOALS}
    first, entry = accuracy_of(results, results.variants[0]), accuracy_of(results, cell.variant)
    figures |= {name: rate_of(entry, first, name) for name in RATES}
    point = Point(cell, figures)
    point.over = [_broken(limit, figures) for limit in aim.limits if limit.verdict(figures) != "kept"]
    return point


def _broken(limit: Limit, figures: Figures) -> str:
    verdict = limit.verdict(figures)
    if verdict == "unknown":
        return f"{FIGURES[limit.figure].short} unknown"
    return f"{FIGURES[limit.figure].short} {limit.shown(figures)}" + (" (unclear)" if verdict == "unclear" else "")


def _mark_front(points: Sequence[Point], aim: Aim) -> None:
    energy = ("energy",) if aim.goal == "energy" or any(limit.figure == "energy" for limit in aim.limits) else ()
    size = ("size",) if aim.goal == "size" or any(limit.figure == "size" for limit in aim.limits) else ()
    wanted = ("rtf", "latency", "memory", "wer", *energy, *size)
    known = [name for name in wanted if all(point.number(name) is not None for point in points)]
    rows = [[float(significant(point.number(name) or 0.0, DIGITS)) for name in known] for point in points]
    for point, mine in zip(points, rows, strict=True):
        point.front = not any(all(a <= b for a, b in zip(other, mine, strict=True)) and other != mine for other in rows)


def _put_ratios(points: Sequence[Point], results: Results) -> None:
    first = results.variants[0]
    for variant in results.variants[1:]:
        try:
            compared = compare_results([results], (first, variant)).others[0].cells
        except UserError:  # no cell in common
            continue
        for point in points:
            if point.cell.variant == variant:
                found = [each for each in compared if (each.seconds, each.batch_size) == point.cell.key[1:]]
                point.ratio = found[0].speed if found and found[0].speed.ratio is not None else None


def _pick(within: list[Point], aim: Aim) -> tuple[Point, str]:
    """The best; of those that cannot be told from it, the one that needs the least memory."""
    best, title = within[0], FIGURES[aim.goal].short
    whole = f"the lowest {title}, {FIGURES[aim.goal].text(best.number(aim.goal))}"
    among = f"of {many(len(within), 'point')}" + (" within the limits" if aim.limits else "")
    equal = [(point, ratio) for point in within[1:] if (ratio := equal_times(best, point, aim.goal)) is not None]
    lighter = [(point, ratio) for point, ratio in equal if _memory(point) < 0.98 * _memory(best)]
    if lighter:
        point, ratio = min(lighter, key=lambda each: _memory(each[0]))
        ends = " to ".join(significant(end, DIGITS) for end in ratio.ci or ())
        return point, (
            f"{point.name}: its {title} cannot be told from the lowest, that of {best.name} (ratio "
            f"{significant(ratio.ratio or 1.0, DIGITS)}, {ratio.confidence * 100:g} % CI {ends}), and it needs "
            f"{FIGURES['memory'].text(_memory(point))} of memory instead of {FIGURES['memory'].text(_memory(best))}."
        )
    said = f"{best.name}: {whole}, {among}"
    if equal:
        said += "; not to be told from " + ", ".join(point.name for point, _ in equal[:3])
    return best, said + "."


def equal_times(best: Point, other: Point, goal: str) -> Ratio | None:
    """The ratio of the other's times to the best's, where it does not show a difference; None where it does."""
    if goal not in TIMES:
        return None
    rounds = match_rounds(best.cell, other.cell)
    if len(rounds) < PAIRED_FROM:
        return None
    share = [cell.batch_size if goal == "rtf" else 1 for cell in (best.cell, other.cell)]
    sides = [[[call / share[side] for call in calls[side]] for calls in rounds] for side in (0, 1)]
    speed = paired_speed(sides[0], sides[1], THRESHOLD)
    return speed if speed.verdict in ("same", "unclear") else None


def _memory(point: Point) -> float:
    return point.number("memory") or float("inf")


def _nearest(points: Sequence[Point]) -> str:
    point = min(points, key=lambda each: len(each.over))
    return f"{point.name} has {', '.join(point.over)}"
