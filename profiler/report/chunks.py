"""The latency of each chunk of a model that takes its audio piece by piece, and how long its listener waits."""

from __future__ import annotations

from profiler.report.table import Table
from profiler.results.statistics import SAMPLES_NEEDED
from profiler.results.types import CellResult, ChunkLatency
from profiler.units import significant

PERCENTILES = (90, 99)
FEW = "n/a"


def chunk_table(title: str, cells: list[CellResult]) -> Table | None:
    """One row per cell; None where no model worked in chunks."""
    chunked = [(cell, cell.chunks) for cell in cells if cell.chunks is not None]
    if not chunked:
        return None
    shown = [f"p{percent}" for percent in PERCENTILES]
    header = ["audio x batch", "chunk", "lookahead", "median", *shown, "max", "RTF of a chunk", "late", "delay"]
    rows = [[cell.place, *_row(chunks, shown)] for cell, chunks in chunked]
    remarks = [
        "In ms; the RTF is the median over the chunk's length. Late: the share of chunks that took longer "
        "than they last, so that the next one had to wait. Delay: from the first sound of a chunk to its result, "
        "which is chunk + lookahead + median."
    ]
    if any(FEW in row for row in rows):
        needed = " and ".join(f"{SAMPLES_NEEDED[percent]} chunks for p{percent}" for percent in PERCENTILES)
        remarks.append(f"{FEW}: too few chunks were timed; it takes {needed} (raise measure.budget).")
    return Table(title, header, rows, remarks)


def _row(chunks: ChunkLatency, shown: list[str]) -> list[str]:
    found = [chunks.percentiles.get(name) for name in shown]
    return [
        _ms(chunks.seconds),
        _ms(chunks.lookahead_s),
        _ms(chunks.median),
        *(FEW if value is None else _ms(value) for value in found),
        _ms(chunks.max),
        significant(chunks.median / chunks.seconds, 3),
        f"{significant(chunks.over * 100, 2)}%",
        _ms(chunks.seconds + chunks.lookahead_s + chunks.median),
    ]


def _ms(seconds: float) -> str:
    return significant(seconds * 1e3, 3)
