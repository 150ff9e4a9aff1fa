"""Results -> tables: rows are seconds, columns are batch sizes. The same text in the terminal and in Markdown."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

from profiler import messages
from profiler.measure.fit import fit_durations, fit_surface
from profiler.measure.passes import PASSES, Pass
from profiler.measure.passes.time import CHUNKS, CPU_RTF, DEVICE_RTF
from profiler.metrics import LATENCY, METRICS, PEAK, SIZE, grids_of
from profiler.report.breakdown import label_table
from profiler.report.dataset import accuracy_tables, dataset_tables
from profiler.report.facts import few_calls
from profiler.report.facts import name_of as _name
from profiler.report.gpu import cpu_and_device, gpu_table
from profiler.report.models import models_table
from profiler.report.serving import is_serving, serving_tables
from profiler.report.table import ABSENT, Table, grid, metric_table, stacked
from profiler.report.tradeoff import tradeoff_tables
from profiler.report.training import training_tables
from profiler.report.variants import (
    baselines_text,
    changes_table,
    engines_table,
    parameter_table,
    side_by_side,
    size_table,
)
from profiler.results.metric import UNSTABLE_MARK, Metric
from profiler.results.statistics import SAMPLES_NEEDED
from profiler.results.types import CellResult, Parameters, Results
from profiler.units import bytes_text, parse_bytes, significant

Text = Callable[[CellResult], str]
PERCENTILES = (90, 99)
FEW = "n/a"
MACS_PER_SECOND = METRICS["macs_per_second"]
BEYOND = 4  # times the largest measured length or batch: farther than this a fit gives an order of magnitude
FAR = " *"
LIBRARY_ERROR = re.compile(r"^(in .*?: )?\w+(Error|Exception)\b")  # and not ours, which is a sentence


def build_tables(results: Results, memory: str | int | None = None) -> list[Table]:
    """All tables of a run, in reading order. `memory`: a size to say what fits in it, beside this machine's."""
    memory = memory or results.run.resolved.get("measure", {}).get("memory")
    several = len(results.variants) > 1
    tables: list[Table] = []
    if results.run.sides is not None:
        from profiler.report.comparison import sides_tables

        tables += sides_tables(results)
    name = _name(results, results.variants)
    if is_serving(results):
        return tables + serving_tables(results, name) + _sizes(results)
    if (models := models_table(f"Models - {name}", results)) is not None:
        tables.append(models)
    tables += _side_by_side(results) if several else _grids(results, name)
    tables += training_tables(results, name) + tradeoff_tables(results, name) + accuracy_tables(results, name)
    makers: dict[str, Callable[[str, list[CellResult]], Table | None]] = {
        "Real-time factor of CPU and device": cpu_and_device,
        f"Latency of each chunk, in {LATENCY.shown.name}": chunk_table,
        f"What a call costs over its length, in {LATENCY.shown.name}": cost_of_length,
        "What fits in memory": lambda title, cells: capacity_table(title, results, cells, memory),
        "Where the time goes": label_table,
        "What the GPU does": gpu_table,
        **{each.table: partial(_pass_table, each) for each in PASSES.values() if each.table},
        "GMAC per second of audio, by component": component_operations_table,
    }
    for title, make in makers.items():
        found = {variant: make(f"{title} - {name}", _cells(results, variant)) for variant in results.variants}
        tables += stacked({variant: table for variant, table in found.items() if table is not None}, several)
    return tables + dataset_tables(results, name) + _sizes(results)


def _pass_table(each: Pass[Any, Any], title: str, cells: list[CellResult]) -> Table | None:
    """One row per cell that the pass has a figure for."""
    measured = [cell for cell in cells if any(metric.in_cell(cell) is not None for metric in each.metrics)]
    if not measured:
        return None
    table = metric_table(title, measured, each.metrics)
    table.remarks = each.remarks(measured)
    return table


def _cells(results: Results, variant: str) -> list[CellResult]:
    return [cell for cell in results.cells if cell.variant == variant]


def _grids(results: Results, name: str) -> list[Table]:
    """The tables of one variant: rows are seconds, columns are batch sizes."""
    cells, places = results.cells, dict.fromkeys(results.places, ABSENT)
    tables = [
        grid(f"{metric.heading} - {name}", places | {(c.seconds, c.batch_size): metric.cell_number(c) for c in cells})
        for metric in _shown_grids(cells)
    ]
    tables[0].remarks = remarks_on(cells)
    return tables


def _shown_grids(cells: list[CellResult]) -> list[Metric]:
    """CPU and device time stand in one table, beside one another."""
    return [metric for metric in grids_of(cells) if metric not in (CPU_RTF, DEVICE_RTF)]


