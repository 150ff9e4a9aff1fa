"""The size of a model as a table: parameters, what of them is trained, buffers and bytes, by component."""

from __future__ import annotations

from typing import Any

from profiler.report.table import Table
from profiler.units import bytes_text

SHOWN_SHARED = 8


def parameter_table(title: str, parameters: dict[str, Any], size: dict[str, Any]) -> Table:
    """One row a component, then the total; below, what is shared and so counted once."""
    total = parameters["total"]
    details = parameters.get("details", {})
    names = list(dict.fromkeys([*parameters["components"], *details]))
    rows = []
    for name in names:
        count = parameters["components"].get(name, 0)
        inner = details.get(name, {})
        rows.append(
            [
                name,
                f"{count:,}",
                f"{count / total:.1%}" if total else "",
                _count(inner.get("trainable")),
                _count(inner.get("buffers")),
                _bytes(size.get("components", {}).get(name)),
            ]
        )
    rows.append(
        [
            "total",
            f"{total:,}",
            "100%" if total else "",
            _count(parameters.get("trainable")),
            _count(parameters.get("buffers")),
            _bytes(size.get("total")),
        ]
    )
    table = Table(title, ["component", "parameters", "share", "trainable", "buffers", "size"], rows)
    shared = parameters.get("shared", [])
    if shared:
        table.remarks.append("Shared, and counted once:")
        table.remarks += [f"- {' = '.join(group)}" for group in shared[:SHOWN_SHARED]]
        if len(shared) > SHOWN_SHARED:
            table.remarks.append(f"- and {len(shared) - SHOWN_SHARED} more")
    return table


def _count(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _bytes(value: int | None) -> str:
    return bytes_text(value) if value else ""
