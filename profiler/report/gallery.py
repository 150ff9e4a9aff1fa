"""The gallery: the recipes of a fleet on one page, a row for each model, one table and one plot.

    fleet.json + its runs -> rows -> between two lines of a Markdown page, and <page>.svg beside it

The figure of a row is that of one reference cell, 5 s x 1. Under load it is a request of the lightest load that was
measured, in training a whole step. What a run lacks is absent, with the reason below the table.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from profiler.errors import UserError
from profiler.execution.fleet.gallery import BATCH, SECONDS
from profiler.execution.fleet.job import Fleet, Job
from profiler.history import machine_names
from profiler.metrics import LATENCY, METRICS, PARAMETERS, PEAK, RTF
from profiler.report.facts import environment_facts, is_training
from profiler.report.plots.bars import ROW, left_for, name_rows
from profiler.report.plots.curves import hollow
from profiler.report.plots.style import COLOURS, GREY, PAPER, Caption, figure
from profiler.report.serving import load_text
from profiler.report.table import Table
from profiler.results.metric import UNSTABLE_MARK, Interval
from profiler.results.store import read_results, write_atomically
from profiler.results.types import CellResult, ModelResult, Results, ServingStep
from profiler.shipped import about
from profiler.units import many, place_text

BEGIN = "<!-- the gallery: `profile.py fleet --gallery` writes between these lines -->"
END = "<!-- the gallery: end -->"
NEW = f"# Gallery\n\n{BEGIN}\n{END}\n"
MACS = METRICS["macs"]
ABSENT = "-"
PLACE = place_text(SECONDS, BATCH)
SAME = ("processor", "cores", "memory", "GPU", "torch", "Python", "profiler")  # facts of a machine
FIGURES = (RTF, LATENCY, PEAK, PARAMETERS, MACS)
HEADER = ["recipe", "kind", "measured", *(metric.head for metric in FIGURES), "weights", "machine"]


@dataclass
class Row:
    """One model of a recipe; texts as they stand in the table."""

    recipe: str
    kind: str
    measured: str = ABSENT
    figures: list[str] = field(default_factory=lambda: [ABSENT] * len(FIGURES))
    weights: str = ABSENT
    machine: str = ABSENT
    rtf: float | None = None
    ends: Interval | None = None
    unstable: bool = False
    reasons: list[str] = field(default_factory=list)

    @property
    def texts(self) -> list[str]:
        return [self.recipe, self.kind, self.measured, *self.figures, self.weights, self.machine]


# -- the page


def check_page(page: Path) -> None:
    """Raise UserError unless the gallery can be written there: that is known before anything runs."""
    try:
        if not page.exists():
            if not page.resolve().parent.is_dir():
                raise UserError(f"--gallery {page}: there is no folder {page.resolve().parent}.")
            return
        text = page.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise UserError(f"--gallery {page} cannot be read: {error}.") from None
    if text.count(BEGIN) != 1 or END not in text.partition(BEGIN)[2]:
        raise UserError(
            f"--gallery {page}: the page has no place for it. Name a file that is not there yet, or put these two "
            f"lines into it:\n{BEGIN}\n{END}"
        )


def write_page(page: Path, fleet: Fleet, logdir: Path) -> list[Path]:
    """Put table and plot of a fleet into the page; the files that were written."""
    check_page(page)
    runs, problems = _runs(fleet, logdir)
    rows = sorted(_rows(fleet, runs, problems), key=lambda row: (row.kind, row.recipe))
    plot = _draw(rows, page.with_suffix(".svg"))
    picture = f"![Real-time factor of each model]({plot.name})" if plot else ""
    parts = [*_made_on(fleet, list(runs.values())), _table(rows).markdown(), picture]
    before, _, rest = (page.read_text(encoding="utf-8") if page.exists() else NEW).partition(BEGIN)
    after = rest.partition(END)[2]
    text = "\n\n".join(part for part in parts if part)
    write_atomically(page, f"{before}{BEGIN}\n\n{text}\n\n{END}{after}")
    return [page, *([plot] if plot else [])]


def _runs(fleet: Fleet, logdir: Path) -> tuple[dict[str, Results], dict[str, str]]:
    """Job -> what it measured, or why there is nothing."""
    found, problems = {}, {}
    for job in fleet.jobs:
        try:
            if job.run:
                found[job.id] = read_results(logdir / job.run)
            else:
                problems[job.id] = job.reason or f"the job is {job.status}"
        except UserError as error:
            problems[job.id] = str(error).replace(f"{logdir}/", "")  # a page is given away
    return found, problems


def _made_on(fleet: Fleet, runs: list[Results]) -> list[str]:
    """When, on what, with which settings."""
    if not runs:
        return ["No recipe has a run."]
    times = sorted(time for results in runs for time in (results.run.started, results.run.finished) if time)
    first, last = (datetime.fromisoformat(time) for time in (times[0], times[-1]))
    took = f"{first:%Y-%m-%d %H:%M} to {last:%H:%M} UTC, {(last - first).total_seconds() / 60:.0f} minutes"
    loads = [results.environment.load[0] for results in runs if results.environment.load]
    load = f"; load when a run began: {min(loads):.1f} to {max(loads):.1f}" if loads else ""
    machines = dict.fromkeys(_machine(results) for results in runs)
    done = sum(job.status == "done" for job in fleet.jobs)
    shared = [word for word in fleet.jobs[0].arguments if all(word in job.arguments for job in fleet.jobs)]
    settings = " ".join([*fleet.overrides, *shared])
    return [
        f"**Made** {took}, by {many(len(fleet.jobs), 'job')} on {fleet.engine}, of which {done} measured all that was "
        f"asked for{load}.",
        "\n".join(f"- Machine: {text}" for text in machines),
        f"Setting of all recipes: `{settings}`." if settings else "Setting: the recipes as they are.",
    ]


def _machine(results: Results) -> str:
    facts = dict(environment_facts(results))
    return ", ".join(f"{name} {facts[name]}" for name in SAME if name in facts)


def _table(rows: list[Row]) -> Table:
    remarks = [f"- {row.recipe}: {reason}" for row in rows for reason in row.reasons]
    if any(row.unstable for row in rows):
        remarks.insert(
            0, f"`{UNSTABLE_MARK}`: the 95 % CI is wider than the recipe wants (so much either way), or absent."
        )
    return Table(f"Models at {PLACE}, a row each", HEADER, [row.texts for row in rows], remarks)


# -- rows


def _rows(fleet: Fleet, runs: dict[str, Results], problems: dict[str, str]) -> Iterable[Row]:
    names = machine_names(list(runs.values()))
    for job in fleet.jobs:
        kind, results = _kind(job), runs.get(job.id)
        models = _first_models(results) if results is not None else []
        if results is None or not models:
            yield Row(job.id, kind, reasons=[problems.get(job.id) or job.reason or "no model was loaded"])
            continue
        for model in models:
            row = Row(f"{job.id}: {model.variant}" if len(models) > 1 else job.id, kind)
            row.weights = model.weights or ABSENT
            row.machine = names.get((results.run.id, model.variant), ABSENT)
            _fill(row, results, model)
            if job.status != "done" and job.reason and not row.reasons:
                row.reasons.append(job.reason)
            yield row


def _kind(job: Job) -> str:
    path = Path(job.recipe)
    return (about(path).kind if path.is_file() else "") or ABSENT


def _first_models(results: Results) -> list[ModelResult]:
    """The first variant of each model, as in the quick setting."""
    found: dict[tuple[str, str], ModelResult] = {}
    for model in results.models:
        found.setdefault((model.source, model.type), model)
    return list(found.values())


def _fill(row: Row, results: Results, model: ModelResult) -> None:
    counted = PARAMETERS.number(model.parameters.total, absent=ABSENT)
    cell = results.cell(model.variant, SECONDS, BATCH)
    step = _lightest(results, model.variant)
    if cell is not None:
        row.measured = PLACE + (", training step" if is_training(results) else "")
        row.figures = [metric.cell_number(cell) for metric in (RTF, LATENCY, PEAK)]
        row.figures += [counted, MACS.number(MACS.in_cell(cell), absent=ABSENT)]
        row.rtf, row.unstable = cell.rtf, cell.verdict == "unstable"
        row.ends = RTF.ci95(cell) if RTF.ci95 and cell.latency_s else None
        row.reasons = list(_missing(cell))
    elif step is not None:
        row.measured = f"request of {_request(results)}, {load_text(step)}"
        latency = step.latency_s.median if step.latency_s else None
        values = ((RTF, step.rtf), (LATENCY, latency), (PEAK, step.memory_bytes))
        row.figures = [*(metric.number(value, absent=ABSENT) for metric, value in values), counted, ABSENT]
        row.rtf = step.rtf
        row.reasons = ["operations are not counted under load; memory is of all workers", *filter(None, [step.reason])]
    else:
        row.figures[3] = counted
        failed = next((load.reason for load in results.serving if load.variant == model.variant and load.reason), None)
        row.reasons = [failed or f"there is no cell of {PLACE} in its run"]


def _missing(cell: CellResult) -> Iterable[str]:
    """Why figures of a cell are absent."""
    if cell.status != "ok":
        yield f"{cell.status}: {cell.reason or 'no reason given'}"
        return
    if PEAK.in_cell(cell) is None:
        yield "memory of the process cannot be measured here"
    if cell.operations is None:
        yield f"operations: {cell.operations_reason or 'not counted'}"


def _lightest(results: Results, variant: str) -> ServingStep | None:
    """Requests one by one, else the smallest load that has figures."""
    steps = [step for load in results.serving if load.variant == variant for step in load.steps if step.latency_s]
    alone = [step for step in steps if step.scenario == "single_stream"]
    return min(alone or steps, key=lambda step: step.load or 0.0, default=None)


def _request(results: Results) -> str:
    """'5 s', '0.5 or 1 s'."""
    return f"{' or '.join(f'{seconds:g}' for seconds in results.run.planned('audio_mockup_secs'))} s"


# -- the plot


def _draw(rows: list[Row], target: Path) -> Path | None:
    """RTF of each model, the fastest first; nothing without a figure."""
    known = sorted((row for row in rows if row.rtf), key=lambda row: row.rtf or 0.0)
    if not known:
        return None
    names = [f"{row.recipe}{', training' * ('training' in row.measured)}" for row in known]
    random = any(row.weights == "random" for row in known)
    caption = Caption(
        f"Real-time factor at {PLACE}", "95 % CI", "random weights, where the table says so" if random else ""
    )
    ends = [end for row in known for end in (*(row.ends or ()), row.rtf or 1.0)]
    left = left_for(names)
    with tempfile.TemporaryDirectory(prefix="speech-profiler-") as folder:
        path = Path(folder) / "gallery"
        with figure(
            path, caption, f"{RTF.title}: below 1 is faster than real time", "", left, ROW * len(known), True
        ) as plot:
            (axes,) = plot.axes
            axes.axvline(1.0, color=GREY, linewidth=0.8)
            for place, row in enumerate(known):
                if row.ends:
                    axes.plot(row.ends, (place, place), color=COLOURS[0], linewidth=0.9, solid_capstyle="butt")
                fill = PAPER if row.unstable else COLOURS[0]
                axes.plot([row.rtf], [place], "o", color=COLOURS[0], markerfacecolor=fill, markersize=4, zorder=3)
            if any(row.unstable for row in known):
                hollow(axes)
            axes.set_xscale("log")
            axes.set_xlim(min(ends) / 1.3, max(*ends, 1.0) * 1.3)
            name_rows(axes, names)
        shutil.copyfile(path.with_suffix(".svg"), target)
    return target
