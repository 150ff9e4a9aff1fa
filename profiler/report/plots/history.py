"""A metric over runs: one line per variant and machine, levels and their shifts marked."""

from __future__ import annotations

import statistics
from itertools import pairwise
from pathlib import Path

from profiler.history import HistoryQuery, Series
from profiler.report.history import shift_text
from profiler.report.plots.style import figure, look

MOST_CHARACTERS = 60  # of all labels of the axis together
NOTE = "Bars: 95 % CI. Bands: the level of each stretch; dotted: where it shifted."


def draw_history(series: list[Series], asked: HistoryQuery, title: str, path: Path) -> list[Path]:
    """path.png and path.svg."""
    labels = _labels(series, asked)
    places = {label: number for number, label in enumerate(labels)}
    scale = asked.metric.shown.scale
    with figure(path, title, "commit" if asked.by == "commit" else "date of the run", asked.metric.axis, NOTE) as axes:
        for number, each in enumerate(series):
            style = look(number)
            x = [places[point.label] for point in each.points]
            values = [point.value / scale for point in each.points]
            errors = [point.value * (point.half_width or 0.0) / scale for point in each.points]
            axes.errorbar(
                x, values, errors, label=each.name, markersize=4, linewidth=0.8, elinewidth=0.7, capsize=2, **style
            )
            edges = [0, *(shift.at for shift in each.shifts), len(each.points)]
            for start, end in pairwise(edges):
                level = statistics.median(values[start:end])
                axes.plot([x[start] - 0.3, x[end - 1] + 0.3], [level, level], color=style["color"], alpha=0.35, lw=4)
            for shift in each.shifts:
                at = (x[shift.at - 1] + x[shift.at]) / 2
                axes.axvline(at, color=style["color"], linewidth=0.8, linestyle=":")
                axes.annotate(
                    shift_text(shift, asked),
                    (at, 0.03),
                    xytext=(3, 0),
                    xycoords=("data", "axes fraction"),
                    textcoords="offset points",
                    fontsize=8,
                )
        short = _short(labels, asked)
        step = max(1, -(-sum(len(label) + 2 for label in short) // MOST_CHARACTERS))
        axes.set_xticks(range(0, len(labels), step), short[::step], fontsize=8)
        axes.set_ylim(bottom=0)
    return [path.with_suffix(".png"), path.with_suffix(".svg")]


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
