"""Two cells, variants or runs side by side, with a mark where they differ.

Times of the same cell have the ratio and the verdict of the command `compare`. What it does not judge, cells of
different length, is decided by the 95 % CIs of both; rows of breakdowns, by the larger of that and a fixed share.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from profiler.comparison.compare import compare_results
from profiler.comparison.judge import THRESHOLD, word
from profiler.comparison.result import Speed
from profiler.errors import UserError
from profiler.metrics import GRIDS
from profiler.results.metric import Metric
from profiler.results.types import CellResult, Results
from profiler.tensorboard_plugin.overview import cell_view

LEAST_MEMORY = 0.02  # of the memory of a process: libraries and the allocator vary by about as much
EXACT = 0.01  # of the memory of tensors, which is counted
LEAST_ROW = 0.05  # of a row's time: a row is the mean of a few calls and has no CI of its own
WORTH_MARKING = 0.01  # of the call
LONGEST = 60  # characters of a value that differs
RULE = (
    f"Times: as `compare` calls them, slower (▲), faster (▼), same within {THRESHOLD:.0%} (=) or unclear (?). "
    f"Memory of a process is marked where it differs by more than {LEAST_MEMORY:.0%}, that of tensors by more than "
    f"{EXACT:.0%}."
)
RULE_OF_ROWS = (
    "A row is marked where its time differs by more than the 95 % CIs of both cells together, at least "
    f"{LEAST_ROW:.0%}, and by more than {WORTH_MARKING:.0%} of the call."
)
PER_SECOND = "The cells differ in length or batch: times are per second of audio."

Place = tuple[float, int]


@dataclass(frozen=True)
class Judged:
    """What `compare` says of two variants: the speed in each place, and what else differs."""

    speeds: dict[Place, Speed] = field(default_factory=dict)
    differs: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def judge_runs(left: Results, right: Results, variants: tuple[str, str]) -> Judged:
    """Nothing is judged where there is nothing to judge: a variant beside itself, or no cell in common."""
    try:
        found = compare_results([left, right], variants).others[0]
    except UserError:
        return Judged()
    speeds = {cell.place: cell.speed for cell in found.cells if not cell.load}
    differs = [f"{each.kind} {each.name}: {_short(each.before)} / {_short(each.after)}" for each in found.differences]
    return Judged(speeds, differs, found.notes)


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def compare_cells(left: CellResult | None, right: CellResult | None, speed: Speed | None = None) -> dict[str, Any]:
    """Both cells, and for each figure the ratio of the right one to the left one with its mark."""
    return {
        "left": cell_view(left) if left else None,
        "right": cell_view(right) if right else None,
        "figures": {each.key: _compared(left, right, each, speed) for each in GRIDS},
    }


def compare_grids(left: list[CellResult], right: list[CellResult], judged: Judged) -> list[dict[str, Any]]:
    """All places that one of the two has measured or planned."""
    lefts, rights = ({(cell.seconds, cell.batch_size): cell for cell in cells} for cells in (left, right))
    return [
        {"seconds": place[0], "batch_size": place[1]}
        | compare_cells(lefts.get(place), rights.get(place), judged.speeds.get(place))
        for place in sorted({*lefts, *rights})
    ]


def compare_variants(results: Results, baseline: str) -> dict[str, dict[str, Any]]:
    """Variant -> cell -> figure -> its ratio to that of the baseline, with its mark."""
    before = {cell.label: cell for cell in results.cells if cell.variant == baseline}
    found: dict[str, dict[str, Any]] = {}
    for variant in results.variants:
        if variant != baseline:
            judged = judge_runs(results, results, (baseline, variant))
            found[variant] = {
                cell.label: {
                    each.key: _compared(
                        before.get(cell.label), cell, each, judged.speeds.get((cell.seconds, cell.batch_size))
                    )
                    for each in GRIDS
                }
                for cell in results.cells
                if cell.variant == variant
            }
    return found


def _compared(left: CellResult | None, right: CellResult | None, metric: Metric, speed: Speed | None) -> dict[str, Any]:
    """`mark`: a verdict on times; less, more or same for memory; unknown where one of the two has no such figure."""
    a, b = (metric.in_cell(cell) for cell in (left, right))
    if not left or not right or not a or b is None:
        return {"ratio": None, "mark": "unknown", "reason": ""}
    if metric.ci95 is None:
        least = EXACT if metric.key == "tensors" else LEAST_MEMORY
        mark = "same" if abs(b - a) <= least * max(a, b) else "less" if b < a else "more"
        return {"ratio": b / a, "mark": mark, "reason": ""}
    if speed is not None:
        return {"ratio": speed.ratio or b / a, "mark": speed.verdict, "reason": speed.reason}
    if left == right:
        return {"ratio": 1.0, "mark": "same", "reason": ""}
    halves = [cell.latency_s.half_width if cell.latency_s else None for cell in (left, right)]
    if halves[0] is None or halves[1] is None or halves[0] >= 1:
        return {"ratio": b / a, "mark": "unclear", "reason": "too few rounds for a 95 % CI"}
    ci = b * (1 - halves[1]) / (a * (1 + halves[0])), b * (1 + halves[1]) / (a * (1 - halves[0]))
    return {"ratio": b / a, "mark": word(ci, THRESHOLD), "reason": ""}


def compare_rows(
    left: list[dict[str, Any]], right: list[dict[str, Any]], noise: float, per_second: bool
) -> list[dict[str, Any]]:
    """Rows of two tables joined by name, in the order of the left one; `mark` says how the right one's time differs."""
    key = "s_per_second_of_audio" if per_second else "total_s"
    rights = {_identity(row): row for row in right}
    lefts = {_identity(row): row for row in left}
    whole = max((_time(row, key) for row in (*left, *right)), default=0.0)
    joined = []
    for identity in [*lefts, *(one for one in rights if one not in lefts)]:
        a, b = lefts.get(identity), rights.get(identity)
        row: dict[str, Any] = {"name": identity[0], "phase": identity[1], "left": a, "right": b, "ratio": None}
        if a is None or b is None:
            row["mark"] = "right only" if a is None else "left only"
        else:
            before, after = _time(a, key), _time(b, key)
            apart = abs(after - before) > max(noise, LEAST_ROW) * max(before, after)
            apart = apart and abs(after - before) > WORTH_MARKING * whole
            mark = "same" if not apart else "faster" if after < before else "slower"
            row |= {"ratio": after / before if before else None, "mark": mark}
        row |= {"left_s": _time(a, key) if a else None, "right_s": _time(b, key) if b else None}
        row |= {"left_own_s": _own(a, key) if a else None, "right_own_s": _own(b, key) if b else None}
        joined.append(row)
    return joined


def noise_of(*cells: CellResult) -> float:
    """How far times of rows may differ by chance: the 95 % CIs of both cells, or the range of their labelled calls."""
    total = 0.0
    for cell in cells:
        overhead = cell.breakdown.overhead if cell.breakdown else None
        calls: list[float] = overhead.labelled_s if overhead else []
        reach = (max(calls) - min(calls)) / (sum(calls) / len(calls)) / 2 if len(calls) > 1 and max(calls) > 0 else 0.0
        half_width = cell.latency_s.half_width if cell.latency_s else None
        total += max(half_width or 0.0, reach)
    return total


def _identity(row: dict[str, Any]) -> tuple[str, str]:
    return str(row["name"]), str(row.get("phase") or "")


def _own(row: dict[str, Any], key: str) -> float:
    """Of the same unit as the total: of a call, or per second of audio."""
    total = _time(row, "total_s")
    return _time(row, "own_s") * (_time(row, key) / total if total else 1.0)


def _time(row: dict[str, Any], key: str) -> float:
    value = row.get(key)
    return float(value) if isinstance(value, int | float) else 0.0
