"""Latency over load with the limit drawn in: where the curve crosses it, the machine is full."""

from __future__ import annotations

from pathlib import Path

from profiler.report.plots.curves import hollow
from profiler.report.plots.style import PAPER, Caption, Plot, figure, look, mark_level
from profiler.report.serving import in_order
from profiler.results.types import Results, ServingStep

NAME = "serving"
X = {"server": "requests per second", "streams": "live streams"}
TITLES = {"server": "Latency over requests per second", "streams": "Delay of a chunk over live streams"}
NOT_PROVEN = "exceeds the limit, or not proven"
FEW = "or the slowest where too few"


def draw(results: Results, folder: Path) -> list[Plot]:
    """One plot for each scenario with a load; nothing without load."""
    return [plot for scenario in X if (plot := _draw(results, folder, scenario)) is not None]


def _draw(results: Results, folder: Path, scenario: str) -> Plot | None:
    drawn = {
        result.variant: _steps([step for step in in_order(result) if step.scenario == scenario])
        for result in results.serving
    }
    drawn = {variant: steps for variant, steps in drawn.items() if steps}
    if not drawn:
        return None
    limit = results.serving[0].limit_s
    percent = results.serving[0].percentile
    caption = Caption.of(
        results,
        list(drawn),
        TITLES[scenario],
        f"median and p{percent} of each load, {FEW}; hollow: {NOT_PROVEN}",
    )
    with figure(folder / f"{NAME}-{scenario}", caption, X[scenario], "latency, s") as plot:
        (axes,) = plot.axes
        axes.set_yscale("log")
        for place, (variant, steps) in enumerate(drawn.items()):
            style = look(place)
            whose = f"{variant}, " if len(drawn) > 1 else ""
            loads = [step.load or 0.0 for step in steps]
            tail = f"p{percent}" if all(f"p{percent}" in step.tail for step in steps) else f"p{percent}, {FEW}"
            for name, values in (("median", [_median(step) for step in steps]),
                                 (tail, [_tail(step, percent) for step in steps])):  # fmt: skip
                dashes = "-" if name != "median" else ":"
                axes.plot(loads, values, color=style["color"], linestyle=dashes, linewidth=1, label=f"{whose}{name}")
                for good in (True, False):
                    chosen = [at for at, step in enumerate(steps) if (step.status == "holds") == good]
                    if chosen:
                        plot.mark(
                            axes,
                            [loads[at] for at in chosen],
                            [values[at] for at in chosen],
                            [_tip(steps[at], name, values[at]) for at in chosen],
                            marker=style["marker"],
                            markersize=4,
                            color=style["color"],
                            markerfacecolor=style["color"] if good else PAPER,
                        )
        if any(step.status != "holds" for steps in drawn.values() for step in steps):
            hollow(axes, NOT_PROVEN)
        axes.set_xlim(left=0)
        low, high = axes.get_ylim()
        axes.set_ylim(min(low, limit / 2), max(high, limit * 2))
        mark_level(axes, limit, f"limit {limit:g} s", side="left")
        axes.legend()
    return plot


def _steps(steps: list[ServingStep]) -> list[ServingStep]:
    """By load, the one with most requests of each."""
    best: dict[float, ServingStep] = {}
    for step in sorted(steps, key=lambda step: step.requests.sent):
        if step.latency_s is not None and step.load:
            best[step.load] = step
    return [best[load] for load in sorted(best)]


def _median(step: ServingStep) -> float:
    return step.latency_s.median if step.latency_s else 0.0


def _tail(step: ServingStep, percent: int) -> float:
    return step.tail.get(f"p{percent}") or (step.latency_s.max if step.latency_s else 0.0)


def _tip(step: ServingStep, name: str, value: float) -> str:
    return f"{step.load:g}: {name} {value * 1000:.3g} ms, {step.status}, {step.requests.sent} sent"
