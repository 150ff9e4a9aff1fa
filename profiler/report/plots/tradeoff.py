"""Accuracy beside speed: the error of each variant over what it costs, one plot per cost, with the Pareto front."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from profiler.metrics import METRICS
from profiler.report.plots.style import (
    HEIGHT,
    LEFT,
    MOST_SERIES,
    PAGE,
    PAPER,
    RIGHT,
    Caption,
    Plot,
    figure,
    label_points,
    look,
)
from profiler.report.tradeoff import COSTS, Point, front, points_of
from profiler.results.types import Results

NAME = "tradeoff"
LEAST = 2  # points; one alone trades nothing


def draw(results: Results, folder: Path) -> list[Plot]:
    """tradeoff-rtf, -memory and -size; nothing where fewer than two variants have an error rate."""
    points, cell = points_of([results])
    about = Caption.of(results, results.variants, "")
    return draw_points(points, folder, cell, note=about.note, mark=about.mark)


def draw_points(
    points: Sequence[Point],
    folder: Path,
    cell: str | None,
    error: str = "wer",
    costs: Sequence[str] = tuple(COSTS),
    note: str = "",
    mark: str = "",
) -> list[Plot]:
    drawn: list[Plot] = []
    for cost in costs:
        known = [point for point in points if point.cost(cost) is not None and point.error(error) is not None]
        if len(known) >= LEAST:
            title = f"{METRICS[error].title} over {COSTS[cost].short}"
            notes = [note, "the lower left is best", "filled: on the Pareto front", "bars: 95 % CI"]
            caption = Caption(title, "; ".join(filter(None, notes)), mark)
            drawn.append(_draw_one(known, folder / f"{NAME}-{cost}", cell, error, cost, caption))
    return drawn


def _draw_one(points: list[Point], path: Path, cell: str | None, error: str, cost: str, caption: Caption) -> Plot:
    label, unit = COSTS[cost].axis, COSTS[cost].shown.scale
    label += f" (cell {cell})" if cost == "memory" and cell else ""
    best = front(points, cost, error)
    crowded = len(points) > MOST_SERIES  # then names stand at the points, and the colour says what is on the front
    with figure(path, caption, label, METRICS[error].axis, wide=crowded) as plot:
        (axes,) = plot.axes
        for number, point in enumerate(points):
            _put(plot, point, number if not crowded else point not in best, error, cost, point in best, not crowded)
        steps = [((point.cost(cost) or 0.0) / unit, _rate(point, error)) for point in best]
        axes.plot(*zip(*steps, strict=True), color="black", linewidth=0.7, drawstyle="steps-post", zorder=1)
        low, high = axes.get_ylim()
        axes.set_ylim(max(0.0, low), high)
        axes.set_xlim(left=max(0.0, axes.get_xlim()[0]))
        if crowded:
            order = sorted(points, key=lambda point: point not in best)
            named = [((point.cost(cost) or 0.0) / unit, _rate(point, error), point.name) for point in order]
            label_points(axes, named, (PAGE - LEFT - RIGHT, HEIGHT))
    return plot


def _put(plot: Plot, point: Point, number: int, error: str, cost: str, filled: bool, named: bool) -> None:
    """A mark with the interval of its error."""
    style = {name: value for name, value in look(number).items() if name != "linestyle"}
    rate, metric, unit = point.error(error), METRICS[error], COSTS[cost].shown.scale
    x, y = (point.cost(cost) or 0.0) / unit, _rate(point, error)
    if rate and rate.ci95:
        low, high = (value / metric.shown.scale for value in rate.ci95)
        plot.axes[0].vlines(x, low, high, color=style["color"], linewidth=0.8, alpha=0.6, zorder=2)
    tip = f"{point.name}: {metric.short} {metric.text(rate.value if rate else None)}"
    if rate and rate.ci95:
        tip += f", 95 % CI {metric.number(rate.ci95[0])} to {metric.text(rate.ci95[1])}"
    tip += f", {COSTS[cost].short} {COSTS[cost].text(point.cost(cost))}"
    fill = style["color"] if filled else PAPER
    label = point.name if named else None
    plot.mark(plot.axes[0], [x], [y], [tip], **style, markerfacecolor=fill, markersize=4.5, label=label, zorder=3)


def _rate(point: Point, error: str) -> float:
    rate = point.error(error)
    assert rate is not None
    return rate.value / METRICS[error].shown.scale