def _side_by_side(results: Results) -> list[Table]:
    """The tables of several variants: rows are cells, columns are variants."""
    name = _name(results, results.variants)
    tables = [side_by_side(f"{metric.heading} - {name}", results, metric) for metric in _shown_grids(results.cells)]
    tables[0].remarks.append(f"x0.5: half of the figure of the baseline, {baselines_text(results)}.")
    tables[0].remarks += remarks_on(results.cells)
    changes = changes_table(f"What the variants changed - {name}", results)
    engines = engines_table(f"Engines - {name}", results)
    return [*tables, *(table for table in (changes, engines) if table)]


def _sizes(results: Results) -> list[Table]:
    """How large the models are; variants of the same model share a table."""
    tables: list[Table] = []
    shown: list[Parameters] = []
    for model in results.models:
        if model.parameters.total is not None and model.parameters not in shown:
            shown.append(model.parameters)
            same = [other.variant for other in results.models if other.parameters == model.parameters]
            title = f"Parameters - {model.source}, {', '.join(same)}"
            title += f", {model.weights} weights" if model.weights else ""
            size = model.conversion.bytes_before if model.conversion else model.size_bytes
            tables.append(parameter_table(title, model.parameters, size))
    if len(results.models) > 1:
        sizes = size_table(f"{SIZE.title} - {_name(results, results.variants)}", results.models)
        tables += [sizes] if sizes else []
    return tables


def cost_of_length(title: str, cells: list[CellResult]) -> Table | None:
    """For each batch size: fixed cost of a call, cost of each further second, where the quadratic part sets in."""
    rows = []
    for batch in sorted({cell.batch_size for cell in cells}):
        column = [cell for cell in cells if cell.batch_size == batch and cell.latency_s is not None]
        values = [cell.latency_s.median for cell in column if cell.latency_s]
        fit = fit_durations(batch, [cell.seconds for cell in column], values)
        if fit is None:
            continue
        quadratic = "too few lengths" if fit.per_second_squared is None else "not seen"
        if fit.quadratic_from is not None:
            longest = max(cell.seconds for cell in column)
            beyond = " (beyond what was measured)" if fit.quadratic_from > longest else ""
            quadratic = f"from {significant(fit.quadratic_from, 2)} s{beyond}"
        mark = f" {UNSTABLE_MARK}" if any(cell.verdict == "unstable" for cell in column) else ""
        further = LATENCY.number(fit.per_second) if fit.per_second else "not seen"
        rows.append([f"{batch}{mark}", LATENCY.number(fit.fixed), further, quadratic])
    if not rows:
        return None
    table = Table(title, ["batch", "fixed", "each further second", "quadratic part matters"], rows)
    if any(UNSTABLE_MARK in row[0] for row in rows):
        table.remarks = [f"{UNSTABLE_MARK}: fitted over unstable figures, so no more certain than they are."]
    return table


def remarks_on(cells: list[CellResult], several: bool | None = None) -> list[str]:
    """Lines for cells of one variant, or of several, which are then named."""
    several = len({cell.variant for cell in cells}) > 1 if several is None else several
    remarks = []
    measured = [cell for cell in cells if cell.verdict is not None]
    if any(cell.verdict == "unstable" for cell in measured):
        remarks.append(
            f"{UNSTABLE_MARK} marks an unstable figure: its 95 % CI is wider than wanted, so much either way."
        )
    remarks += [f"- {sentence}" for sentence in disturbances(measured)]
    if few := few_calls(measured, several):
        remarks.append(f"- no 95 % CI: {few}.")
    failed = [cell for cell in cells if cell.status == "failed"]
    remarks += _listed(failed, several, lambda cell: f"failed: {cell.reason}")
    if any(LIBRARY_ERROR.search(cell.reason or "") for cell in failed):
        remarks.append(messages.FAILED_IN_LIBRARY)
    skipped = [cell for cell in cells if cell.status == "skipped"]
    remarks += _listed(skipped, several, lambda cell: f"skipped, {cell.reason}.")
    padding = [cell.input.share_of_padding for cell in cells if cell.input.audio is not None]
    if any(padding):
        remarks.append(f"Padding: {min(padding):.0%} to {max(padding):.0%} of a batch; RTF counts real audio only.")
    return remarks


def disturbances(measured: list[CellResult]) -> list[str]:
    """What disturbed the cells, each thing once: '8 of 9 cells: other processes used up to 1.2 CPUs meanwhile.'"""
    return [
        f"{count} of {len(measured)} cells: {messages.disturbance(kind, value)}"
        for kind, (count, value) in messages.worst([cell.disturbances for cell in measured]).items()
    ]


