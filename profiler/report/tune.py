"""What `tune` ends with: how many were tried, the Pareto front as a table and a plot, the pick and why: one screen."""

from __future__ import annotations

import math
import string
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from profiler.metrics import LATENCY, PEAK, RTF
from profiler.report.plots.front import LEAST, LOGARITHMIC
from profiler.report.table import Table
from profiler.report.variants import ratio_text
from profiler.tuning.choice import Choice, Point
from profiler.tuning.limits import FIGURES, RATES
from profiler.units import many, place_text

if TYPE_CHECKING:
    from profiler.api import TunedRun
    from profiler.tuning.search import Tuning

MOST_POINTS = 7
MOST_REASONS = 3
MOST_LINES = 25
WIDTH = 50  # characters between the ends of the plot's axis
LEAST_ROWS, MOST_ROWS = 3, 7  # of the plot; where there is no room for so few, the picture in the folder has to do


def tuned_parts(tuning: Tuning, found: TunedRun) -> list[Table | str]:
    """For a terminal: at most 25 lines of it."""
    parts: list[Table | str] = [_tried(tuning, found)]
    if found.choice is not None and found.choice.points:
        parts.append(_front(tuning, found))
    parts.append(_pick(found))
    if found.choice is not None:
        used = sum(
            len(part.markdown().splitlines() if isinstance(part, Table) else part.splitlines()) for part in parts
        )
        parts.insert(2, plot_text(found.choice, MOST_LINES - used - len(parts)))
    return [part for part in parts if part]


def shown_points(choice: Choice) -> dict[str, Point]:
    """The rows of the table, by the letters that they have in the plot."""
    points = [point for point in choice.points if point.front or point is choice.pick]
    return dict(zip(string.ascii_lowercase, points[:MOST_POINTS], strict=False))


def plot_text(choice: Choice, lines: int) -> str:
    """The points in so many lines, indented as Markdown has what keeps its spaces; empty where that is little."""
    known, rows = choice.places, min(lines - 2, MOST_ROWS)
    if len(known) < LEAST or rows < LEAST_ROWS:
        return ""
    x, y = (FIGURES[name] for name in choice.axes)
    points, across, up = (list(each) for each in zip(*known, strict=True))
    columns, heights = _positions(across, WIDTH), _positions(up, rows)
    marks = {id(point): letter for letter, point in shown_points(choice).items()}
    grid = [[" "] * WIDTH for _ in range(rows)]
    for point, column, height in sorted(
        zip(points, columns, heights, strict=True), key=lambda each: (each[0] is choice.pick, id(each[0]) in marks)
    ):
        grid[rows - 1 - height][column] = marks.get(id(point), ".")
    ends = [y.number(max(up)), *[""] * (rows - 2), y.number(min(up))]
    wide = max(map(len, ends))
    low, high = x.number(min(across)), x.number(max(across))
    drawn = [f"{end:>{wide}} |{''.join(row).rstrip()}" for end, row in zip(ends, grid, strict=True)]
    head = f"{y.head}, over {x.head}" + ("; .: not on the front" if len(known) > len(marks) else "")
    axis = f"{'':>{wide}} {low} {'-' * (WIDTH - len(low) - len(high) - 1)} {high}"
    return "\n".join(f"    {line}" for line in (head, *drawn, axis))


def _positions(values: Sequence[float], count: int) -> list[int]:
    """Where each stands of so many places, by its logarithm where they differ much."""
    low, high = min(values), max(values)
    if low > 0 and high > LOGARITHMIC * low:
        values = [math.log(value) for value in values]
        low, high = math.log(low), math.log(high)
    return [round((value - low) / (high - low) * (count - 1)) if high > low else 0 for value in values]


def _tried(tuning: Tuning, found: TunedRun) -> str:
    batches = tuning.loaded.recipe.profiling_dimensions.batch_sizes
    limits = ", ".join(limit.text for limit in tuning.aim.limits) or "no limit"
    lines = [
        f"{tuning.loaded.name}: {many(len(tuning.names) * len(batches), 'candidate')} ({len(tuning.names)} variants x "
        f"{many(len(batches), 'batch size')}), for {FIGURES[tuning.aim.goal].short}, under {limits}."
    ]
    selection = found.selection
    if selection.over:
        lines.append(f"Over a limit at the first look: {len(selection.over)}, {_example(found, selection.over)}.")
    reasons: dict[str, list[str]] = {}
    for cell in sorted(selection.failed, key=lambda cell: cell.variant):
        reasons.setdefault(selection.dropped[cell], []).append(cell.variant)
    for run in filter(None, (found.final,)):
        for failed in run.results.cells:
            if failed.status != "ok" and failed.reason:
                reasons.setdefault(failed.reason, []).append(failed.variant)
    for reason, variants in list(reasons.items())[:MOST_REASONS]:
        names = list(dict.fromkeys(variants))
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        lines.append(f"Not measured: {names[0]}{more}: {reason[:150]}")
    if len(reasons) > MOST_REASONS:
        lines.append(f"and {many(len(reasons) - MOST_REASONS, 'more reason')}, in the report.")
    return "\n".join(lines)


