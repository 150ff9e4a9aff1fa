"""The traces of a run that was made on a GPU -> what its report says of the GPU."""

from __future__ import annotations

from pathlib import Path

from profiler.errors import UserError
from profiler.results.types import CellResult, GpuUse, KernelTime, Results
from profiler.results.untrusted import inside
from profiler.tensorboard_plugin.trace import gpu
from profiler.tensorboard_plugin.trace.columns import COPY
from profiler.tensorboard_plugin.trace.store import TraceStore

KERNELS = 5  # the first so many are named


def add_gpu_use(results: Results, folder: Path) -> list[CellResult]:
    """Put it into the cells that have a trace; gives those that changed."""
    store, changed = TraceStore(), []
    for cell in results.cells:
        found = _use(folder, cell.trace, store) if cell.trace else None
        if found != cell.gpu:
            cell.gpu = found
            changed.append(cell)
    return changed


def _use(folder: Path, trace: str, store: TraceStore) -> GpuUse | None:
    """None where nothing ran on a GPU, or the trace cannot be read."""
    try:
        columns = store.get(inside(folder, trace))
    except (OSError, UserError):
        return None
    facts = gpu.overview(columns)
    if facts is None:
        return None
    rows = gpu.kernel_rows(columns, gpu.activity(columns))[:KERNELS]
    return GpuUse(
        utilisation=max((one["utilisation"] or 0.0 for one in facts["devices"]), default=None),
        idle=facts["idle"],
        copying=facts["shares"]["memcpy"],
        launch_bound=facts["launch_bound"],
        copies_s=float(columns.duration[columns.of(COPY)].sum()) * gpu.MICRO,
        kernels=[
            KernelTime(name=row["short"], calls=row["calls"], total_s=row["total_s"], share=row["share"])
            for row in rows
        ],
        advice=facts["advice"],
    )
