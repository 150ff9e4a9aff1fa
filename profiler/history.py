"""A figure of a recipe over its runs: what each run says, and where the level shifted.

    runs in the log folder, and others by path --make_series--> points --level_shifts--> levels

There is one series per variant, machine and number of threads, because only those can be compared. The series of
logarithms is cut into stretches of equal level, where a cut must reduce the squared error by more than a penalty
(optimal partitioning; libraries that do it take a second to import). The unit of error is the noise of the series
itself, the typical step from one run to the next, and at least the machine's run-to-run floor (conditions/floor.py).
The penalty is so high that of series that have noise alone at most 1 in 100 shows a shift, and low enough that a shift
of 10 % among noise of 2 % is found once there are 10 runs (tests/unit/test_history.py). A new level needs three runs to
be told from a bad hour; whether the last run alone is slower is what `compare` answers. Needs results only: no model,
no torch.
"""

from __future__ import annotations

import math
import re
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any, Literal

from profiler.comparison.judge import THRESHOLD
from profiler.conditions.floor import floor_of
from profiler.errors import UserError
from profiler.results.metric import Metric
from profiler.results.types import CellResult, Results

NEEDED = 6  # points: two levels of three
STRETCH = 3  # runs that make a level
PENALTY = 7.0  # times the logarithm of the number of points
COUNTED = 0.005  # the floor of memory, size and other metrics that follow no clock
TO_SIGMA = 1.4826 / math.sqrt(2)  # median size of a step between two values -> standard deviation of one
By = Literal["date", "commit"]
CELL = re.compile(r"(\d+(?:\.\d+)?)\s*s?\s*_?x\s*(\d+)")
NO_COMMIT = "no commit"
UNKNOWN = "an unknown processor"


@dataclass(frozen=True)
class LevelShift:
    """From point number `at` on, the level is `after` instead of `before`."""

    at: int
    before: float
    after: float

    @property
    def ratio(self) -> float:
        return self.after / self.before


def level_shifts(values: Sequence[float], floor: float) -> list[LevelShift]:
    """In order; none where there are too few points, or values that have no logarithm."""
    if len(values) < NEEDED or min(values) <= 0:
        return []
    logs = [math.log(value) for value in values]
    noise = max(floor, TO_SIGMA * statistics.median(abs(after - before) for before, after in pairwise(logs)))
    edges = _stretches([(each - logs[0]) / noise for each in logs], PENALTY * math.log(len(values)))
    levels = [statistics.median(values[start:end]) for start, end in pairwise(edges)]
    found = [LevelShift(at, before, after) for at, (before, after) in zip(edges[1:], pairwise(levels), strict=False)]
    return [shift for shift in found if abs(math.log(shift.ratio)) >= math.log1p(THRESHOLD)]


def _stretches(signal: Sequence[float], penalty: float) -> list[int]:
    """Where stretches begin and the last one ends: the cuts with the least squared error plus a penalty for each."""
    sums = [0.0, *accumulate(signal)]
    squares = [0.0, *accumulate(value * value for value in signal)]
    best: dict[int, tuple[float, int]] = {0: (0.0, 0)}  # up to here: the least cost, and where its last stretch begins
    for end in range(STRETCH, len(signal) + 1):
        best[end] = min(
            (cost + squares[end] - squares[start] - (sums[end] - sums[start]) ** 2 / (end - start) + penalty, start)
            for start, (cost, _) in best.items()
            if end - start >= STRETCH
        )
    edges = [len(signal)]
    while edges[0]:
        edges.insert(0, best[edges[0]][1])
    return edges


@dataclass(frozen=True)
class HistoryPoint:
    """The figure in one run, or the median of all runs of one commit."""

    label: str  # date and time, or commit
    runs: tuple[str, ...]
    date: str
    commit: str | None
    value: float
    half_width: float | None = None  # of its 95 % CI, as a share of it; of times with 6 rounds or more
    complete: bool = True


@dataclass
class Series:
    """The figure of one variant on one machine."""

    variant: str
    machine: str
    points: list[HistoryPoint] = field(default_factory=list)
    shifts: list[LevelShift] = field(default_factory=list)
    floor: float | None = None  # run-to-run standard deviation, as a share; of times
    floor_source: str = ""

    @property
    def name(self) -> str:
        return f"{self.variant}, {self.machine}"


@dataclass(frozen=True)
class HistoryQuery:
    """Which figure, of which cell and variant, by what."""

    metric: Metric
    cell: tuple[float, int] | None = None
    variant: str | None = None
    by: By = "date"