def _example(found: TunedRun, cells: set[Any]) -> str:
    cell = min(cells, key=lambda each: (each.variant, each.batch_size))
    return f"such as {cell.variant}, batch {cell.batch_size} ({found.selection.dropped[cell]})"


def _front(tuning: Tuning, found: TunedRun) -> Table:
    assert found.choice is not None
    assert found.final is not None
    points = [point for point in found.choice.points if point.front or point is found.choice.pick]
    letters = {id(point): letter for letter, point in shown_points(found.choice).items()}
    first = found.final.results.variants[0]
    limited = [limit.figure for limit in tuning.aim.limits]
    rates = [name for name in RATES if any(point.figures.get(name) for point in points)]
    rates = [name for name in rates if name == "wer" or name in limited]
    extra = [name for name in ("energy", "size") if name in (*limited, tuning.aim.goal)]
    header = ["variant", "batch", RTF.head, LATENCY.head, PEAK.head, *(FIGURES[name].head for name in (*extra, *rates))]
    rows = []
    for point in points[:MOST_POINTS]:
        row = [f"{letters[id(point)]}: {point.cell.variant}", str(point.cell.batch_size), *_shown(point)]
        row += [FIGURES[name].number(point.number(name)) for name in (*extra, *rates)]
        rows.append([*row, _ratio(point), _mark(point, found)])
    title = f"Pareto front of the finalists, {tuning.seconds:g} s of audio: RTF, latency, memory"
    title += ", error rate" if rates else ""
    table = Table(title, [*header, f"time / {first}", ""], rows)
    more = len(points) - len(rows)
    others = len(found.choice.points) - len(points)
    said = [f"and {more} more on the front"] * bool(more) + [f"{others} measured, not on the front"] * bool(others)
    confidence = next((point.ratio.confidence for point in points if point.ratio and point.ratio.ci), None)
    told = f"In brackets: the {confidence * 100:g} % CI of the ratio, at the same batch size. " if confidence else ""
    table.remarks = [(told + "; ".join(said)).strip() + ("." if said else "")] if told or said else []
    return table


def _shown(point: Point) -> list[str]:
    return [metric.cell_number(point.cell) for metric in (RTF, LATENCY, PEAK)]


def _ratio(point: Point) -> str:
    ratio = point.ratio
    if ratio is None or ratio.ratio is None:
        return ""
    ends = " to ".join(ratio_text(end).removeprefix("x") for end in ratio.ci) if ratio.ci else "no CI"
    return f"{ratio_text(ratio.ratio)} ({ends})"


def _mark(point: Point, found: TunedRun) -> str:
    if found.choice is not None and point is found.choice.pick:
        return "pick"
    return f"over: {point.over[0]}" if point.over else ""


def _pick(found: TunedRun) -> str:
    if found.choice is None:
        report = f" Report: {found.look.folder / 'report.html'}" if found.look else ""
        return f"No candidate is left: {_nearest(found)}.{report}"
    lines = [f"Pick: {found.choice.why}" if found.choice.pick else found.choice.why]
    if found.recipe is not None:
        lines.append(f"Recipe: {found.recipe}")
    runs = [run for run in (found.final, found.look) if run is not None]
    lines.append("Report: " + "   Candidates: ".join(str(run.folder / "report.html") for run in runs))
    if found.plot is not None:
        lines.append(f"Plot: {found.plot}")
    return "\n".join(lines)


def _nearest(found: TunedRun) -> str:
    dropped = found.selection.dropped
    over = sorted(found.selection.over, key=lambda cell: (cell.variant, cell.batch_size))
    if over:
        return f"every one is over a limit, {_example(found, found.selection.over)}"
    return next(iter(dropped.values()), "none could be measured")


def plain_tuned(tuning: Tuning, found: TunedRun) -> dict[str, Any]:
    """For --json."""
    choice = found.choice
    return {
        "goal": tuning.aim.goal,
        "limits": [limit.text for limit in tuning.aim.limits],
        "candidates": [[cell.variant, cell.batch_size] for cell in tuning.all().left],
        "dropped": [
            {"variant": cell.variant, "batch_size": cell.batch_size, "reason": reason}
            for cell, reason in found.selection.dropped.items()
        ],
        "points": [_plain_point(point) for point in choice.points] if choice else [],
        "pick": _plain_point(choice.pick) if choice and choice.pick else None,
        "why": choice.why if choice else _nearest(found),
        "recipe": str(found.recipe) if found.recipe else None,
        "plot": str(found.plot) if found.plot else None,
        "runs": [str(run.folder) for run in (found.look, found.final) if run],
    }


def _plain_point(point: Point) -> dict[str, Any]:
    return {
        "variant": point.cell.variant,
        "place": place_text(*point.cell.key[1:]),
        "batch_size": point.cell.batch_size,
        **{name: point.number(name) for name in point.figures},
        "ratio": point.ratio.ratio if point.ratio else None,
        "ci": point.ratio.ci if point.ratio else None,
        "front": point.front,
        "over": point.over,
    }
