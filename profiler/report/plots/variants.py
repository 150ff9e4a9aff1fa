"""Variants side by side: what each costs relative to the first, in time, memory, size and energy."""

from __future__ import annotations

from pathlib import Path
from statistics import geometric_mean

from profiler.metrics import LATENCY, METRICS, PEAK, SIZE
from profiler.report.facts import name_of
from profiler.report.plots.bars import left_for, name_rows
from profiler.report.plots.style import GREY, figure, look
from profiler.report.variants import ratios
from profiler.results.types import Results

NAME = "variants"
SHOWN = (LATENCY, PEAK, SIZE, METRICS["energy"])
ROW = 0.5  # inches
APART = 0.17  # of a row, between the marks of two quantities


def draw(results: Results, folder: Path) -> list[Path]:
    """variants.png and .svg; nothing where there is one variant, or none has a cell in common with the first."""
    first, *others = results.variants or [""]
    names = [name for name in others if ratios(results, name, LATENCY)]
    if not names:
        return []
    path = folder / NAME
    title = f"Cost of each variant relative to {first}"
    note = name_of(results, [first, *names])
    if len(ratios(results, names[0], LATENCY)) > 1:
        note += "; geometric mean over cells, small dots: latency of each cell"
    with figure(path, title, f"times the figure of {first}", "", note, left_for(names), ROW * len(names)) as axes:
        axes.axvline(1.0, color=GREY, linewidth=1.0)
        seen = [1.0]
        for number, metric in enumerate(SHOWN):
            found = [ratios(results, name, metric) for name in names]
            style = look(number) | {"linestyle": "none"}
            above = (number - (len(SHOWN) - 1) / 2) * APART
            if number == 0:
                dots = [(ratio, place + above) for place, each in enumerate(found) for ratio in each]
                axes.plot(*zip(*dots, strict=True), ".", color=style["color"], markersize=2.5)
            means = [(geometric_mean(each), place + above) for place, each in enumerate(found) if each]
            if means:
                axes.plot(*zip(*means, strict=True), label=metric.short, markersize=6, **style)
            seen += [ratio for each in found for ratio in each]
        axes.set_xscale("log")
        axes.set_xlim(min(seen) / 1.15, max(seen) * 1.15)
        name_rows(axes, names)
    return [path.with_suffix(".png"), path.with_suffix(".svg")]
