"""A figure of each cell as curves, over durations or over batch sizes, with intervals; for one variant or several.

One variant: a curve for each batch size (or duration). Several: a panel for each, with a curve a variant. A hollow
marker is an unstable figure.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from profiler.report.facts import name_of
from profiler.report.plots.style import HEIGHT, PANEL_HEIGHT, PAPER, look, panels, ticks_at
from profiler.results.metric import Metric
from profiler.results.types import CellResult, Results

Along = Literal["seconds", "batch_size"]
MOST_PANELS = 6
MOST_CURVES = 14  # twice as many as there are colours; more cannot be told apart
HOLLOW = "hollow: unstable"
# Shares of the width of the axis, which is logarithmic.
MARGIN = 0.06
ASIDE = 0.007  # between two curves, so that intervals do not cover one another
SECONDS, BATCH = "audio, s", "batch size"


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


@dataclass(frozen=True)
class Sheet:
    """What is to be drawn: panels with their curves, and what is said beside them."""

    names: list[str]
    curves: list[list[Curve]]
    note: str
    along: Along
    metric: Metric

    @property
    def title(self) -> str:
        return f"{self.metric.title} over the {'length of the audio' if self.along == 'seconds' else 'batch size'}"

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


def sheet_of(results: Results, metric: Metric, along: Along) -> Sheet | None:
    """The panels and curves of a run; None with fewer than two places to draw a line between."""
    points = [(cell, value) for cell in results.cells if (value := Value.of(metric, cell)) is not None]
    variants = [name for name in results.variants if any(cell.variant == name for cell, _ in points)]
    if len({_x(cell, along) for cell, _ in points}) < 2:
        return None
    fixed = sorted({_fixed(cell, along) for cell, _ in points})
    note = name_of(results, variants)
    places: dict[float, set[float]] = {}
    for cell, _ in points:
        places.setdefault(_fixed(cell, along), set()).add(_x(cell, along))
    single = len(variants) == 1
    lines = fixed if single else [x for x in fixed if len(places[x]) > 1]
    shown = _spread_over(lines or fixed, MOST_CURVES if single else MOST_PANELS)
    if len(shown) < len(lines):
        note += f"; {len(shown)} of {len(lines)} {'batch sizes' if along == 'seconds' else 'durations'}"
    if single:
        curves = [[_curve(points, variants[0], x, along, n, _name(x, along)) for n, x in enumerate(shown)]]
        names = [""]
    else:
        found = [[_curve(points, name, x, along, n, name) for n, name in enumerate(variants)] for x in shown]
        curves = [[curve for curve in panel if curve.xs] for panel in found]
        names = [_name(x, along) for x in shown]
    return Sheet(names, curves, note, along, metric)


@contextmanager
def drawn(sheet: Sheet, path: Path, fitted: bool = False) -> Iterator[list[Any]]:
    """Axes with the curves on them, to which a plot adds its lines. `fitted`: points alone, the lines are a fit."""
    x = SECONDS if sheet.along == "seconds" else BATCH
    note = sheet.note if fitted else f"{sheet.note}; bars: 95 % CI"
    note += f"; {HOLLOW}" if sheet.has_unstable and not fitted else ""
    height = HEIGHT if len(sheet.names) == 1 else PANEL_HEIGHT
    with panels(path, sheet.title, x, sheet.metric.head, sheet.names, note, height=height) as all_axes:
        for axes, curves in zip(all_axes, sheet.curves, strict=True):
            axes.set_xscale("log")
            for curve in curves:
                _draw(axes, curve, sheet.aside(curve), fitted)
        all_axes[0].set_xlim(sheet.xs[0] / sheet.width**MARGIN, sheet.xs[-1] * sheet.width**MARGIN)
        ticks_at(all_axes[0].xaxis, sheet.xs)
        _legend_of_all(all_axes[0], sheet)
        yield all_axes


def _draw(axes: Any, curve: Curve, aside: float, fitted: bool) -> None:
    style = look(curve.number)
    xs = [x * aside for x in curve.xs]
    ys = [value.value for value in curve.values]
    if not fitted:
        lows, highs = [value.low for value in curve.values], [value.high for value in curve.values]
        axes.vlines(xs, lows, highs, color=style["color"], linewidth=1.3)
        axes.plot(xs, ys, color=style["color"], linestyle=style["linestyle"], linewidth=1.3)
    for hollow in (False, True):
        places = [number for number, unstable in enumerate(curve.unstable) if (unstable and not fitted) is hollow]
        if places:
            axes.plot(
                [xs[place] for place in places],
                [ys[place] for place in places],
                **style | {"linestyle": "none"},
                markersize=5,
                markerfacecolor=PAPER if hollow else style["color"],
            )


def _legend_of_all(axes: Any, sheet: Sheet) -> None:
    """Every curve of every panel once, also those that the first panel lacks."""
    labels = {curve.label: curve.number for panel in sheet.curves for curve in panel}
    for label, number in sorted(labels.items(), key=lambda item: item[1]):
        axes.plot([], [], label=label, linewidth=1.3, markersize=5, **look(number))


def _curve(
    points: list[tuple[CellResult, Value]], variant: str, fixed: float, along: Along, number: int, label: str
) -> Curve:
    mine = [(cell, value) for cell, value in points if cell.variant == variant and _fixed(cell, along) == fixed]
    mine.sort(key=lambda point: _x(point[0], along))
    return Curve(
        variant,
        fixed,
        label,
        number,
        [_x(cell, along) for cell, _ in mine],
        [value for _, value in mine],
        [cell.verdict == "unstable" for cell, _ in mine],
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
