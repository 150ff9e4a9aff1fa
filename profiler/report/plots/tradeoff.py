"""Accuracy beside speed: the error of each variant over what it costs, a plot a cost, with the Pareto front."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from profiler.metrics import METRICS
from profiler.report.facts import name_of
from profiler.report.plots.style import figure, look
from profiler.report.tradeoff import COSTS, Point, front, points_of
from profiler.results.types import Results

NAME = "tradeoff"
LEAST = 2  # points; one alone trades nothing


def draw(results: Results, folder: Path) -> list[Path]:
    """tradeoff-rtf, -memory and -size, .png and .svg each; nothing where fewer than two variants have an error rate."""
    points, cell = points_of([results])
    return draw_points(points, folder, cell, note=name_of(results, results.variants))


def draw_points(
    points: Sequence[Point],
    folder: Path,
    cell: str | None,
    error: str = "wer",
    costs: Sequence[str] = tuple(COSTS),
    note: str = "",
) -> list[Path]:
    drawn: list[Path] = []
    for cost in costs:
        known = [point for point in points if point.cost(cost) is not None and point.error(error) is not None]
        if len(known) >= LEAST:
            drawn += _draw_one(known, folder / f"{NAME}-{cost}", cell, error, cost, note)
    return drawn


def _draw_one(points: list[Point], path: Path, cell: str | None, error: str, cost: str, note: str) -> list[Path]:
    label, unit = COSTS[cost].axis, COSTS[cost].shown.scale
    label += f" (cell {cell})" if cost == "memory" and cell else ""
    best = front(points, cost, error)
    title = f"Error and {COSTS[cost].short}: the lower left is best; filled: on the Pareto front"
    with figure(path, title, label, METRICS[error].axis, note) as axes:
        for number, point in enumerate(points):
            _put(axes, point, number, error, cost, unit, filled=point in best)
        steps = [((point.cost(cost) or 0.0) / unit, _rate(point, error)) for point in best]
        axes.plot(*zip(*steps, strict=True), color="black", linewidth=0.8, drawstyle="steps-post", zorder=1)
        low, high = axes.get_ylim()
        axes.set_ylim(max(0.0, low), high)
        axes.set_xlim(left=max(0.0, axes.get_xlim()[0]))
    return [path.with_suffix(".png"), path.with_suffix(".svg")]


def _put(axes: Any, point: Point, number: int, error: str, cost: str, unit: float, filled: bool) -> None:
    """A marker with the interval of its error."""
    style = look(number) | {"linestyle": "none"}
    colour = style["color"]
    rate = point.error(error)
    x, y = (point.cost(cost) or 0.0) / unit, _rate(point, error)
    if rate and rate.ci95:
        low, high = (value / METRICS[error].shown.scale for value in rate.ci95)
        axes.vlines(x, low, high, color=colour, linewidth=0.8, alpha=0.6, zorder=2)
    axes.plot(
        x,
        y,
        **style,
        markerfacecolor=colour if filled else "white",
        markersize=7,
        label=point.name,
        zorder=3,
    )


def _rate(point: Point, error: str) -> float:
    rate = point.error(error)
    assert rate is not None
    return rate.value / METRICS[error].shown.scale
