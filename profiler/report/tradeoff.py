"""Accuracy beside speed: variants of one run or of several as points of error and cost, with the Pareto front.

A point is on the front of a cost where no other has less error at the same cost or less, nor less cost at the same
error or less. Costs: RTF over the data set, peak memory of the process, size of the saved state. Who transcribed fewer
utterances than others is not compared: those left out may be the hard ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from profiler.metrics import BATCH, DATASET_RTF, METRICS, PEAK, SIZE, accuracy_of, dataset_of
from profiler.report.dataset import rate_text, rtf_text, wer_text, width_of
from profiler.report.facts import recipe_name
from profiler.report.table import Table
from profiler.results.metric import UNSTABLE_MARK
from profiler.results.types import CellResult, ErrorRate, Results
from profiler.units import place_text, significant

DIGITS = 3  # in which costs are compared: what differs beyond them is noise, and no reason to be on a front
COSTS = {"rtf": DATASET_RTF, "memory": PEAK, "size": SIZE}
ENERGY = METRICS["energy_per_second"]


@dataclass(frozen=True)
class Point:
    """One variant: its error rates, and what it costs. What is not known is None."""

    name: str
    wer: ErrorRate | None
    cer: ErrorRate | None
    error_text: str
    rtf: float | None = None
    rtf_text: str = "n/a"
    latency: float | None = None  # median of a call over the set
    memory: float | None = None  # bytes
    size: float | None = None
    energy: float | None = None  # joules for a second of audio
    utterances: int = 0
    cells: dict[tuple[float, int], CellResult] = field(default_factory=dict)

    def error(self, kind: str) -> ErrorRate | None:
        return self.wer if kind == "wer" else self.cer

    def cost(self, cost: str) -> float | None:
        value: float | None = getattr(self, cost)
        return value


def points_of(runs: Sequence[Results]) -> tuple[list[Point], str | None]:
    """All variants of the runs that have an entry, and the cell whose memory and energy they are compared by."""
    several = len(runs) > 1
    same_recipe = len({results.run.recipe for results in runs}) < len(runs)
    points = []
    for results in runs:
        prefix = f"{results.run.id if same_recipe else recipe_name(results)}: " if several else ""
        points += [_point(results, record.variant, prefix) for record in results.accuracy]
    common = _largest_common([point for point in points if point.wer])
    if common is None:
        return points, None
    seconds, batch = common
    return [_with_cell(point, point.cells.get(common)) for point in points], place_text(seconds, batch)


def front(points: Sequence[Point], cost: str, error: str = "wer") -> list[Point]:
    """Those on the Pareto front, the cheapest first; points without a figure are on none."""
    most = max((point.utterances for point in points), default=0)
    known = [
        (float(significant(value, DIGITS)), rate.value, point)
        for point in points
        for value, rate in [(point.cost(cost), point.error(error))]
        if value is not None and rate is not None and point.utterances == most
    ]
    best = [
        (value, rate, point)
        for value, rate, point in known
        if not any(v <= value and r <= rate and (v < value or r < rate) for v, r, _ in known)
    ]
    return [point for _, _, point in sorted(best, key=lambda entry: entry[:2])]


def tradeoff_table(title: str, points: list[Point], cell: str | None, error: str = "wer") -> Table | None:
    """None where no variant has an error rate."""
    if not any(point.error(error) for point in points):
        return None
    fronts = {cost: front(points, cost, error) for cost in COSTS}
    energy = any(point.energy is not None for point in points)
    header = [each.head for each in (METRICS[error], DATASET_RTF, BATCH, PEAK, SIZE, *([ENERGY] if energy else []))]
    rows = []
    for point in points:
        row = [point.name, _error(point, error), point.rtf_text]
        row += [BATCH.number(point.latency), PEAK.number(point.memory), SIZE.number(point.size)]
        row += [ENERGY.number(point.energy)] if energy else []
        on = [COSTS[cost].short for cost, best in fronts.items() if point in best]
        rows.append([*row, ", ".join(on)])
    table = Table(title, ["variant", *header, "on the front with"], rows)
    memory = f"Peak memory{' and energy' if energy else ''}: of the cell {cell}. " if cell else ""
    table.remarks = [
        f"RTF: all time over all audio of the data set. {memory}On the front with a cost: no other has less error for "
        "the same cost or less, nor costs less for the same error or less. Neighbours may differ by chance: see the "
        f"intervals of their errors, and what {UNSTABLE_MARK} marks."
    ]
    most = max(point.utterances for point in points)
    table.remarks += [
        f"- {point.name}: of {point.utterances} utterances, where others transcribed {most}; not compared with them"
        for point in points
        if point.error(error) and point.utterances < most
    ]
    return table


def tradeoff_tables(results: Results, name: str) -> list[Table]:
    """Of one run."""
    points, cell = points_of([results])
    table = tradeoff_table(f"Accuracy beside speed - {name}", points, cell)
    return [table] if table else []


def plain_points(points: list[Point], error: str) -> list[dict[str, Any]]:
    """For --json."""
    fronts = {cost: front(points, cost, error) for cost in COSTS}
    return [
        {
            "name": point.name,
            "wer": point.wer.model_dump(mode="json") if point.wer else None,
            "cer": point.cer.model_dump(mode="json") if point.cer else None,
            "reason": None if point.wer else point.error_text,
            "rtf": point.rtf,
            "latency_s": point.latency,
            "memory_bytes": point.memory,
            "size_bytes": point.size,
            "energy_j_per_second": point.energy,
            "front": [cost for cost, best in fronts.items() if point in best],
        }
        for point in points
    ]


def _error(point: Point, error: str) -> str:
    rate = point.error(error)
    return rate_text(rate) if rate else point.error_text


def _point(results: Results, variant: str, prefix: str) -> Point:
    record, data, size = accuracy_of(results, variant), dataset_of(results, variant), SIZE.value(results, variant)
    assert record is not None
    return Point(
        name=prefix + variant,
        wer=record.wer,
        cer=record.cer,
        error_text=wer_text(record),
        rtf=record.rtf,
        rtf_text=rtf_text(data, width_of(results)) if data is not None else "n/a",
        latency=BATCH.value(results, variant),
        size=float(size) if size else None,
        utterances=record.utterances,
        cells={(cell.seconds, cell.batch_size): cell for cell in results.cells if cell.key[0] == variant},
    )


def _largest_common(points: list[Point]) -> tuple[float, int] | None:
    """The cell with the most audio in which the memory of all of them is known."""
    known = [{key for key, cell in point.cells.items() if PEAK.in_cell(cell)} for point in points]
    common = set.intersection(*known) if known else set()
    return max(common, key=lambda key: (key[0] * key[1], key), default=None)


def _with_cell(point: Point, cell: CellResult | None) -> Point:
    memory = PEAK.in_cell(cell)
    return replace(point, memory=float(memory) if memory else None, energy=ENERGY.in_cell(cell))
