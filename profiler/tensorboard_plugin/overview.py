"""Results of a run -> what the page shows first: the models, and a grid of cells for each variant."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from profiler.errors import UserError
from profiler.metrics import ALWAYS, GRIDS, LATENCY, METRICS, PARAMETERS, SIZE, grids_of
from profiler.report.tables import build_tables
from profiler.results.types import CellResult, Results
from profiler.results.untrusted import read_bytes

SHOWN_ALONE = (*ALWAYS, METRICS["tensors"], METRICS["macs"], METRICS["calls"], METRICS["rounds"])  # of one cell

LONGEST = 50_000_000  # bytes of a results.json that the list of runs looks into


class _Run(msgspec.Struct):
    started: str
    status: str


class _Model(msgspec.Struct):
    source: str


class _Head(msgspec.Struct):
    """What the list of runs says of one: a small part of its results, and the rest is skipped while reading."""

    run: _Run
    models: list[_Model] = []


def head(path: Path) -> dict[str, Any]:
    """When a run began (seconds), its status and its models: nothing where the file does not tell."""
    try:
        found = msgspec.json.decode(read_bytes(path, LONGEST), type=_Head)
        began = datetime.fromisoformat(found.run.started).timestamp()
    except (OSError, OverflowError, UserError, msgspec.MsgspecError, ValueError, RecursionError):
        return {}
    models = list(dict.fromkeys(model.source for model in found.models))
    return {"began": began, "status": found.run.status, "model": ", ".join(models)}


def overview(results: Results) -> dict[str, Any]:
    """All of a run but its raw samples, breakdowns and traces."""
    run, environment = results.run, results.environment
    return {
        "run": run.model_dump(include={"id", "recipe", "command", "started", "finished", "status", "notes"}),
        "machine": environment.model_dump(include={"host", "cpu", "threads", "os", "gpu", "device"}),
        "grids": [
            {"key": each.key, "title": each.heading, "timed": each.ci95 is not None} for each in grids_of(results.cells)
        ],
        "variants": [
            {
                "name": variant,
                "model": model_view(results, variant),
                "cells": [cell_view(cell) for cell in results.cells if cell.variant == variant],
            }
            for variant in results.variants
        ],
        "planned": _planned(results),
        "datasets": [found.dataset for found in results.datasets],
    }


def _planned(results: Results) -> dict[str, list[float]]:
    """The grid that the recipe asked for, so that cells that are still to come have a place."""
    return {
        "seconds": sorted({*results.run.planned("audio_mockup_secs"), *(cell.seconds for cell in results.cells)}),
        "batch_sizes": sorted({*results.run.planned("batch_sizes"), *(float(c.batch_size) for c in results.cells)}),
    }


def model_view(results: Results, variant: str) -> dict[str, Any] | None:
    model = results.model(variant)
    if model is None:
        return None
    known = (
        (metric.value(results, variant), metric, words) for metric, words in ((PARAMETERS, " parameters"), (SIZE, ""))
    )
    about = [metric.text(value) + words for value, metric, words in known if value is not None]
    return model.model_dump(include={"source", "type", "weights", "output", "notes"}) | {"about": about}


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
        "half_width": LATENCY.half_width(cell),
        "timed_region": cell.timed_region,
        "breakdown": cell.breakdown is not None,
        "facts": [[each.title, each.cell_text(cell)] for each in SHOWN_ALONE if each.in_cell(cell) is not None],
        "figures": {each.key: {"value": each.in_cell(cell), "text": each.cell_number(cell)} for each in GRIDS},
    }


def all_tables(results: Results) -> list[dict[str, Any]]:
    """Every table of the run, as `report` prints them."""
    return [
        {"title": table.title, "header": table.header, "rows": table.rows, "remarks": table.remarks}
        for table in build_tables(results)
    ]
