"""Plots of a run, as PNG, SVG and PDF: one file per plot, each with `draw(results, folder) -> plots`. Needs no torch.

A new plot is a file here and a line in PLOTS; the report, the files of a run and the page follow from it.
"""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from profiler.metrics import LATENCY, RTFX
from profiler.report.plots import (
    breakdown,
    latency,
    memory,
    phases,
    roofline,
    rtfx,
    serving,
    throughput,
    tradeoff,
    variants,
)
from profiler.report.plots.style import Plot, titles
from profiler.results.types import Results

# In reading order, each with what it shows, for readers who do not see it.
PLOTS: dict[ModuleType, str] = {
    serving: "Latency over load, with the limit",
    rtfx: f"{RTFX.title} over the length of the audio",
    latency: f"{LATENCY.title} over the length of the audio",
    throughput: f"{RTFX.title} over the batch size",
    memory: "Peak memory over the length of the audio, with a fit and the machine's limit",
    variants: "Cost of each variant relative to the first",
    tradeoff: "Error of each variant over what it costs, with the Pareto front",
    phases: "Training step by phase",
    breakdown: "Where the time of a call goes, by label",
    roofline: "Achieved arithmetic against the machine's measured peak",
}


def draw_plots(results: Results, folder: Path, titled: bool = False) -> dict[Plot, str]:
    """Draw what the run has data for; each plot, and what it shows. `titled`: with captions in the pictures."""
    with titles(titled):
        return {plot: shows for each, shows in PLOTS.items() for plot in each.draw(results, folder)}
