"""Variants side by side: what each costs relative to its baseline, in time, memory, size and energy."""

from __future__ import annotations

from pathlib import Path

from profiler.metrics import LATENCY, METRICS, PEAK, SIZE
from profiler.report.plots.bars import WIDEST, left_for, name_rows
from profiler.report.plots.curves import CI, hollow
from profiler.report.plots.style import GREY, PAPER, Caption, Plot, figure, look
from profiler.report.variants import Ratio, baselines_text, cell_ratios, mean_ratio
from profiler.results.types import Results

NAME = "variants"
SHOWN = (LATENCY, PEAK, SIZE, METRICS["energy"])
ROW = 0.36  # inches
APART = 0.19  # of a row, between the marks of two quantities


def draw(results: Results, folder: Path) -> list[Plot]:
    """Nothing where there is one variant, or none has a cell in common with its baseline."""
    others = [name for name in results.variants if results.baseline(name) != name]
    of_cells = {name: found for name in others if (found := cell_ratios(results, name, LATENCY))}
    names = list(of_cells)
    if not names:
        return []
    several = max(map(len, of_cells.values())) > 1
    notes = ("geometric mean over cells", "small marks: latency of each cell") if several else ()
    bases = list(dict.fromkeys(map(results.baseline, names)))
    relative_to = bases[0] if len(bases) == 1 else f"its baseline: {baselines_text(results)}"
    caption = Caption.of(results, [*bases, *names], f"Cost of each variant relative to {relative_to}", *notes, CI)
    left, height = left_for(names), ROW * len(names)
    with figure(
        folder / NAME,
        caption,
        f"times the figure of {bases[0] if len(bases) == 1 else 'its baseline'}",
        "",
        left,
        height,
        left > WIDEST,
    ) as plot:
        (axes,) = plot.axes
        axes.axvline(1.0, color=GREY, linewidth=0.8)
        seen, unstable = [1.0], False
        for number, metric in enumerate(SHOWN):
            above = (number - (len(SHOWN) - 1) / 2) * APART
            means = {place: mean_ratio(results, name, metric) for place, name in enumerate(names)}
            known = {place + above: mean for place, mean in means.items() if mean}
            if not known:
                continue
            if metric is LATENCY and several:
                each = [(place + above, ratio) for place, name in enumerate(names) for ratio in of_cells[name]]
                _draw(plot, number, each, markersize=1.8, markeredgewidth=0.5, alpha=0.7)
                seen += [ratio.value for _, ratio in each]
            _draw(plot, number, list(known.items()), markersize=4, markeredgewidth=0.8)
            axes.plot([], [], label=metric.short, markersize=4, **look(number) | {"linestyle": "none"})
            seen += [end for mean in known.values() for end in mean.ends]
            unstable = unstable or any(mean.unstable for mean in known.values())
        if unstable:
            hollow(axes)
        axes.set_xscale("log")
        axes.set_xlim(min(seen) / 1.15, max(seen) * 1.15)
        name_rows(axes, names)
    return [plot]


def _draw(plot: Plot, number: int, placed: list[tuple[float, Ratio]], **size: float) -> None:
    """Marks with their intervals, the unstable ones hollow."""
    (axes,), style = plot.axes, look(number)
    for place, ratio in placed:
        if ratio.half and size["markersize"] > 2:
            axes.plot(ratio.ends, (place, place), color=style["color"], linewidth=0.9, solid_capstyle="butt")
    for unstable in (False, True):
        mine = [(place, ratio) for place, ratio in placed if ratio.unstable is unstable]
        if mine:
            xs, ys, tips = zip(*((ratio.value, place, ratio.tip) for place, ratio in mine), strict=True)
            fill = PAPER if unstable else style["color"]
            plot.mark(
                axes, xs, ys, tips, color=style["color"], marker=style["marker"], markerfacecolor=fill, zorder=3, **size
            )
