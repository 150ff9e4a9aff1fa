"""Hardware tables: runs of one recipe on several machines or thread counts side by side, as published ones are.

A column group for each machine, in it a column for each batch size. Markdown has no cells that span columns: the name
of a machine stands over the first column of its group, and the batch sizes in the first row.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from profiler.conditions.floor import readings
from profiler.errors import UserError, did_you_mean
from profiler.history import machine_names
from profiler.metrics import GRIDS
from profiler.report.table import Table
from profiler.results.metric import Metric
from profiler.results.types import CellResult, Results
from profiler.units import bytes_text, length_text, significant

KNOWN = {metric.key: metric for metric in GRIDS}
SHOWN = ("rtf", "latency", "memory")


def machine_tables(runs: Sequence[Results], shown: Sequence[str] = SHOWN) -> list[Table]:
    """The machines, then one table per figure and variant. Raises UserError for figures that are not known."""
    for name in shown:
        if name not in KNOWN:
            raise UserError(f"There is no table of `{name}`.{did_you_mean(name, list(KNOWN))}")
    groups, remarks = _groups(runs)
    tables = [_about(groups, remarks)]
    variants = list(dict.fromkeys(variant for results in runs for variant in results.variants))
    for name in shown:
        for variant in variants:
            mine = {machine: results for (machine, other), results in groups.items() if other == variant}
            title = f"{KNOWN[name].heading} - {_model(mine, variant)}"
            tables.append(_side_by_side(title, mine, variant, KNOWN[name]))
    return tables


def _groups(runs: Sequence[Results]) -> tuple[dict[tuple[str, str], Results], list[str]]:
    """(machine, variant) -> the newest run of it; and which runs are left out for a newer one."""
    names = machine_names(runs)
    found: dict[tuple[str, str], Results] = {}
    left_out: dict[str, None] = {}
    for results in sorted(runs, key=lambda each: each.run.started):
        for variant in results.variants:
            key = (names[results.run.id, variant], variant)
            if key in found:
                left_out[found[key].run.id] = None
            found[key] = results
    order = {results.run.id: number for number, results in enumerate(runs)}
    found = dict(sorted(found.items(), key=lambda item: order[item[1].run.id]))
    remarks = [f"{run} is left out: there is a newer run of the same machine and threads." for run in left_out]
    recipes = list(dict.fromkeys(Path(results.run.recipe).stem for results in runs))
    if len(recipes) > 1:
        remarks.append(f"These runs are of different recipes: {', '.join(recipes)}.")
    return found, remarks


def _about(groups: dict[tuple[str, str], Results], remarks: list[str]) -> Table:
    """One row per machine: what it is, and what its reference workload gave."""
    header = ["machine", "cores", "memory", "torch", "GFLOP/s", "GB/s", "run"]
    rows: dict[str, list[str]] = {}
    for (machine, variant), results in groups.items():
        environment = results.environment
        threads = results.threads(variant)
        peaks = [max(readings(results, threads, name), default=None) for name in ("gflops", "gb_per_s")]
        rows.setdefault(
            machine,
            [
                machine,
                str(environment.cores),
                bytes_text(environment.memory_bytes) if environment.memory_bytes else "n/a",
                str(environment.packages.get("torch")),
                *("n/a" if peak is None else significant(peak, 3) for peak in peaks),
                results.run.id,
            ],
        )
    return Table("Machines", header, list(rows.values()), remarks)


def _side_by_side(title: str, groups: dict[str, Results], variant: str, metric: Metric) -> Table:
    places: dict[str, dict[tuple[float, int], CellResult]] = {
        machine: {(cell.seconds, cell.batch_size): cell for cell in results.cells if cell.variant == variant}
        for machine, results in groups.items()
    }
    lengths = sorted({seconds for cells in places.values() for seconds, _ in cells})
    batches = {machine: sorted({batch for _, batch in cells}) for machine, cells in places.items()}
    header, sizes = ["audio \\ batch"], [""]
    for machine, columns in batches.items():
        header += [machine, *([""] * (len(columns) - 1))]
        sizes += [f"**{batch}**" for batch in columns]
    rows = [sizes]
    for seconds in lengths:
        row = [length_text(seconds)]
        for machine, columns in batches.items():
            found: list[Any] = [places[machine].get((seconds, batch)) for batch in columns]
            row += [metric.cell_number(cell) if cell is not None else "" for cell in found]
        rows.append(row)
    return Table(title, header, rows)


def _model(groups: dict[str, Results], variant: str) -> str:
    models = [model for results in groups.values() if (model := results.model(variant)) is not None]
    sources = ", ".join(dict.fromkeys(model.source for model in models))
    weights = " and ".join(dict.fromkeys(model.weights for model in models if model.weights))
    return ", ".join(part for part in (sources, variant, f"{weights} weights" if weights else "") if part)
