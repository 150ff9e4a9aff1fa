"""A history as tables, and what is said below them."""

from __future__ import annotations

from pathlib import Path

from profiler.history import NEEDED, STRETCH, HistoryQuery, LevelShift, Series
from profiler.report.comparison import share_text
from profiler.report.table import Table
from profiler.units import many, place_text


def history_title(recipe: str, asked: HistoryQuery) -> str:
    """'Real-time factor of wav2vec2, 5 s x 1'."""
    cell = f", {place_text(*asked.cell)}" if asked.cell else ""
    return f"{asked.metric.title} of {Path(recipe).name.removesuffix('.yaml')}{cell}"


def history_tables(title: str, series: list[Series], asked: HistoryQuery) -> list[Table]:
    """One table per series: one row per run or commit, with the level shifts in their places."""
    return [_table(f"{title} - {each.name}", each, asked) for each in series]


def _table(title: str, series: Series, asked: HistoryQuery) -> Table:
    by_commit = asked.by == "commit"
    shifts = {shift.at: shift for shift in series.shifts}
    rows = []
    for number, point in enumerate(series.points):
        commit = point.commit[:10] if point.commit else ""
        first = [commit or point.label, str(len(point.runs)), point.date] if by_commit else [point.date, commit]
        half_width = f" ±{share_text(point.half_width)}" if point.half_width is not None else ""
        rows.append(
            [
                *first,
                *([] if by_commit else [point.runs[0] + ("" if point.complete else " (not complete)")]),
                asked.metric.text(point.value, point.half_width) + half_width,
                f"x{point.value / series.points[0].value:.2f}" if series.points[0].value else "",
                shift_text(shifts[number], asked) if number in shifts else "",
            ]
        )
    header = ["commit", "runs", "first run"] if by_commit else ["date", "commit", "run"]
    table = Table(title, [*header, asked.metric.key, "to the first", "level shift"], rows)
    table.remarks.append(_remark(series))
    return table


def shift_text(shift: LevelShift, asked: HistoryQuery) -> str:
    """'+12 % (worse)'."""
    change = shift.ratio - 1
    worse = (change > 0) == (asked.metric.better == "lower")
    return f"{change:+.0%} ({'worse' if worse else 'better'})"


def _remark(series: Series) -> str:
    if len(series.points) < NEEDED:
        return f"Level shifts are looked for from {NEEDED} points on; this series has {len(series.points)}."
    found = "No level shift" if not series.shifts else many(len(series.shifts), "level shift")
    floor = f" and a run-to-run floor of {share_text(series.floor)} ({series.floor_source})" if series.floor else ""
    return (
        f"{found} beyond the noise of the series{floor}. A new level shows after {STRETCH} points; for the last run "
        "alone, use compare."
    )
