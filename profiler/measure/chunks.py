"""Latencies of single chunks: what a timing pass sends of them, and the figures made of all rounds.

A long recording has thousands of chunks per call. Number, maximum and how many were late are exact; of the latencies
themselves each round keeps a random choice, so that messages and files stay small however long a run is.
"""

from __future__ import annotations

import random
import statistics
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from profiler.measure.latency import CLOCK_DIGITS
from profiler.results.metric import detail, of
from profiler.results.statistics import percentiles
from profiler.results.types import CellResult, ChunkLatency

if TYPE_CHECKING:
    from profiler.models.model import Chunks

KEPT_IN_ROUND = 1000  # enough for the 99th percentile in every round


def _chunk_rtf(cell: CellResult) -> float | None:
    return cell.chunks.median / cell.chunks.seconds if cell.chunks else None


def _delay(cell: CellResult) -> float | None:
    """From the first sound of a chunk to its result."""
    chunks = cell.chunks
    return chunks.seconds + chunks.lookahead_s + chunks.median if chunks else None


_chunk = partial(of, "chunks")
CHUNKS = (
    detail("chunk", "chunk", "s", "chunk_s", _chunk("seconds")),
    detail("lookahead", "lookahead", "s", "", _chunk("lookahead_s")),
    detail("chunk_median", "median", "s", "chunk_latency_median_s", _chunk("median")),
    detail("chunk_p90", "p90", "s", "", _chunk("percentiles", "p90")),
    detail("chunk_p99", "p99", "s", "", _chunk("percentiles", "p99")),
    detail("chunk_max", "max", "s", "chunk_latency_max_s", _chunk("max")),
    detail("chunk_rtf", "RTF of a chunk", "", "", _chunk_rtf, time=True),
    detail("chunks_late", "late", "share", "chunks_late_fraction", _chunk("over")),
    detail("chunk_delay", "delay", "s", "", _delay),
)


@dataclass
class ChunkRound:
    """What one round saw."""

    seconds: float
    lookahead_s: float
    n: int
    late: int
    max: float
    samples: list[float]


def chunk_round(chunks: Chunks, seed: int) -> ChunkRound:
    """The chunks of the round's timed calls."""
    times = chunks.times
    kept = times if len(times) <= KEPT_IN_ROUND else random.Random(seed).sample(times, KEPT_IN_ROUND)
    return ChunkRound(
        seconds=chunks.seconds,
        lookahead_s=chunks.lookahead,
        n=len(times),
        late=sum(seconds > chunks.seconds for seconds in times),
        max=round(max(times, default=0.0), CLOCK_DIGITS),
        samples=[round(seconds, CLOCK_DIGITS) for seconds in kept],
    )


def add_round(earlier: ChunkLatency | None, new: ChunkRound) -> ChunkLatency | None:
    """The figures of all rounds so far; None where nothing was processed."""
    if not new.n:
        return earlier
    samples = [*(earlier.samples if earlier else []), *new.samples]
    n = new.n + (earlier.n if earlier else 0)
    late = new.late + (earlier.late if earlier else 0)
    return ChunkLatency(
        seconds=new.seconds,
        lookahead_s=new.lookahead_s,
        n=n,
        median=statistics.median(samples),
        percentiles=percentiles(samples),
        max=max(new.max, earlier.max if earlier else 0.0),
        late=late,
        over=late / n,
        samples=samples,
    )
