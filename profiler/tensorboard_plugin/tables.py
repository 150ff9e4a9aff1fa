"""The tables of one cell: by label, module and operator. From its breakdown; where it has none, from its trace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from profiler.report.breakdown import BreakdownQuery, By, label_rows, remarks_of, rows_of
from profiler.results.types import CellResult
from profiler.tensorboard_plugin.folder import LogFolder
from profiler.tensorboard_plugin.trace.columns import Columns
from profiler.tensorboard_plugin.trace.tables import rows_from_trace

BYS = ("label", "module", "module_unfolded", "operator")
FROM_TRACE = (
    "Made from the trace alone: sums over all its calls, under torch's profiler, which makes small operators slower "
    "than they are. A trace does not tell modules, the memory of an operator or its operations."
)
ON_DEVICE = (
    "Total, self and share are times of the CPU. On device: kernels, copies and fills that were launched there; the "
    "two are never added, since both run at the same time."
)
NO_LABELS = (
    "A thread without labels, such as that of autograd's backward pass, counts for the label that is open in the main "
    "thread."
)
NO_MODULES = "A trace alone does not tell modules."
NOTHING = "There is no breakdown and no trace of this cell"


def cell_table(folder: LogFolder, run: Path, cell: CellResult, by: str, trace: Columns | None) -> dict[str, Any]:
    """{rows, remarks}; {rows: [], message} where there is nothing to show, with the reason."""
    if cell.breakdown is None:
        return _without_breakdown(cell, by, trace)
    part: By = "operator" if by == "operator" else "label" if by == "label" else "module"
    asked = BreakdownQuery(by=part, unfolded=by == "module_unfolded")
    if by == "label":
        rows = label_rows(cell)
    else:
        rows = [row.model_dump() for row in rows_of(folder.file(run, cell.breakdown.file), asked)]
    return {"rows": rows, "remarks": remarks_of(cell, asked)}


def table_of_trace(trace: Columns, by: str) -> dict[str, Any]:
    """Of a trace that belongs to no run."""
    if by.startswith("module"):
        return {"rows": [], "message": NO_MODULES}
    rows = rows_from_trace(trace, by)
    on_device = any("device_s" in row for row in rows)
    remarks = [FROM_TRACE, *([ON_DEVICE] if on_device else []), *([NO_LABELS] if on_device and by == "label" else [])]
    return {"rows": rows, "remarks": remarks}


def _without_breakdown(cell: CellResult, by: str, trace: Columns | None) -> dict[str, Any]:
    why = (cell.reason or cell.breakdown_reason or "the recipe has trace.breakdown: false").rstrip(".")
    if trace is None:
        return {"rows": [], "message": f"{NOTHING}: {why}."}
    found = table_of_trace(trace, by)
    if "message" in found:
        found["message"] = f"There is no breakdown: {why}. {found['message']}"
    return found
