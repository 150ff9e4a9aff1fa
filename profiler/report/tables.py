"""Results -> tables: rows are seconds, columns are batch sizes. The same text in the terminal and in Markdown."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from profiler.measure.fit import fit_durations
from profiler.measure.passes import PASSES, Pass
from profiler.metrics import LATENCY, SIZE, grids_of
from profiler.report.accuracy import accuracy_tables
from profiler.report.breakdown import label_table
from profiler.report.capacity import capacity_table
from profiler.report.chunks import chunk_table
from profiler.report.dataset import dataset_tables
from profiler.report.names import name_of as _name
from profiler.report.operations import component_operations_table
from profiler.report.parameters import parameter_table
from profiler.report.remarks import remarks_on
from profiler.report.table import Table, metric_table, stacked
from profiler.report.tradeoff import tradeoff_tables
from profiler.report.training import training_tables
from profiler.report.variants import changes_table, side_by_side, size_table
from profiler.results.metric import Metric
from profiler.results.types import CellResult, Parameters, Results
from profiler.units import significant


def build_tables(results: Results, memory: str | int | None = None) -> list[Table]:
    """All tables of a run, in reading order. `memory`: a size to say what fits in it, beside this machine's."""
    memory = memory or results.run.resolved.get("measure", {}).get("memory")
    several = len(results.variants) > 1
    tables: list[Table] = []
    if results.run.sides is not None:
        from profiler.report.comparison.tables import sides_tables

        tables += sides_tables(results)
    tables += _side_by_side(results) if several else _grids(results.cells, _name(results, results.variants))
    name = _name(results, results.variants)
    tables += training_tables(results, name) + tradeoff_tables(results, name) + accuracy_tables(results, name)
    makers: dict[str, Callable[[str, list[CellResult]], Table | None]] = {
        f"Latency of each chunk, in {LATENCY.shown.name}": chunk_table,
        f"What a call costs over its length, in {LATENCY.shown.name}": cost_of_length,
        "What fits in memory": lambda title, cells: capacity_table(title, results, cells, memory),
        "Where the time goes": label_table,
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


def _grids(cells: list[CellResult], name: str) -> list[Table]:
    """The tables of one variant: rows are seconds, columns are batch sizes."""
    tables = [_grid(f"{metric.heading} - {name}", cells, metric) for metric in grids_of(cells)]
    tables[0].remarks = remarks_on(cells)
    return tables


def _side_by_side(results: Results) -> list[Table]:
    """The tables of several variants: rows are cells, columns are variants."""
    name = _name(results, results.variants)
    tables = [side_by_side(f"{metric.heading} - {name}", results, metric) for metric in grids_of(results.cells)]
    tables[0].remarks.append(f"x0.5: half of the figure of {results.variants[0]}.")
    tables[0].remarks += remarks_on(results.cells)
    changes = changes_table(f"What the variants changed - {name}", results)
    return tables + ([changes] if changes else [])


def _sizes(results: Results) -> list[Table]:
    """How large the models are; variants of the same model share a table."""
    tables: list[Table] = []
    shown: list[Parameters] = []
    for model in results.models:
        if model.parameters.total is not None and model.parameters not in shown:
            shown.append(model.parameters)
            same = [other.variant for other in results.models if other.parameters == model.parameters]
            title = f"Parameters - {model.source}, {', '.join(same)}, {model.weights} weights"
            size = model.conversion.bytes_before if model.conversion else model.size_bytes
            tables.append(parameter_table(title, model.parameters, size))
    if len(results.models) > 1:
        sizes = size_table(f"{SIZE.title} - {_name(results, results.variants)}", results.models)
        tables += [sizes] if sizes else []
    return tables


def _grid(title: str, cells: list[CellResult], metric: Metric) -> Table:
    seconds = sorted({cell.seconds for cell in cells})
    batches = sorted({cell.batch_size for cell in cells})
    by_place = {(cell.seconds, cell.batch_size): cell for cell in cells}
    rows = []
    for length in seconds:
        row = [f"{length:g} s"]
        for batch in batches:
            cell = by_place.get((length, batch))
            row.append(metric.cell_number(cell) if cell else "not yet")
        rows.append(row)
    return Table(title, ["audio \\ batch", *(str(batch) for batch in batches)], rows)


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
        rows.append([str(batch), LATENCY.number(fit.fixed), LATENCY.number(fit.per_second), quadratic])
    if not rows:
        return None
    return Table(title, ["batch", "fixed", "each further second", "quadratic part matters"], rows)
