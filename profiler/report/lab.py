"""The page of a benchmarking lab: results of a run, and of other machines -> its questions with their answers.

    models and parameters | latency | energy | what grew how | machines

Labs ask for the mean and the standard deviation of k calls with the first one dropped; the figure of a cell elsewhere
is a median over rounds. Both are of the same calls. The discussion is the reader's: here are the facts for it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from markupsafe import Markup

from profiler.measure.fit import fit_durations
from profiler.metrics import LATENCY, METRICS, PARAMETERS, PEAK, RTF, SIZE
from profiler.report.facts import environment_facts, name_of, recipe_name
from profiler.report.html import page
from profiler.report.machines import machine_tables
from profiler.report.markdown import how_measured
from profiler.report.models import models_table
from profiler.report.plots.inline import inline_svg
from profiler.report.plots.style import Plot
from profiler.report.table import PLACE, Table, metric_table, plain, stacked
from profiler.results.metric import Metric
from profiler.results.store import write_atomically
from profiler.results.types import CellResult, Results
from profiler.units import many, place_text, significant

MARKDOWN, PAGE = "lab.md", "lab.html"
ENERGY = METRICS["energy"]
NAMED = 4  # groups of shared parameters
SAME = 0.1  # of an exponent: how far from 1 growth is still called linear

Section = tuple[str, list[Table], list[str]]  # heading, tables, sentences


def sections(results: Results, others: Sequence[Results] = ()) -> list[Section]:
    """The lab's questions in their order, with what the run says to each."""
    name = name_of(results, results.variants)
    together = models_table(f"All figures - {name}", results)
    found: list[Section] = [
        ("Models and parameters", [_parameters(results)], _sharing(results)),
        ("Latency", [_latency(results)], _how_timed(results)),
        ("Energy", _energy(results), _without_energy(results)),
        ("Facts for the discussion", [together] if together else [], _facts(results)),
        ("Machines", machine_tables([results, *others], ("latency",)), _other_machines(others)),
    ]
    return found


def render_markdown(results: Results, others: Sequence[Results] = ()) -> str:
    parts = [f"# Benchmark: {recipe_name(results)}"]
    for heading, tables, said in sections(results, others):
        parts += [f"## {heading}", *(table.markdown() for table in tables)]
        parts.append("\n".join(f"- {plain(sentence)}" for sentence in said))
    return "\n\n".join(part for part in [*parts, "## How it was measured", plain(how_measured(results))] if part) + "\n"


def write_lab(results: Results, folder: Path, plots: Mapping[Plot, str], others: Sequence[Results] = ()) -> list[Path]:
    """lab.md and lab.html; the page has the plots in it and needs no other file."""
    shown = [
        (Markup(inline_svg(plot, shows)), plot.caption.text) for plot, shows in plots.items() if plot.path.stem in SHOWN
    ]
    html = page(
        "lab.html",
        name=recipe_name(results),
        run=results.run.id,
        sections=sections(results, others),
        plots=shown,
        environment=environment_facts(results),
        measured=how_measured(results).splitlines(),
    )
    write_atomically(folder / MARKDOWN, render_markdown(results, others))
    write_atomically(folder / PAGE, html)
    return [folder / MARKDOWN, folder / PAGE]


SHOWN = ("latency", "rtfx", "throughput", "memory")  # plots over the varied dimension


# -- models


def _parameters(results: Results) -> Table:
    header = ["variant", "model", "weights", PARAMETERS.head, "shared groups", SIZE.head]
    rows = []
    for model in results.models:
        figures = [metric.number(metric.value(results, model.variant)) for metric in (PARAMETERS, SIZE)]
        shared = str(len(model.parameters.shared)) if model.parameters.shared else "none"
        rows.append([model.variant, model.source, model.weights or "n/a", figures[0], shared, figures[1]])
    return Table("Parameters", header, rows)


def _sharing(results: Results) -> list[str]:
    """Each parameter counts once; which names lead to the same one."""
    said = ["Each parameter counts once, also where several layers share it."]
    groups = {tuple(map(tuple, model.parameters.shared)): model.variant for model in results.models}
    for names, variant in groups.items():
        shown = "; ".join(" = ".join(group) for group in names[:NAMED])
        more = f"; and {many(len(names) - NAMED, 'group')} more" if len(names) > NAMED else ""
        if names:
            said.append(f"Shared in {variant}: {shown}{more}.")
    return said if any(groups) else [*said, "No model here shares any."]


# -- latency and energy


def _latency(results: Results) -> Table:
    """One row per cell: k calls, their mean and standard deviation."""
    unit = LATENCY.shown.name
    rows = []
    for cell in results.cells:
        time = cell.latency_s
        if time is None:
            rows.append([cell.variant, cell.place, *["n/a"] * 3, cell.reason or "n/a", ""])
            continue
        deviation = LATENCY.number(time.std if time.n > 1 else None)
        mean, median = LATENCY.number(time.mean), LATENCY.number(time.median)
        rows.append([cell.variant, cell.place, str(time.n), mean, deviation, median, RTF.cell_number(cell)])
    head = [
        "variant",
        PLACE,
        "k",
        f"mean, {unit}",
        f"standard deviation, {unit}",
        f"median of rounds, {unit}",
        RTF.head,
    ]
    return Table("Latency of one call", head, rows)


