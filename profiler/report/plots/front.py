"""What `tune` measured, as points of the figure that it makes small and of what that costs, with the Pareto front."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from profiler.report.plots.style import HEIGHT, LEFT, PAGE, PAPER, RIGHT, Caption, Plot, figure, label_points, look
from profiler.results.types import Results
from profiler.tuning.choice import Choice, Point
from profiler.tuning.limits import FIGURES

NAME = "front"
LOGARITHMIC = 5.0  # from the least to the most: more would press the small ones together
MARGIN = 1.15
LEAST = 2  # points; one alone is no front


def draw_front(choice: Choice, results: Results, folder: Path) -> Plot | None:
    """front.png, .svg and .pdf; None where fewer than two points have both figures."""
    x, y = (FIGURES[name] for name in choice.axes)
    known = choice.places
    if len(known) < LEAST:
        return None
    notes = ["the lower left is best", "filled: on the Pareto front of all figures", "square: the pick"]
    caption = Caption.of(results, results.variants, f"{y.title} over {x.short} of the finalists", *notes)
    with figure(folder / NAME, caption, x.axis, y.axis, wide=True) as plot:
        (axes,) = plot.axes
        order = sorted(known, key=lambda each: (each[0] is not choice.pick, not each[0].front))
        places = [(across / x.shown.scale, up / y.shown.scale, point.name) for point, across, up in order]
        for (point, *_), (across, up, _) in zip(order, places, strict=True):
            _put(plot, choice, point, (across, up))
        _scale(axes.set_xscale, axes.set_xlim, [across for across, _, _ in places])
        _scale(axes.set_yscale, axes.set_ylim, [up for _, up, _ in places])
        label_points(axes, places, (PAGE - LEFT - RIGHT, HEIGHT))
    return plot


def _scale(scale: Callable[[str], Any], limits: Callable[[float, float], Any], values: Sequence[float]) -> None:
    low, high = min(values), max(values)
    if low > 0 and high > LOGARITHMIC * low:
        scale("log")
    limits(low / MARGIN, high * MARGIN or 1.0)


def _put(plot: Plot, choice: Choice, point: Point, at: tuple[float, float]) -> None:
    style = look(0 if point.front else 1)
    marker = "s" if point is choice.pick else "o"
    shown = [f"{FIGURES[name].short} {FIGURES[name].text(point.number(name))}" for name in choice.axes]
    tip = ", ".join([f"{point.name}: {shown[0]}", *shown[1:], *(f"over: {limit}" for limit in point.over)])
    fill = style["color"] if point.front else PAPER
    plot.mark(
        plot.axes[0],
        [at[0]],
        [at[1]],
        [tip],
        color=style["color"],
        marker=marker,
        markerfacecolor=fill,
        markersize=5.5 if point is choice.pick else 4.5,
        zorder=3,
    )