def parse_cell(text: str) -> tuple[float, int]:
    """'2s_x1' or '2 s x 1' -> (2.0, 1)."""
    match = CELL.fullmatch(text.strip())
    if match is None:
        raise UserError(f"--cell {text}: expected seconds and batch size, such as 2s_x1.")
    return float(match[1]), int(match[2])


def choose_cell(runs: Sequence[Results], asked: HistoryQuery) -> tuple[float, int] | None:
    """The cell that most runs measured; of these the largest. None for figures that are not of a cell."""
    if asked.metric.of_cell is None:
        return None
    found = Counter(
        (cell.seconds, cell.batch_size)
        for results in runs
        for cell in results.cells
        if _value(results, cell.variant, asked, cell) is not None
    )
    if not found:
        return asked.cell
    if asked.cell is not None:
        if asked.cell not in found:
            known = ", ".join(f"{seconds:g}s_x{batch}" for seconds, batch in sorted(found))
            raise UserError(
                f"No run has `{asked.metric.key}` of the cell {asked.cell[0]:g}s_x{asked.cell[1]}: {known}."
            )
        return asked.cell
    most = max(found.values())
    return max(
        (place for place, count in found.items() if count == most), key=lambda place: (place[0] * place[1], place)
    )


def make_series(runs: Sequence[Results], asked: HistoryQuery) -> tuple[list[Series], int]:
    """The series, each with its level shifts, and how many runs do not have the figure."""
    found: dict[tuple[str, str], Series] = {}
    members: dict[tuple[str, str], list[Results]] = {}
    without = 0
    names = machine_names(runs)
    for results in runs:
        variants = results.variants or [model.variant for model in results.models]
        points = {}
        for variant in variants if asked.variant is None else [asked.variant]:
            cell = results.cell(variant, *asked.cell) if asked.cell else None
            value = _value(results, variant, asked, cell)
            if value is not None:
                points[variant] = _point(results, float(value), asked.metric.half_width(cell) if cell else None)
        without += not points
        for variant, point in points.items():
            machine = names[results.run.id, variant]
            found.setdefault((variant, machine), Series(variant, machine)).points.append(point)
            members.setdefault((variant, machine), []).append(results)
    for key, series in found.items():
        if asked.by == "commit":
            series.points = _by_commit(series.points)
        if asked.metric.time:
            floor = floor_of(*members[key])
            series.floor, series.floor_source = floor.value, floor.source
        series.shifts = level_shifts([point.value for point in series.points], series.floor or COUNTED)
    return list(found.values()), without


def _value(results: Results, variant: str, asked: HistoryQuery, cell: CellResult | None) -> Any:
    value = asked.metric.value(results, variant, cell if cell is not None and cell.status == "ok" else None)
    return value if isinstance(value, (int, float)) else None


def _point(results: Results, value: float, half_width: float | None) -> HistoryPoint:
    started = results.run.started[:16].replace("T", " ")
    return HistoryPoint(
        label=started,
        runs=(results.run.id,),
        date=started,
        commit=results.environment.commit,
        value=value,
        half_width=half_width,
        complete=results.run.is_finished,
    )


def _by_commit(points: list[HistoryPoint]) -> list[HistoryPoint]:
    """One point per commit, in the order in which commits were first measured."""
    groups: dict[str, list[HistoryPoint]] = {}
    for point in points:
        groups.setdefault(point.commit or NO_COMMIT, []).append(point)
    return [
        HistoryPoint(
            label=commit[:10],
            runs=tuple(run for point in group for run in point.runs),
            date=group[0].date,
            commit=group[0].commit,
            value=statistics.median(point.value for point in group),
            half_width=max((point.half_width for point in group if point.half_width is not None), default=None),
            complete=all(point.complete for point in group),
        )
        for commit, group in groups.items()
    ]


def machine_names(runs: Sequence[Results]) -> dict[tuple[str, str], str]:
    """(run, variant) -> 'AMD EPYC, 2 threads', with the host's name where several machines would be called the same."""
    hosts: dict[str, set[str]] = {}
    for results in runs:
        hosts.setdefault(results.hardware or UNKNOWN, set()).add(_host(results))
    found = {}
    for results in runs:
        hardware = results.hardware or UNKNOWN
        several = len(hosts[hardware]) > 1
        name = f"{hardware} ({_host(results)})" if several else hardware
        variants = results.variants or [model.variant for model in results.models]
        for variant in variants:
            threads = results.threads(variant)
            found[results.run.id, variant] = f"{name}, {threads} thread{'' if threads == 1 else 's'}"
    return found


def _host(results: Results) -> str:
    return str(results.environment.host or "no host's name")