def _how_timed(results: Results) -> list[str]:
    timed = [cell.latency_s for cell in _timed(results) if cell.latency_s]
    dropped = {round(len(latency.warmup) / max(1, len(latency.rounds))) for latency in timed}
    if not dropped:
        return ["No cell was timed."]
    low, high = min(dropped), max(dropped)
    first = "first call" if high == 1 else f"first {high} calls" if low == high else f"first {low} to {high} calls"
    return [
        f"k calls in several processes; the {first} of each process {'is' if high == 1 else 'are'} dropped.",
        "Timed is the model alone, from waveforms in memory to its output; reading files is not in it.",
    ]


def _timed(results: Results) -> list[CellResult]:
    return [cell for cell in results.cells if cell.latency_s is not None]


def _energy(results: Results) -> list[Table]:
    tables = {}
    for variant in results.variants:
        cells = [cell for cell in results.cells if cell.variant == variant and cell.energy_j is not None]
        if cells:
            tables[variant] = metric_table("Energy", cells, ENERGY_METRICS)
    return stacked(tables, several=len(results.variants) > 1)


ENERGY_METRICS = [metric for key, metric in METRICS.items() if key.startswith(("energy", "power"))] or [ENERGY]


def _without_energy(results: Results) -> list[str]:
    reasons = dict.fromkeys(cell.energy_reason for cell in results.cells if cell.energy_reason)
    if any(cell.energy_j is not None for cell in results.cells):
        return []
    return [f"Not measured: {reason}" for reason in reasons] or ["Not measured."]


# -- what grew how


def _facts(results: Results) -> list[str]:
    said: list[str] = []
    for variant in results.variants:
        for metric in (LATENCY, PEAK, ENERGY):
            said += filter(None, (_growth(results, variant, metric, "seconds"), _fit(results, variant, metric)))
            said += filter(None, [_growth(results, variant, metric, "batch_size")])
    said += _orders(results)
    if not said:
        return ["One length and one batch size of one model: there is nothing to compare."]
    return [*_unstable(results), *said]


def _unstable(results: Results) -> list[str]:
    """A fact that may be chance is no fact."""
    timed = _timed(results)
    unstable = sum(cell.verdict == "unstable" for cell in timed)
    if not unstable:
        return []
    return [
        f"{unstable} of {len(timed)} latencies are unstable (~): what is said of latency here may be chance. Measure "
        "again on a quiet machine."
    ]


def _line(results: Results, variant: str, metric: Metric, along: str) -> list[tuple[float, float]]:
    """(x, figure) along the dimension, at the smallest value of the other one."""
    other = "batch_size" if along == "seconds" else "seconds"
    mine = [cell for cell in results.cells if cell.variant == variant and metric.in_cell(cell)]
    least = min((getattr(cell, other) for cell in mine), default=0)
    points = {getattr(cell, along): metric.in_cell(cell) for cell in mine if getattr(cell, other) == least}
    return sorted(points.items())


def _growth(results: Results, variant: str, metric: Metric, along: str) -> str | None:
    """'wav2vec2: latency grew x18 from 1 s to 20 s (x20), slower than linearly.'"""
    points = _line(results, variant, metric, along)
    if len(points) < 2 or points[0][1] <= 0:
        return None
    (first, before), (last, after) = points[0], points[-1]
    times, factor = last / first, after / before
    power = math.log(factor) / math.log(times) if factor > 0 else 0.0
    how = "about linearly" if abs(power - 1) <= SAME else "less than linearly" if power < 1 else "more than linearly"
    how = how if power > 0 else "it did not grow"
    unit = "s" if along == "seconds" else "at a time"
    return (
        f"{variant}: {metric.short} went from {metric.text(before)} to {metric.text(after)} "
        f"(x{significant(factor, 2)}) between {first:g} and {last:g} {unit} (x{significant(times, 2)}): {how}."
    )


def _fit(results: Results, variant: str, metric: Metric) -> str | None:
    points = _line(results, variant, metric, "seconds")
    fit = fit_durations(1, [x for x, _ in points], [value for _, value in points])
    if fit is None or len(points) < 3:
        return None
    said = f"{metric.text(fit.fixed)} fixed and {metric.text(fit.per_second)} for each second of audio"
    if fit.per_second_squared is None:
        grows = "; too few lengths to see a quadratic part"
    elif fit.quadratic_from is None:
        grows = "; no quadratic part was seen"
    else:
        grows = f"; a quadratic part is a tenth of it from {significant(fit.quadratic_from, 2)} s on"
    return f"{variant}: the fit of {metric.short} over the length is {said}{grows}."


def _orders(results: Results) -> list[str]:
    """Who has the least of each figure: whether latency follows the number of parameters, and energy latency."""
    if len(results.variants) < 2 or not results.places:
        return []
    place = max(results.places, key=lambda place: (place[0], -place[1]))
    cells = {cell.variant: cell for cell in results.cells if (cell.seconds, cell.batch_size) == place}
    said = []
    for metric in (PARAMETERS, LATENCY, PEAK, METRICS["macs"], ENERGY):
        known = [(metric.value(results, name, cells.get(name)), name) for name in results.variants]
        ordered = sorted((value, name) for value, name in known if value is not None)
        if len(ordered) > 1:
            where = "" if metric is PARAMETERS else f" at {place_text(*place)}"
            names = ", ".join(f"{name} ({metric.text(value)})" for value, name in ordered)
            said.append(f"By {metric.short}{where}, least first: {names}.")
    return said


def _other_machines(others: Sequence[Results]) -> list[str]:
    if others:
        return []
    return ["One machine. Add runs of other ones: report RUN --lab --beside OTHER_RUN."]
