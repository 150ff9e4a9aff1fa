"""The metrics of a run: one line each, with key, title, unit and where its value stands in the results.

`history` follows one of them over runs; `compare` shows how those other than time changed between two.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from profiler.errors import UserError, did_you_mean
from profiler.results.types import Accuracy, CellResult, Results


@dataclass(frozen=True)
class Metric:
    """A figure of a cell, or of a variant as a whole."""

    key: str
    title: str
    unit: str  # s, bytes, J, fraction, or none; as in profiler/report/comparison/words.value_text
    of_cell: Callable[[CellResult], Any] | None = None
    of_variant: Callable[[Results, str], Any] | None = None
    better: str = "lower"
    time: bool = False  # follows the time of a call, and so the machine's noise


def accuracy_of(results: Results, variant: str) -> Accuracy | None:
    return next((entry for entry in results.accuracy if entry.variant == variant), None)


def _memory(name: str) -> Callable[[CellResult], Any]:
    return lambda cell: getattr(cell.peak_memory_bytes, name, None)


def _rate(name: str) -> Callable[[Results, str], Any]:
    return lambda results, variant: getattr(getattr(accuracy_of(results, variant), name, None), "value", None)


def _model(field: str) -> Callable[[Results, str], Any]:
    return lambda results, variant: getattr(getattr(results.model(variant), field, None), "total", None)


def _dataset_rtf(results: Results, variant: str) -> Any:
    return next((entry.rtf for entry in results.datasets if entry.variant == variant), None)


METRICS = {
    metric.key: metric
    for metric in (
        Metric("rtf", "Real-time factor", "", of_cell=lambda cell: cell.rtf, time=True),
        Metric("rtfx", "Seconds of audio per second", "", lambda cell: cell.rtfx, better="higher", time=True),
        Metric("latency", "Latency of one call", "s", lambda cell: getattr(cell.latency_s, "median", None), time=True),
        Metric("memory", "Peak memory of the process", "bytes", of_cell=_memory("process")),
        Metric("tensors", "Peak memory of the call's tensors", "bytes", of_cell=_memory("tensors")),
        Metric("device", "Peak memory on the device", "bytes", of_cell=_memory("device")),
        Metric("energy", "Energy of one call", "J", of_cell=lambda cell: cell.energy_j and cell.energy_j.per_call),
        Metric("size", "Size of the saved state", "bytes", of_variant=_model("size_bytes")),
        Metric("parameters", "Parameters", "", of_variant=_model("parameters")),
        Metric("wer", "Word error rate", "fraction", of_variant=_rate("wer")),
        Metric("cer", "Character error rate", "fraction", of_variant=_rate("cer")),
        Metric("dataset_rtf", "RTF over the data set", "", of_variant=_dataset_rtf, time=True),
    )
}


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
        _change(metric, metric.of_cell(first), metric.of_cell(second))
        for metric in METRICS.values()
        if metric.of_cell and not metric.time
    ]
    sources = [cell.energy_j.source if cell.energy_j else None for cell in (first, second)]
    for change in changes:
        if change.metric == "energy" and all(sources) and sources[0] != sources[1]:
            change.remark = f"from {sources[0]} and from {sources[1]}"
    return _measured(changes)


def variant_changes(first: Results, second: Results, variants: tuple[str, str]) -> list[Change]:
    """Of size, parameters, error rates and the real-time factor over a data set, where one of the two has them."""
    sides, changes = ((first, variants[0]), (second, variants[1])), []
    for metric in METRICS.values():
        if metric.of_variant is None:
            continue
        change = _change(metric, *(metric.of_variant(*side) for side in sides))
        if metric.key in ("wer", "cer"):
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
