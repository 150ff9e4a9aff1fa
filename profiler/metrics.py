"""All metrics of a run: those of the passes, which are lines in their files, and those of models and data sets, here.

Every view takes titles, units and digits from them: tables, CSV and data frames, plots, history, compare, the tab. So a
figure has one name, one unit and the same digits wherever it is read. results/metric.py says what a metric is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pydantic import BaseModel

from profiler.errors import UserError, did_you_mean
from profiler.measure.passes import PASSES
from profiler.measure.passes.memory import MEMORY
from profiler.measure.passes.memory import PEAK as PEAK
from profiler.measure.passes.time import CPU_RTF, DEVICE_RTF
from profiler.measure.passes.time import LATENCY as LATENCY
from profiler.measure.passes.time import RTF as RTF
from profiler.measure.passes.time import RTFX as RTFX
from profiler.results.metric import Metric, follow
from profiler.results.types import Accuracy, CellResult, DatasetResult, Results


def accuracy_of(results: Results, variant: str) -> Accuracy | None:
    return next((entry for entry in results.accuracy if entry.variant == variant), None)


def _model(part: str) -> Callable[[Results, str], Any]:
    return lambda results, variant: follow(results.model(variant), part, "total")


def _engine(part: str) -> Callable[[Results, str], Any]:
    return lambda results, variant: follow(results.model(variant), "conversion", "runtime", part)


def _rate(part: str) -> Callable[[Results, str], Any]:
    return lambda results, variant: follow(accuracy_of(results, variant), part, "value")


def dataset_of(results: Results, variant: str) -> DatasetResult | None:
    return next((entry for entry in results.datasets if entry.variant == variant), None)


def _dataset(*path: str) -> Callable[[Results, str], Any]:
    return lambda results, variant: follow(dataset_of(results, variant), *path)


SIZE = Metric("size", "Size of the saved state", "size", "bytes", "size_bytes", None, _model("size_bytes"))
PARAMETERS = Metric("parameters", "Parameters", "parameters", "count", "parameters", None, _model("parameters"))
WER = Metric("wer", "Word error rate", "WER", "fraction", "wer_fraction", None, _rate("wer"))
CER = Metric("cer", "Character error rate", "CER", "fraction", "cer_fraction", None, _rate("cer"))
DATASET_RTF = Metric("dataset_rtf", "RTF over the data set", "RTF", "", "", None, _dataset("rtf"), time=True)
_batch = _dataset("latency_s", "median")
BATCH = Metric("batch", "Median batch of the data set", "median batch", "s", "", None, _batch, detail=True)

EXPORT = Metric("export", "Time of the export", "export", "s", "export_s", None, _engine("export_s"), detail=True)
EXPORT_PEAK = Metric(
    *("export_memory", "Peak memory of the export", "peak of export", "bytes", "export_peak_bytes"),
    of_variant=_engine("export_peak_bytes"),
    detail=True,
)
FILE = Metric(
    *("engine_file", "Size of the engine's files", "files", "bytes", "engine_file_bytes"),
    of_variant=_engine("file_bytes"),
    detail=True,
)
LOAD = Metric(
    "engine_load", "Loading the engine", "loading", "s", "engine_load_s", None, _engine("load_s"), detail=True
)

METRICS = {
    metric.key: metric
    for metric in (
        *(metric for each in PASSES.values() for metric in each.metrics),
        *(SIZE, PARAMETERS, WER, CER, DATASET_RTF, BATCH),
        *(EXPORT, EXPORT_PEAK, FILE, LOAD),
    )
}
# What has a table of its own, seconds by batch sizes, in reading order. ALWAYS: also where every cell failed.
GRIDS = (RTF, CPU_RTF, DEVICE_RTF, LATENCY, *(metric for metric in MEMORY if not metric.detail))
ALWAYS = (RTF, LATENCY, PEAK)


def grids_of(cells: Iterable[CellResult]) -> list[Metric]:
    """Those that some cell has a figure for."""
    found = list(cells)
    return [metric for metric in GRIDS if metric in ALWAYS or any(metric.in_cell(cell) is not None for cell in found)]


def find_metric(key: str) -> Metric:
    if key not in METRICS:
        raise UserError(f"There is no figure `{key}`.{did_you_mean(key, list(METRICS))}")
    return METRICS[key]


class Change(BaseModel):
    """A metric in one run and in another; null where it was not measured."""

    metric: str
    title: str
    unit: str = ""
    before: float | None = None
    after: float | None = None
    ratio: float | None = None
    before_ci95: tuple[float, float] | None = None
    after_ci95: tuple[float, float] | None = None
    remark: str = ""


def cell_changes(first: CellResult, second: CellResult) -> list[Change]:
    """Of memory and energy of a cell, where one of the two has them."""
    changes = [
        _change(metric, metric.in_cell(first), metric.in_cell(second))
        for metric in METRICS.values()
        if metric.of_cell and not metric.time and not metric.detail
    ]
    sources = [follow(cell, "energy_j", "source") for cell in (first, second)]
    for change in changes:
        if change.metric == "energy" and all(sources) and sources[0] != sources[1]:
            change.remark = f"from {sources[0]} and from {sources[1]}"
    return _measured(changes)


def variant_changes(first: Results, second: Results, variants: tuple[str, str]) -> list[Change]:
    """Of size, parameters, error rates and the real-time factor over a data set, where one of the two has them."""
    sides, changes = ((first, variants[0]), (second, variants[1])), []
    for metric in METRICS.values():
        if metric.of_variant is None or metric.detail:
            continue
        change = _change(metric, *(metric.of_variant(*side) for side in sides))
        if metric in (WER, CER):
            entries = [accuracy_of(*side) for side in sides]
            rates = [getattr(entry, metric.key, None) for entry in entries]
            change.before_ci95, change.after_ci95 = (rate.ci95 if rate else None for rate in rates)
            sets = [entry.dataset if entry else "no data set" for entry in entries]
            change.remark = f"of {sets[0]} and of {sets[1]}" if sets[0] != sets[1] else ""
        changes.append(change)
    return _measured(changes)


def _change(metric: Metric, before: Any, after: Any) -> Change:
    one, two = (float(value) if isinstance(value, (int, float)) else None for value in (before, after))
    ratio = two / one if one and two is not None else None
    return Change(metric=metric.key, title=metric.title, unit=metric.unit, before=one, after=two, ratio=ratio)


def _measured(changes: list[Change]) -> list[Change]:
    return [change for change in changes if change.before is not None or change.after is not None]
