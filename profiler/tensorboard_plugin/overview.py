"""Results of a run -> what the page shows first: the models, and a grid of cells for each variant."""

from __future__ import annotations

from typing import Any

from profiler.report import figures
from profiler.report.tables import build_tables
from profiler.results.types import CellResult, Model, Results

# What can be shown as a heat map: key, title, text of a cell, which end is good.
GRIDS = (
    ("rtf", "Real-time factor (below 1 is faster than real time)", figures.rtf_text),
    ("latency", "Latency of one call, in ms", figures.latency_text),
    ("process", "Peak memory of the process", figures.memory_text),
    ("tensors", "Peak memory of the call's tensors", figures.tensors_text),
    ("device", "Peak memory on the device", figures.device_memory_text),
)


def value_of(cell: CellResult, key: str) -> float | None:
    """The number behind a figure."""
    memory = cell.peak_memory_bytes
    if key == "rtf":
        return cell.rtf
    if key == "latency":
        return cell.latency_s.median if cell.latency_s else None
    return getattr(memory, key) if memory else None


def overview(results: Results) -> dict[str, Any]:
    """All of a run but its raw samples, breakdowns and traces."""
    run, environment = results.run, results.environment
    keys = [key for key, _, _ in GRIDS if any(value_of(cell, key) is not None for cell in results.cells)]
    return {
        "run": run.model_dump(include={"id", "recipe", "command", "started", "finished", "status", "notes"}),
        "machine": environment.model_dump(include={"host", "cpu", "threads", "os", "gpu"}),
        "grids": [{"key": key, "title": title} for key, title, _ in GRIDS if key in keys],
        "variants": [
            {
                "name": variant,
                "model": model_view(results.model(variant)),
                "cells": [cell_view(cell) for cell in results.cells if cell.variant == variant],
            }
            for variant in results.variants
        ],
        "planned": _planned(results),
        "datasets": [found.dataset for found in results.datasets],
    }


def _planned(results: Results) -> dict[str, list[float]]:
    """The grid that the recipe asked for, so that cells that are still to come have a place."""
    grid = results.run.resolved.get("profiling_dimensions")
    grid = grid if isinstance(grid, dict) else {}
    seconds, batches = grid.get("audio_mockup_secs") or [], grid.get("batch_sizes") or []
    found_seconds = [cell.seconds for cell in results.cells]
    found_batches = [float(cell.batch_size) for cell in results.cells]
    return {
        "seconds": sorted({*_numbers(seconds), *found_seconds}),
        "batch_sizes": sorted({*_numbers(batches), *found_batches}),
    }


def _numbers(values: Any) -> list[float]:
    return [float(value) for value in values if isinstance(value, int | float)] if isinstance(values, list) else []


def model_view(model: Model | None) -> dict[str, Any] | None:
    if model is None:
        return None
    view = model.model_dump(include={"source", "type", "weights", "output", "notes"})
    return view | {"parameters": model.parameters.total, "size_bytes": model.size_bytes.total}


def cell_view(cell: CellResult) -> dict[str, Any]:
    """A cell as the grids and its heading show it. Texts are those of the tables."""
    return {
        "label": cell.label,
        "seconds": cell.seconds,
        "batch_size": cell.batch_size,
        "status": cell.status,
        "reason": cell.reason,
        "verdict": cell.verdict,
        "verdict_reasons": cell.verdict_reasons,
        "half_width": figures.half_width(cell),
        "calls": cell.latency_s.n if cell.latency_s else None,
        "rounds": len(cell.latency_s.rounds) if cell.latency_s else None,
        "timed_region": cell.timed_region,
        "breakdown": cell.breakdown is not None,
        "macs": cell.operations.macs if cell.operations else None,
        "figures": {key: {"value": value_of(cell, key), "text": text(cell)} for key, _, text in GRIDS},
    }


def all_tables(results: Results) -> list[dict[str, Any]]:
    """Every table of the run, as `report` prints them."""
    return [
        {"title": table.title, "header": table.header, "rows": table.rows, "remarks": table.remarks}
        for table in build_tables(results)
    ]
