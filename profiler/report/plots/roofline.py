"""Roofline: what each cell achieved, below what the machine allows at its share of arithmetic and memory traffic."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from profiler.metrics import METRICS
from profiler.report.facts import name_of
from profiler.report.plots.style import figure, look
from profiler.results.types import Operations, Results

NAME = "roofline"
ACHIEVED = METRICS["achieved"]
WIDEST = 4.0  # how far the roof is drawn beyond the points, as a factor


def draw(results: Results, folder: Path) -> list[Path]:
    """roofline.png and .svg; nothing where no cell has operations and a measured peak."""
    points = {cell.key: found for cell in results.cells if (found := cell.operations) and _is_drawable(found)}
    if not points:
        return []
    peak, bandwidth = _peaks(points.values())
    intensities = [found.intensity or 0.0 for found in points.values()]
    low, high = min(*intensities, peak / bandwidth) / WIDEST, max(*intensities, peak / bandwidth) * WIDEST
    path = folder / NAME
    title = "Achieved arithmetic against the machine's measured peak (float32)"
    note = name_of(results, [name for name in results.variants if any(variant == name for variant, *_ in points)])
    with figure(path, title, "FLOP per byte that operators read and write", ACHIEVED.axis, note) as axes:
        ridge = peak / bandwidth
        axes.plot([low, ridge, high], [low * bandwidth, peak, peak], color="black", linewidth=1.2)
        axes.annotate(f"{peak:.0f} GFLOP/s", (high, peak), ha="right", va="bottom", fontsize=9)
        along = (low * ridge) ** 0.5
        axes.annotate(f"{bandwidth:.0f} GB/s", (along, along * bandwidth), ha="right", va="bottom", fontsize=9)
        for number, variant in enumerate(results.variants):
            mine = [found for key, found in points.items() if key[0] == variant]
            if mine:
                style = look(number) | {"linestyle": "none"}
                axes.plot(
                    [operations.intensity for operations in mine],
                    [operations.achieved_gflops for operations in mine],
                    label=f"{variant}, {len(mine)} cells",
                    markersize=5,
                    **style,
                )
        axes.set_xscale("log")
        axes.set_yscale("log")
    return [path.with_suffix(".png"), path.with_suffix(".svg")]


def _is_drawable(found: Operations) -> bool:
    return bool(found.intensity and found.achieved_gflops and found.peak_gflops and found.peak_gb_per_s)


def _peaks(points: Iterable[Operations]) -> tuple[float, float]:
    """The highest of the peaks in the run: with all threads, where variants use fewer."""
    known = [(each.peak_gflops or 0.0, each.peak_gb_per_s or 0.0) for each in points]
    return max(peak for peak, _ in known), max(bandwidth for _, bandwidth in known)
