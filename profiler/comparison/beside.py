"""What stands beside speed: memory and energy of a cell; size, parameters and error rate of a variant."""

from __future__ import annotations

from typing import Any

from profiler.comparison.result import Change
from profiler.results import Accuracy, CellResult, Results

MEMORY = {
    "process": "memory of the process",
    "tensors": "memory of tensors",
    "device": "memory on the device",
}


def beside_cell(first: CellResult, second: CellResult) -> list[Change]:
    """Figures that at least one of the two has."""
    found = []
    for name, words in MEMORY.items():
        values = [getattr(cell.peak_memory_bytes, name, None) for cell in (first, second)]
        found += _change(words, "bytes", *values)
    energy = [cell.energy_j or {} for cell in (first, second)]
    changes = _change("energy of a call", "J", energy[0].get("per_call"), energy[1].get("per_call"))
    sources = [each.get("source") for each in energy]
    if changes and all(sources) and sources[0] != sources[1]:
        changes[0].remark = f"from {sources[0]} and from {sources[1]}"
    return found + changes


def beside_variant(first: Results, second: Results, variants: tuple[str, str]) -> list[Change]:
    """Size and parameters, error rates where both have learned something, real-time factor over a data set."""
    models = first.model(variants[0]), second.model(variants[1])
    sizes = [model.size_bytes.get("total") if model else None for model in models]
    counts = [model.parameters.get("total") if model else None for model in models]
    found = _change("size", "bytes", *sizes) + _change("parameters", "", *counts)
    accuracy = accuracy_of(first, variants[0]), accuracy_of(second, variants[1])
    for name, words in (("wer", "word error rate"), ("cer", "character error rate")):
        rates = [getattr(each, name, None) for each in accuracy]
        changes = _change(words, "fraction", *(rate.value if rate else None for rate in rates))
        for change in changes:
            change.before_ci95, change.after_ci95 = (rate.ci95 if rate else None for rate in rates)
            sets = [each.dataset if each else "no data set" for each in accuracy]
            if sets[0] != sets[1]:
                change.remark = f"of {sets[0]} and of {sets[1]}"
        found += changes
    data = [
        next((each for each in results.datasets if each.variant == variant), None)
        for results, variant in zip((first, second), variants, strict=True)
    ]
    found += _change("RTF over the data set", "", *(each.rtf if each else None for each in data))
    return found


def accuracy_of(results: Results, variant: str) -> Accuracy | None:
    return next((entry for entry in results.accuracy if entry.variant == variant), None)


def _change(name: str, unit: str, before: Any, after: Any) -> list[Change]:
    """One change, or none where neither has the figure."""
    one = float(before) if isinstance(before, (int, float)) else None
    two = float(after) if isinstance(after, (int, float)) else None
    if one is None and two is None:
        return []
    ratio = two / one if one and two is not None else None
    return [Change(name=name, unit=unit, before=one, after=two, ratio=ratio)]
