"""The size of a model as a table: parameters, what of them is trained, buffers and bytes, by component."""

from __future__ import annotations

from profiler.metrics import PARAMETERS, SIZE
from profiler.report.table import Table
from profiler.results.types import Parameters, Size

SHOWN_SHARED = 8


def parameter_table(title: str, parameters: Parameters, size: Size) -> Table:
    """One row a component, then the total; below, what is shared and so counted once."""
    total, details = parameters.total or 0, parameters.details
    names = list(dict.fromkeys([*parameters.components, *details]))
    rows = []
    for name in names:
        count = parameters.components.get(name, 0)
        inner = details.get(name)
        rows.append(
            [
                name,
                PARAMETERS.number(count),
                f"{count / total:.1%}" if total else "",
                _count(inner.trainable if inner else None),
                _count(inner.buffers if inner else None),
                SIZE.number(size.components.get(name) or None, absent=""),
            ]
        )
    rows.append(
        [
            "total",
            PARAMETERS.number(total),
            "100%" if total else "",
            _count(parameters.trainable),
            _count(parameters.buffers),
            SIZE.number(size.total or None, absent=""),
        ]
    )
    table = Table(title, ["component", PARAMETERS.head, "share", "trainable", "buffers", SIZE.head], rows)
    shared = parameters.shared
    if shared:
        table.remarks.append("Shared, and counted once:")
        table.remarks += [f"- {' = '.join(group)}" for group in shared[:SHOWN_SHARED]]
        if len(shared) > SHOWN_SHARED:
            table.remarks.append(f"- and {len(shared) - SHOWN_SHARED} more")
    return table


def _count(value: int | None) -> str:
    return PARAMETERS.number(value, absent="")