def _listed(cells: list[CellResult], several: bool, text: Text) -> list[str]:
    """One line for each distinct remark, with the cells it is about."""
    by_text: dict[str, dict[str, list[str]]] = {}
    for cell in cells:
        places = by_text.setdefault(text(cell), {}).setdefault(cell.variant, [])
        places.append(cell.place)
    return [f"- {_where(places, several)}: {remark}" for remark, places in by_text.items()]


def _where(places: dict[str, list[str]], several: bool) -> str:
    if not several:
        return ", ".join(place for found in places.values() for place in found)
    return "; ".join(f"{variant} {', '.join(found)}" for variant, found in places.items())


def chunk_table(title: str, cells: list[CellResult]) -> Table | None:
    """One row per cell; None where no model worked in chunks."""
    chunked = [cell for cell in cells if cell.chunks is not None]
    if not chunked:
        return None
    table = metric_table(title, chunked, CHUNKS)
    table.header = [head.removesuffix(f", {LATENCY.shown.name}") for head in table.header]  # the title has it
    table.remarks = [
        "In ms; the RTF is the median over the chunk's length. Late: the share of chunks that took longer "
        "than they last, so that the next one had to wait. Delay: from the first sound of a chunk to its result, "
        "which is chunk + lookahead + median."
    ]
    if any(FEW in row for row in table.rows):
        needed = " and ".join(f"{SAMPLES_NEEDED[percent]} chunks for p{percent}" for percent in PERCENTILES)
        table.remarks.append(f"{FEW}: too few chunks were timed; it takes {needed} (raise measure.budget).")
    return table


def component_operations_table(title: str, cells: list[CellResult]) -> Table | None:
    """GMAC per second of audio by component, one column per cell of batch size 1 (or the smallest there is)."""
    counted = [(cell, cell.operations) for cell in cells if cell.operations and len(cell.operations.components) > 1]
    if not counted:
        return None
    smallest = min(cell.batch_size for cell, _ in counted)
    shown = [(cell, found) for cell, found in counted if cell.batch_size == smallest]
    names = dict.fromkeys(name for _, found in shown for name in found.components)
    rows = []
    for name in names:
        row = [name]
        for _, found in shown:
            macs = found.components.get(name, 0)
            per_second = found.per_second * macs / found.macs if found.macs else 0.0
            row.append(MACS_PER_SECOND.number(per_second))
        rows.append(row)
    return Table(title, ["component", *(cell.place for cell, _ in shown)], rows)


def capacity_table(title: str, results: Results, cells: list[CellResult], asked: str | int | None) -> Table | None:
    """One row per question, one column per memory size; None with too few cells to fit."""
    measured = [cell for cell in cells if PEAK.in_cell(cell)]
    points = [(cell.seconds, cell.batch_size, float(PEAK.in_cell(cell))) for cell in measured]
    fit = fit_surface(points)
    if fit is None:
        return None
    sizes = _memory_sizes(results, asked)
    if not sizes:
        return None
    lengths = sorted({cell.seconds for cell in measured})
    batches = sorted({cell.batch_size for cell in measured})
    rows = [
        [f"longest audio, batch {batch}", *(_fits(fit.longest(size, batch), lengths[-1], " s") for _, size in sizes)]
        for batch in batches
    ]
    rows += [
        [f"largest batch, {length:g} s", *(_fits(fit.largest_batch(size, length), batches[-1]) for _, size in sizes)]
        for length in lengths
    ]
    remark = (
        f"From a fit over {len(points)} cells: {PEAK.text(fit.fixed)} at rest, then for each row of a batch "
        f"{PEAK.text(fit.per_row)} and {PEAK.text(fit.per_second)} per second"
        + (f" and {PEAK.text(fit.per_second_squared)} per second squared" if fit.per_second_squared else "")
        + "."
    )
    beyond = f"{FAR.strip()}: more than {BEYOND} times what was measured, so an order of magnitude only."
    far = any(cell.endswith(FAR) for row in rows for cell in row)
    return Table(title, ["", *(name for name, _ in sizes)], rows, [remark, *([beyond] if far else [])])


def _memory_sizes(results: Results, asked: str | int | None) -> list[tuple[str, float]]:
    environment = results.environment
    machine = environment.memory_limit_bytes or environment.memory_bytes
    sizes = [(f"this machine, {bytes_text(machine)}", float(machine))] if machine else []
    if asked is not None:
        size = parse_bytes(asked)
        sizes.append((bytes_text(size), float(size)))
    return sizes


def _fits(value: float | None, measured: float, unit: str = "") -> str:
    """What a fit says, marked where that lies far beyond what was measured."""
    if value is None:
        return "no limit seen"
    shown = significant(value, 2) if isinstance(value, float) else str(value)
    return f"{shown}{unit}{FAR if value > BEYOND * measured else ''}" if value > 0 else "does not fit"
