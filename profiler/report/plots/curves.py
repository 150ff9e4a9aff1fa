"""A figure of each cell as curves, over durations or over batch sizes, with intervals; for one variant or several.

One variant: a curve for each batch size (or duration). Several: a panel for each, with one curve per variant. Where an
axes would have more than MOST_SERIES curves they become small multiples: one panel per curve, the others faint behind
it; one panel per variant. A hollow mark is an unstable figure.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from profiler.report.plots.style import (
    FAINT,
    GREY,
    HEIGHT,
    MOST_SERIES,
    PANEL_HEIGHT,
    PAPER,
    Caption,
    Plot,
    look,
    panels,
    ticks_at,
)
from profiler.results.metric import Metric
from profiler.results.types import CellResult, Results

Along = Literal["seconds", "batch_size"]
MOST_PANELS = 12
HOLLOW = "unstable"
CI = "bars: 95 % CI, set slightly apart"
# Shares of the width of the axis, which is logarithmic.
MARGIN = 0.06
ASIDE = 0.007  # between two curves, so that intervals do not cover one another
SECONDS, BATCH = "audio, s", "batch size"
MOST_ABOVE = 2.0  # times the highest figure: how far an interval is drawn


@dataclass(frozen=True)
class Value:
    """A figure and the ends of its 95 % CI; without one, both are the figure itself."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, metric: Metric, cell: CellResult) -> Value | None:
        """In the unit that people read; None where there is nothing above 0."""
        value = metric.in_cell(cell)
        if not value or value < 0:
            return None
        ends = (metric.ci95(cell) if metric.ci95 else None) or (value, value)
        return cls(*(each / metric.shown.scale for each in (value, *ends)))


@dataclass(frozen=True)
class Curve:
    """Cells of one variant that lie on a line, and their figures."""

    variant: str
    fixed: float  # the batch size, or the duration
    label: str
    number: int  # which look it has
    xs: list[float]
    values: list[Value]
    unstable: list[bool]
    tips: list[str]


@dataclass(frozen=True)
class Sheet:
    """What is to be drawn: panels with their curves, and what is said beside them."""

    names: list[str]
    curves: list[list[Curve]]
    caption: Caption
    along: Along
    metric: Metric
    behind: tuple[Curve, ...] = ()  # faint in every panel

    @property
    def xs(self) -> list[float]:
        return sorted({x for panel in self.curves for curve in panel for x in curve.xs})

    @property
    def width(self) -> float:
        return self.xs[-1] / self.xs[0]

    def aside(self, curve: Curve) -> float:
        """The factor by which a curve is moved along the axis."""
        last = max(each.number for panel in self.curves for each in panel)
        return float(self.width ** (ASIDE * (curve.number - last / 2)))

    @property
    def has_unstable(self) -> bool:
        return any(unstable for panel in self.curves for curve in panel for unstable in curve.unstable)

    @property
    def values(self) -> list[Value]:
        return [value for panel in self.curves for curve in panel for value in curve.values]


def sheet_of(results: Results, metric: Metric, along: Along, *notes: str) -> Sheet | None:
    """The panels and curves of a run; None with fewer than two places to draw a line between."""
    points = [(cell, value) for cell in results.cells if (value := Value.of(metric, cell)) is not None]
    variants = [name for name in results.variants if any(cell.variant == name for cell, _ in points)]
    if len({_x(cell, along) for cell, _ in points}) < 2:
        return None
    fixed = sorted({_fixed(cell, along) for cell, _ in points})
    places: dict[float, set[float]] = {}
    for cell, _ in points:
        places.setdefault(_fixed(cell, along), set()).add(_x(cell, along))
    several, crowded = len(variants) > 1, len(variants) > MOST_SERIES
    lines = [x for x in fixed if len(places[x]) > 1] if several else fixed
    lines = lines or fixed
    shown = _spread_over(lines, MOST_SERIES if several else MOST_PANELS)
    said = [f"{len(shown)} of {len(lines)} {'batch sizes' if along == 'seconds' else 'durations'}"]
    notes = (*notes, *(said if len(shown) < len(lines) else []))
    if crowded and len(variants) > MOST_PANELS:
        notes = (*notes, f"the first {MOST_PANELS} of {len(variants)} variants")
    behind: tuple[Curve, ...] = ()
    if several and not crowded:
        names = [_name(x, along) for x in shown]
        found = [[_curve(points, metric, name, x, along, n, name) for n, name in enumerate(variants)] for x in shown]
    elif several:
        names = variants[:MOST_PANELS]
        found = [
            [_curve(points, metric, name, x, along, n, _name(x, along)) for n, x in enumerate(shown)] for name in names
        ]
    else:
        curves = [_curve(points, metric, variants[0], x, along, n, _name(x, along)) for n, x in enumerate(shown)]
        multiples = len(shown) > MOST_SERIES
        names = [_name(x, along) for x in shown] if multiples else [""]
        # Alone in its panel, a curve needs neither a colour of its own nor a name in the legend.
        found = [[replace(curve, label="", number=0)] for curve in curves] if multiples else [curves]
        behind = tuple(curves) if multiples else ()
    caption = Caption.of(
        results,
        variants,
        f"{metric.title} over the {'length of the audio' if along == 'seconds' else 'batch size'}",
        *notes,
    )
    drawn = [[curve for curve in panel if curve.xs] for panel in found]
    return Sheet(names, drawn, caption, along, metric, behind)


