"""Roofline: what each cell achieved, below what the machine allows at its share of arithmetic and memory traffic."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from profiler.metrics import METRICS
from profiler.report.plots.style import (
    COLUMN,
    FAINT,
    HEIGHT,
    LEFT,
    MOST_SERIES,
    PANEL_HEIGHT,
    RIGHT,
    SMALL,
    Caption,
    Plot,
    label_points,
    look,
    panels,
)
from profiler.results.types import CellResult, Operations, Results

NAME = "roofline"
TITLE = "Achieved arithmetic against the machine's measured peak (float32)"
X = "FLOP per byte read and written"
ACHIEVED = METRICS["achieved"]
WIDEST = 4.0  # how far the roof is drawn beyond the points, as a factor
MOST_PANELS, MOST_LABELS = 12, 8

Points = list[tuple[CellResult, Operations]]


def draw(results: Results, folder: Path) -> list[Plot]:
    """Nothing where no cell has operations and a measured peak."""
    points = [(cell, found) for cell in results.cells if (found := cell.operations) and _is_drawable(found)]
    if not points:
        return []
    variants = [name for name in results.variants if any(cell.variant == name for cell, _ in points)]
    multiples = len(variants) > MOST_SERIES
    operations = [found for _, found in points]
    roof = "roof: {:.0f} GFLOP/s and {:.0f} GB/s".format(*_peaks(operations))
    caption = Caption.of(results, variants, TITLE, roof, *([] if multiples else ["names of cells: audio x batch"]))
    names = variants[:MOST_PANELS] if multiples else [""]
    height = PANEL_HEIGHT if multiples else HEIGHT
    with panels(folder / NAME, caption, X, ACHIEVED.head, names, height=height) as plot:
        for axes, name in zip(plot.axes, names, strict=True):
            _draw_roof(axes, operations, named=not multiples)
            if multiples:
                everything = [(found.intensity, found.achieved_gflops) for _, found in points]
                axes.plot(*zip(*everything, strict=True), ".", color=FAINT, markersize=2, zorder=1)
            for number, variant in enumerate([name] if multiples else variants):
                mine = [(cell, found) for cell, found in points if cell.variant == variant]
                _draw_points(plot, axes, mine, number, "" if multiples or len(variants) == 1 else variant)
        if not multiples:
            label_points(plot.axes[0], _labels(points), (COLUMN - LEFT - RIGHT, height))
    return [plot]


def _draw_roof(axes: Any, points: list[Operations], named: bool) -> None:
    peak, bandwidth = _peaks(points)
    ridge = peak / bandwidth
    intensities = [found.intensity or 0.0 for found in points]
    low, high = min(*intensities, ridge) / WIDEST, max(*intensities, ridge) * WIDEST
    axes.plot([low, ridge, high], [low * bandwidth, peak, peak], color="black", linewidth=0.9)
    along = (low * ridge) ** 0.5
    places = {f"{peak:.0f} GFLOP/s": (high, peak), f"{bandwidth:.0f} GB/s": (along, along * bandwidth)}
    for text, place in places.items() if named else ():
        axes.annotate(text, place, ha="right", va="bottom", fontsize=SMALL)
    axes.set_xscale("log")
    axes.set_yscale("log")
    lowest = min(found.achieved_gflops or peak for found in points)
    axes.set_xlim(low / 1.1, high * 1.1)
    axes.set_ylim(min(lowest, low * bandwidth) / 1.3, peak * 2.2)


def _draw_points(plot: Plot, axes: Any, mine: Points, number: int, label: str) -> None:
    style = {name: value for name, value in look(number).items() if name != "linestyle"}
    tips = [f"{cell.variant}, {cell.place}: {ACHIEVED.text(found.achieved_gflops)}" for cell, found in mine]
    xs, ys = [found.intensity or 0.0 for _, found in mine], [found.achieved_gflops or 0.0 for _, found in mine]
    plot.mark(axes, xs, ys, tips, **style, markersize=3.6, label=label or None)


def _labels(points: Points) -> list[tuple[float, float, str]]:
    """The ends first: where there is no room for all names, those tell the most."""
    order = sorted(points, key=lambda point: point[1].achieved_gflops or 0.0)
    inwards = [order[place // 2] if place % 2 else order[-1 - place // 2] for place in range(len(order))]
    return [(found.intensity or 0.0, found.achieved_gflops or 0.0, cell.place) for cell, found in inwards][:MOST_LABELS]


def _is_drawable(found: Operations) -> bool:
    return bool(found.intensity and found.achieved_gflops and found.peak_gflops and found.peak_gb_per_s)


def _peaks(points: Iterable[Operations]) -> tuple[float, float]:
    """The highest of the peaks in the run: with all threads, where variants use fewer."""
    known = [(each.peak_gflops or 0.0, each.peak_gb_per_s or 0.0) for each in points]
    return max(peak for peak, _ in known), max(bandwidth for _, bandwidth in known)
