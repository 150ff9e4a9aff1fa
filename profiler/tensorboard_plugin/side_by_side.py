"""Two cells, variants or runs side by side, with the differences that are larger than the noise marked.

Times of the same cell are judged as the command `compare` judges them. What it does not judge, cells of different
length and rows of breakdowns, is compared by how far each figure may lie from the truth.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from profiler.comparison import compare_results
from profiler.comparison.decide import LEAST
from profiler.comparison.result import Speed
from profiler.errors import UserError
from profiler.report import figures
from profiler.results import CellResult, Results
from profiler.tensorboard_plugin.overview import GRIDS, cell_view, value_of

LEAST_MEMORY = 0.02  # of the memory of a process: libraries and the allocator vary by about as much
EXACT = 0.01  # of the memory of tensors, which is counted
LEAST_ROW = 0.05  # of a row's time: a row is the mean of a few calls and has no interval of its own
WORTH_MARKING = 0.01  # of the call
LONGEST = 60  # characters of a value that differs
RULE = (
    f"Times are marked as `compare` calls them: different by at least {LEAST:.0%}, by a rank test on the raw samples "
    "and a test on rounds, corrected for the number of cells. Memory of a process is marked where it differs by more "
    f"than {LEAST_MEMORY:.0%}, that of tensors where by more than {EXACT:.0%}."
)
RULE_OF_ROWS = (
    "A row is marked where its time differs by more than the spreads of both cells together, at least "
    f"{LEAST_ROW:.0%}, and by more than {WORTH_MARKING:.0%} of the call."
)
PER_SECOND = "The cells differ in length or batch: times are per second of audio."
MARKS = {"faster": "less", "slower": "more", "no difference": "same", "not judged": "unknown"}

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
    speeds = {(cell.seconds, cell.batch_size): cell.speed for cell in found.cells}
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
        "figures": {key: _compared(left, right, key, speed) for key, _, _ in GRIDS},
    }


def compare_grids(left: list[CellResult], right: list[CellResult], judged: Judged) -> list[dict[str, Any]]:
    """All places that one of the two has measured or planned."""
    lefts, rights = ({(cell.seconds, cell.batch_size): cell for cell in cells} for cells in (left, right))
    return [
        {"seconds": place[0], "batch_size": place[1]}
        | compare_cells(lefts.get(place), rights.get(place), judged.speeds.get(place))
        for place in sorted({*lefts, *rights})
    ]


def _compared(left: CellResult | None, right: CellResult | None, key: str, speed: Speed | None) -> dict[str, Any]:
    """`mark`: whether the right one is less, more, the same, or unknown."""
    a, b = (value_of(cell, key) if cell else None for cell in (left, right))
    if not left or not right or not a or b is None:
        return {"ratio": None, "mark": "unknown", "reason": ""}
    if key in ("rtf", "latency"):
        if speed is not None:
            return {"ratio": speed.ratio or b / a, "mark": MARKS[speed.verdict], "reason": speed.reason}
        apart = _apart(a, figures.spread(left), b, figures.spread(right))
    else:
        least = EXACT if key == "tensors" else LEAST_MEMORY
        apart = abs(b - a) > least * max(a, b)
    return {"ratio": b / a, "mark": _mark(a, b, apart), "reason": ""}


def _apart(a: float, spread_a: float, b: float, spread_b: float) -> bool:
    """Whether the intervals around two figures do not meet."""
    low, high = ((a, spread_a), (b, spread_b)) if a < b else ((b, spread_b), (a, spread_a))
    return low[0] * (1 + low[1]) < high[0] * (1 - high[1])


def _mark(a: float, b: float, apart: bool) -> str:
    return "same" if not apart else "less" if b < a else "more"


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
            row |= {"ratio": after / before if before else None, "mark": _mark(before, after, apart)}
        row |= {"left_s": _time(a, key) if a else None, "right_s": _time(b, key) if b else None}
        row |= {"left_own_s": _own(a, key) if a else None, "right_own_s": _own(b, key) if b else None}
        joined.append(row)
    return joined


def noise_of(*cells: CellResult) -> float:
    """How far times of rows may lie apart by chance: the spreads of the cells, or of their labelled calls."""
    total = 0.0
    for cell in cells:
        calls = ((cell.breakdown or {}).get("overhead") or {}).get("labelled_s") or []
        reach = (max(calls) - min(calls)) / (sum(calls) / len(calls)) / 2 if len(calls) > 1 and sum(calls) else 0.0
        total += max(figures.spread(cell), reach)
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
