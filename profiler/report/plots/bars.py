"""Bars that lie below one another, plain or made of parts, with the share of each part written on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from profiler.report.plots.style import CHARACTER, COLOURS, HATCHES, PAPER, SMALL, shortened

ROW = 0.19  # inches: a bar with the room around it
WIDEST = 1.3  # inches of names: what has longer ones is a page wide
THICKNESS = 0.65  # of a row
LEAST_SHARE = 0.09  # of the longest bar: a part that is large enough for its share to be written on


def name_rows(axes: Any, names: Sequence[str]) -> None:
    """The first at the top."""
    axes.set_yticks(range(len(names)), [shortened(name) for name in names])
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(False, axis="y")
    axes.tick_params(axis="y", length=0)


def left_for(names: Sequence[str]) -> float:
    """Inches that the names of the rows need."""
    return 0.1 + CHARACTER * max(len(shortened(name)) for name in names)


def draw_stacked(axes: Any, parts: Mapping[str, Sequence[float]]) -> None:
    """Part -> its length in each row."""
    wholes = [sum(lengths) for lengths in zip(*parts.values(), strict=True)]
    starts = [0.0] * len(wholes)
    for number, (name, lengths) in enumerate(parts.items()):
        style = {"color": COLOURS[number], "hatch": HATCHES[number], "edgecolor": PAPER, "linewidth": 0.5}
        axes.barh(range(len(wholes)), lengths, left=starts, height=THICKNESS, label=name, **style)
        for place, (start, length, whole) in enumerate(zip(starts, lengths, wholes, strict=True)):
            if length > LEAST_SHARE * max(wholes):
                box = {"facecolor": PAPER, "edgecolor": "none", "pad": 0.8}
                at = (start + length / 2, place)
                axes.annotate(f"{length / whole:.0%}", at, ha="center", va="center", fontsize=SMALL, bbox=box)
        starts = [start + length for start, length in zip(starts, lengths, strict=True)]
    axes.set_xlim(0, max(wholes) * 1.03 or 1.0)
