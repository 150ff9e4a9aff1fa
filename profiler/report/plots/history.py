"""A metric over runs: one line per variant and machine, levels and their shifts marked."""

from __future__ import annotations

import statistics
from itertools import pairwise
from pathlib import Path
from typing import Any

from profiler.history import HistoryQuery, Series
from profiler.report.history import shift_text
from profiler.report.plots.style import (
    HEIGHT,
    MOST_SERIES,
    PANEL_HEIGHT,
    SMALL,
    Caption,
    Plot,
    across,
    look,
    panels,
)

MOST_CHARACTERS = 90  # of all labels of the axis together
NOTE = "Bars: 95 % CI. Bands: the level of each stretch; dotted: where it shifted."


def draw_history(series: list[Series], asked: HistoryQuery, title: str, path: Path) -> Plot:
    """One line per series; where they are many, a panel for each."""
    labels = _labels(series, asked)
    places = {label: number for number, label in enumerate(labels)}
    x = "commit" if asked.by == "commit" else "date of the run"
    multiples = len(series) > MOST_SERIES
    names, height = ([each.name for each in series], PANEL_HEIGHT) if multiples else ([""], HEIGHT)
    with panels(path, Caption(title, NOTE), x, asked.metric.axis, names, height=height, wide=True) as plot:
        for number, each in enumerate(series):
            _draw(plot, plot.axes[number if multiples else 0], each, 0 if multiples else number, places, asked)
            if not multiples:
                plot.axes[0].plot([], [], label=each.name, markersize=3.6, linewidth=0.8, **look(number))
        short = _short(labels, asked)
        room = MOST_CHARACTERS // across(names)
        step = max(1, -(-sum(len(label) + 2 for label in short) // room))
        plot.axes[0].set_xticks(range(0, len(labels), step), short[::step])
        plot.axes[0].set_ylim(bottom=0)
    return plot


def _draw(plot: Plot, axes: Any, each: Series, number: int, places: dict[str, int], asked: HistoryQuery) -> None:
    style, metric = look(number), asked.metric
    x = [places[point.label] for point in each.points]
    values = [point.value / metric.shown.scale for point in each.points]
    errors = [value * (point.half_width or 0.0) for value, point in zip(values, each.points, strict=True)]
    axes.errorbar(x, values, errors, linewidth=0.8, elinewidth=0.7, capsize=1.8, **style | {"marker": ""})
    tips = [f"{each.name}, {point.label}: {metric.short} {metric.text(point.value)}" for point in each.points]
    plot.mark(axes, x, values, tips, color=style["color"], marker=style["marker"], markersize=3.6)
    edges = [0, *(shift.at for shift in each.shifts), len(each.points)]
    for start, end in pairwise(edges):
        level = statistics.median(values[start:end])
        axes.plot([x[start] - 0.3, x[end - 1] + 0.3], [level, level], color=style["color"], alpha=0.35, lw=3)
    for shift in each.shifts:
        at = (x[shift.at - 1] + x[shift.at]) / 2
        axes.axvline(at, color=style["color"], linewidth=0.8, linestyle=":")
        place = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points", "fontsize": SMALL}
        axes.annotate(shift_text(shift, asked), (at, 0.03), xytext=(3, 0), **place)


def _labels(series: list[Series], asked: HistoryQuery) -> list[str]:
    """All dates, or all commits, in order; what several series share stands in one place."""
    dated = {point.label: point.date for each in series for point in reversed(each.points)}
    return sorted(dated, key=lambda label: dated[label])


def _short(labels: list[str], asked: HistoryQuery) -> list[str]:
    """Dates without what they share: the year, and the time of the day where days tell them apart."""
    if asked.by == "commit":
        return labels
    shorter = [label[5:] if len({label[:4] for label in labels}) == 1 else label for label in labels]
    days = [label.partition(" ")[0] for label in shorter]
    return days if len(set(days)) == len(days) else shorter
