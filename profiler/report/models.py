"""Models side by side: results whose variants are different models -> one table with all that a run says of each.

Tables by figure compare ways to run one model, with ratios. Of different models a reader asks what each one has and
costs: parameters, size, latency over the length, memory, operations, energy, in one place.
"""

from __future__ import annotations

from profiler.metrics import LATENCY, METRICS, PARAMETERS, PEAK, RTF, SIZE
from profiler.report.table import PLACE, Table
from profiler.results.types import Results

MACS = METRICS["macs"]
ENERGY = METRICS["energy"]
OF_CELLS = (LATENCY, RTF, PEAK, MACS, ENERGY)


def are_models(results: Results) -> bool:
    """Whether each variant is a model of its own, and not another way to run one."""
    sources = [model.source for model in results.models]
    return len(sources) > 1 and len(set(sources)) == len(sources)


def models_table(title: str, results: Results) -> Table | None:
    """One row per model and cell; a figure that no cell has, such as energy without a sensor, has no column."""
    if not are_models(results):
        return None
    shown = [metric for metric in OF_CELLS if any(metric.in_cell(cell) is not None for cell in results.cells)]
    rows = []
    for variant in results.variants:
        model = [metric.number(metric.value(results, variant)) for metric in (PARAMETERS, SIZE)]
        for cell in (cell for cell in results.cells if cell.variant == variant):
            rows.append([variant, *model, cell.place, *(metric.cell_number(cell) for metric in shown)])
    return Table(title, ["model", PARAMETERS.head, SIZE.head, PLACE, *(metric.head for metric in shown)], rows)
