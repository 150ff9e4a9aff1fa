"""Peak memory against the length of the audio, with the fit through the cells and what the machine has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from profiler.measure.fit import SurfaceFit, fit_surface
from profiler.metrics import METRICS, PEAK
from profiler.report.plots.curves import Curve, Value, drawn, sheet_of
from profiler.report.plots.style import look, mark_level
from profiler.results.metric import Metric
from profiler.results.types import Results
from profiler.units import bytes_text, parse_bytes

NAME = "memory"
STEPS = 40
DEVICE = METRICS["device"]
FARTHEST = 4.0  # times the longest audio: as far as the tables trust the fit


def draw(results: Results, folder: Path) -> list[Path]:
    """memory.png and .svg; nothing where only one length was measured."""
    on_device = any(DEVICE.in_cell(cell) for cell in results.cells)
    metric = DEVICE if on_device else PEAK
    sheet = sheet_of(results, metric, "seconds")
    if sheet is None:
        return []
    limit = _device_limit(results) if on_device else _machine_limit(results)
    fits = {variant: _fit(results, variant, metric) for variant in results.variants}
    if any(fits.values()):
        sheet = replace(sheet, note=f"{sheet.note}; lines: a fit, dotted beyond what was measured")
    path = folder / NAME
    with drawn(sheet, path, fitted=True) as all_axes:
        shortest, longest = sheet.xs[0], sheet.xs[-1]
        all_axes[0].set_xlim(shortest / 1.1, longest * FARTHEST)
        all_axes[0].set_yscale("log")
        values = [value.value for value in sheet.values]
        all_axes[0].set_ylim(min(values) / 1.25, max(max(values), limit or 0.0) * 1.6)
        for axes, curves in zip(all_axes, sheet.curves, strict=True):
            for curve in curves:
                _draw_fit(axes, curve, fits[curve.variant], longest)
            if limit:
                mark_level(axes, limit, f"this machine: {bytes_text(limit * metric.shown.scale)}")
    return [path.with_suffix(".png"), path.with_suffix(".svg")]


def _fit(results: Results, variant: str, metric: Metric) -> SurfaceFit | None:
    points = [
        (cell.seconds, cell.batch_size, value.value)
        for cell in results.cells
        if cell.variant == variant and (value := Value.of(metric, cell)) is not None
    ]
    return fit_surface(points)


def _draw_fit(axes: Any, curve: Curve, fit: SurfaceFit | None, longest: float) -> None:
    """Solid where cells were measured, thin and dotted beyond."""
    if fit is None:
        return
    style = look(curve.number)
    for ends, line in (
        ((curve.xs[0], curve.xs[-1]), {"linestyle": style["linestyle"], "linewidth": 1.3}),
        ((curve.xs[-1], longest * FARTHEST), {"linestyle": ":", "linewidth": 0.9}),
    ):
        xs: Sequence[float] = np.geomspace(*ends, STEPS).tolist()
        axes.plot(xs, [fit.value(x, curve.fixed) for x in xs], color=style["color"], **line)


def _machine_limit(results: Results) -> float | None:
    limit = results.environment.memory_limit_bytes or results.environment.memory_bytes
    return float(limit) / PEAK.shown.scale if limit else None


def _device_limit(results: Results) -> float | None:
    """What the first GPU has, as its driver writes it: '24576 MiB'."""
    try:
        return parse_bytes(str(results.environment.gpu[0].memory)) / DEVICE.shown.scale
    except (KeyError, IndexError, TypeError, ValueError):
        return None
