"""The figures that can be followed over runs: where each stands in the results, and its unit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from profiler.comparison.beside import accuracy_of
from profiler.errors import UserError
from profiler.nearest import nearest
from profiler.results import CellResult, Results


@dataclass(frozen=True)
class Figure:
    """What is followed; of a cell, or of a variant as a whole."""

    name: str
    title: str
    unit: str  # as in profiler/report/comparison/words.value_text
    of_cell: Callable[[CellResult], Any] | None = None
    of_variant: Callable[[Results, str], Any] | None = None
    better: str = "lower"


def _memory(name: str) -> Callable[[CellResult], Any]:
    return lambda cell: getattr(cell.peak_memory_bytes, name, None)


def _rate(name: str) -> Callable[[Results, str], Any]:
    return lambda results, variant: getattr(getattr(accuracy_of(results, variant), name, None), "value", None)


def _size(results: Results, variant: str) -> Any:
    model = results.model(variant)
    return model.size_bytes.get("total") if model else None


FIGURES = {
    figure.name: figure
    for figure in (
        Figure("rtf", "Real-time factor", "", of_cell=lambda cell: cell.rtf),
        Figure("rtfx", "Seconds of audio per second", "", of_cell=lambda cell: cell.rtfx, better="higher"),
        Figure("latency", "Latency of one call", "s", of_cell=lambda cell: getattr(cell.latency_s, "median", None)),
        Figure("memory", "Peak memory of the process", "bytes", of_cell=_memory("process")),
        Figure("tensors", "Peak memory of the call's tensors", "bytes", of_cell=_memory("tensors")),
        Figure("energy", "Energy of one call", "J", of_cell=lambda cell: (cell.energy_j or {}).get("per_call")),
        Figure("size", "Size of the saved state", "bytes", of_variant=_size),
        Figure("wer", "Word error rate", "fraction", of_variant=_rate("wer")),
        Figure("cer", "Character error rate", "fraction", of_variant=_rate("cer")),
    )
}


def find_figure(name: str) -> Figure:
    if name not in FIGURES:
        raise UserError(f"There is no figure `{name}`.{nearest(name, list(FIGURES))}")
    return FIGURES[name]