@contextmanager
def drawn(sheet: Sheet, path: Path, fitted: bool = False) -> Iterator[Plot]:
    """A plot with the curves on it, to which a plot adds its lines. `fitted`: points alone, the lines are a fit."""
    x = SECONDS if sheet.along == "seconds" else BATCH
    height = HEIGHT if len(sheet.names) == 1 else PANEL_HEIGHT
    with panels(path, sheet.caption, x, sheet.metric.head, sheet.names, height=height) as plot:
        for axes, curves in zip(plot.axes, sheet.curves, strict=True):
            axes.set_xscale("log")
            for curve in sheet.behind:
                axes.plot(curve.xs, [value.value for value in curve.values], color=FAINT, linewidth=0.6, zorder=1)
            for curve in curves:
                _draw(plot, axes, curve, sheet.aside(curve), fitted)
        plot.axes[0].set_xlim(sheet.xs[0] / sheet.width**MARGIN, sheet.xs[-1] * sheet.width**MARGIN)
        ticks_at(plot.axes[0].xaxis, sheet.xs)
        _legend_of_all(plot.axes[0], sheet, fitted)
        yield plot


def _draw(plot: Plot, axes: Any, curve: Curve, aside: float, fitted: bool) -> None:
    style = look(curve.number)
    xs = [x * aside for x in curve.xs]
    ys = [value.value for value in curve.values]
    if not fitted:
        # Not below 0: results of others may have an interval that leaves its figure out.
        ends = [[max(0.0, each) for each in side] for side in _reaches(curve)]
        axes.errorbar(xs, ys, ends, fmt="none", ecolor=style["color"], elinewidth=0.9, capsize=1.8, capthick=0.9)
        axes.plot(xs, ys, color=style["color"], linestyle=style["linestyle"], linewidth=0.9)
    for hollow in (False, True):
        places = [number for number, unstable in enumerate(curve.unstable) if (unstable and not fitted) is hollow]
        if places:
            fill = PAPER if hollow else style["color"]
            x, y = ([each[place] for place in places] for each in (xs, ys))
            shape = {"color": style["color"], "marker": style["marker"], "markersize": 3.6, "markeredgewidth": 0.8}
            plot.mark(axes, x, y, [curve.tips[place] for place in places], **shape, markerfacecolor=fill, zorder=3)


def _reaches(curve: Curve) -> tuple[list[float], list[float]]:
    """From the figures down and up to the ends of their intervals."""
    return [each.value - each.low for each in curve.values], [each.high - each.value for each in curve.values]


def _legend_of_all(axes: Any, sheet: Sheet, fitted: bool) -> None:
    """Every curve of every panel once, also those that the first panel lacks."""
    labels: dict[tuple[int, str], bool] = {}
    for curve in (curve for panel in sheet.curves for curve in panel if curve.label):
        labels[curve.number, curve.label] = labels.get((curve.number, curve.label), False) or len(curve.xs) > 1
    for (number, label), is_line in sorted(labels.items()):
        style = look(number) | ({} if is_line else {"linestyle": "none"})
        axes.plot([], [], label=label, linewidth=0.9, markersize=3.6, **style)
    if sheet.has_unstable and not fitted:
        hollow(axes)


def from_zero(plot: Plot, sheet: Sheet) -> None:
    """Of a linear axis: room for all figures and their intervals; an interval far beyond all figures is cut."""
    highest = max(value.value for value in sheet.values)
    plot.axes[0].set_ylim(0, 1.08 * min(max(value.high for value in sheet.values), MOST_ABOVE * highest))


def hollow(axes: Any, label: str = HOLLOW) -> None:
    """Say in the legend what a hollow mark is."""
    axes.plot([], [], "o", label=label, markersize=3.6, color=GREY, markeredgewidth=0.8, markerfacecolor=PAPER)


def _curve(
    points: list[tuple[CellResult, Value]],
    metric: Metric,
    variant: str,
    fixed: float,
    along: Along,
    number: int,
    label: str,
) -> Curve:
    mine = [(cell, value) for cell, value in points if cell.variant == variant and _fixed(cell, along) == fixed]
    mine.sort(key=lambda point: _x(point[0], along))
    whose = f"{variant}, " if label == variant else ""
    return Curve(
        variant,
        fixed,
        label,
        number,
        [_x(cell, along) for cell, _ in mine],
        [value for _, value in mine],
        [cell.verdict == "unstable" for cell, _ in mine],
        [f"{whose}{cell.place}: {metric.cell_tip(cell)}" for cell, _ in mine],
    )


def _x(cell: CellResult, along: Along) -> float:
    return cell.seconds if along == "seconds" else float(cell.batch_size)


def _fixed(cell: CellResult, along: Along) -> float:
    return float(cell.batch_size) if along == "seconds" else cell.seconds


def _name(fixed: float, along: Along) -> str:
    return f"batch {fixed:g}" if along == "seconds" else f"{fixed:g} s"


def _spread_over(values: list[float], most: int) -> list[float]:
    """All of a few; else the first, the last, and some evenly between."""
    if len(values) <= most:
        return values
    step = (len(values) - 1) / (most - 1)
    return [values[round(number * step)] for number in range(most)]
