"""Peak memory against the length of the audio, with the fit through the cells and what the machine has."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from profiler.measure.fit import SurfaceFit, fit_surface
from profiler.metrics import METRICS, PEAK
from profiler.report.plots.curves import Curve, Value, drawn, sheet_of
from profiler.report.plots.style import GREY, SMALL, Plot, look, mark_level, ticks_at
from profiler.results.metric import Metric
from profiler.results.types import Results
from profiler.units import bytes_text, parse_bytes

NAME = "memory"
STEPS = 40
DEVICE = METRICS["device"]
FARTHEST = 2.0  # times the longest audio: how far the fit is drawn
FIT = "lines: a fit, dotted beyond what was measured"


def draw(results: Results, folder: Path) -> list[Plot]:
    """Nothing where only one length was measured."""
    on_device = any(DEVICE.in_cell(cell) for cell in results.cells)
    metric = DEVICE if on_device else PEAK
    fits = {variant: _fit(results, variant, metric) for variant in results.variants}
    sheet = sheet_of(results, metric, "seconds", *([FIT] if any(fits.values()) else []))
    if sheet is None:
        return []
    limit = _device_limit(results) if on_device else _machine_limit(results)
    with drawn(sheet, folder / NAME, fitted=True) as plot:
        shortest, longest = sheet.xs[0], sheet.xs[-1]
        farthest = longest * FARTHEST if any(fits.values()) else longest * 1.1
        plot.axes[0].set_xlim(shortest / 1.1, farthest)
        ticks_at(plot.axes[0].xaxis, [*sheet.xs, farthest] if any(fits.values()) else sheet.xs)
        highest = max(value.value for value in sheet.values)
        for axes, curves in zip(plot.axes, sheet.curves, strict=True):
            for curve in curves:
                highest = max(highest, _draw_fit(axes, curve, fits[curve.variant], longest, farthest))
        plot.axes[0].set_ylim(0, highest * 1.2)
        for axes in plot.axes:
            text = f"this machine: {bytes_text(limit * metric.shown.scale)}" if limit else ""
            if limit and limit < highest * 1.2:
                mark_level(axes, limit, text)
            else:  # a line so far away would press all the data to the axis
                axes.annotate(text, (1, 1), xycoords="axes fraction", ha="right", va="top", fontsize=SMALL, color=GREY)
    return [plot]


def _fit(results: Results, variant: str, metric: Metric) -> SurfaceFit | None:
    points = [
        (cell.seconds, cell.batch_size, value.value)
        for cell in results.cells
        if cell.variant == variant and (value := Value.of(metric, cell)) is not None
    ]
    return fit_surface(points)


def _draw_fit(axes: Any, curve: Curve, fit: SurfaceFit | None, longest: float, farthest: float) -> float:
    """Solid where cells were measured, thin and dotted beyond; gives the highest point within what was measured."""
    if fit is None:
        return 0.0
    style = look(curve.number)
    for ends, line in (
        ((curve.xs[0], curve.xs[-1]), {"linestyle": style["linestyle"], "linewidth": 0.9}),
        ((curve.xs[-1], farthest), {"linestyle": ":", "linewidth": 0.6}),
    ):
        xs: Sequence[float] = np.geomspace(*ends, STEPS).tolist()
        axes.plot(xs, [fit.value(x, curve.fixed) for x in xs], color=style["color"], **line)
    return float(fit.value(longest, curve.fixed))


def _machine_limit(results: Results) -> float | None:
    limit = results.environment.memory_limit_bytes or results.environment.memory_bytes
    return float(limit) / PEAK.shown.scale if limit else None


def _device_limit(results: Results) -> float | None:
    """What the first GPU has, as its driver writes it: '24576 MiB'."""
    try:
        return parse_bytes(str(results.environment.gpu[0].memory)) / DEVICE.shown.scale
    except (KeyError, IndexError, TypeError, ValueError):
        return None
