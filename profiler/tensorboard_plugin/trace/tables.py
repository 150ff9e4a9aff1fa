"""Tables from a trace alone, for traces that have no breakdown beside them: labels and operators, with their times."""

from __future__ import annotations

from typing import Any

import numpy as np

from profiler.tensorboard_plugin.trace.columns import Columns, nest
from profiler.tensorboard_plugin.trace.search import top_names

LABELS = ("user_annotation", "gpu_user_annotation")
OPERATORS = ("cpu_op", "kernel", "gpu_memcpy", "gpu_memset")
MICRO = 1e-6


def rows_from_trace(columns: Columns, by: str) -> list[dict[str, Any]]:
    """Rows of the same shape as those of a breakdown; what a trace does not tell is None. Sums over the whole trace."""
    wanted = LABELS if by == "label" else OPERATORS
    kinds = [number for number, name in enumerate(columns.categories) if name in wanted]
    places = np.flatnonzero(np.isin(columns.category, kinds))
    tracks = np.repeat(columns.row_track, np.diff(columns.rows))[places]
    order = np.lexsort((-columns.duration[places], columns.start[places], tracks))
    places = places[order]
    _, own_time = nest(tracks[order], columns.start[places], columns.duration[places])  # of one kind among its own
    whole = columns.length * MICRO or 1.0
    rows = []
    for row in top_names(columns, places, own_time):
        total, own = row["total"] * MICRO, row["own"] * MICRO
        rows.append(
            {"name": row["name"], "calls": row["calls"], "total_s": total, "own_s": own}
            | {"share": total / whole, "own_share": own / whole, "memory_bytes": None, "macs": None}
        )
    return rows
