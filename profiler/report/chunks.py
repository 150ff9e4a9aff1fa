"""The latency of each chunk of a model that takes its audio piece by piece, and how long its listener waits."""

from __future__ import annotations

from profiler.measure.chunks import CHUNKS
from profiler.metrics import LATENCY
from profiler.report.table import Table, metric_table
from profiler.results.statistics import SAMPLES_NEEDED
from profiler.results.types import CellResult

PERCENTILES = (90, 99)
FEW = "n/a"


def chunk_table(title: str, cells: list[CellResult]) -> Table | None:
    """One row per cell; None where no model worked in chunks."""
    chunked = [cell for cell in cells if cell.chunks is not None]
    if not chunked:
        return None
    table = metric_table(title, chunked, CHUNKS)
    table.header = [head.removesuffix(f", {LATENCY.shown.name}") for head in table.header]  # the title has it
    table.remarks = [
        "In ms; the RTF is the median over the chunk's length. Late: the share of chunks that took longer "
        "than they last, so that the next one had to wait. Delay: from the first sound of a chunk to its result, "
        "which is chunk + lookahead + median."
    ]
    if any(FEW in row for row in table.rows):
        needed = " and ".join(f"{SAMPLES_NEEDED[percent]} chunks for p{percent}" for percent in PERCENTILES)
        table.remarks.append(f"{FEW}: too few chunks were timed; it takes {needed} (raise measure.budget).")
    return table
