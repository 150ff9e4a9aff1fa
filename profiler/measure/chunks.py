"""Latencies of single chunks: what a timing pass sends of them, and the figures made of all rounds.

A long recording has thousands of chunks per call. Number, maximum and how many were late are exact; of the latencies
themselves each round keeps a random choice, so that messages and files stay small however long a run is.
"""

from __future__ import annotations

import random
import statistics
from typing import TYPE_CHECKING, Any

from profiler.measure.latency import CLOCK_DIGITS
from profiler.results.statistics import percentiles
from profiler.results.types import ChunkLatency

if TYPE_CHECKING:
    from profiler.models.model import Chunks

KEPT_IN_ROUND = 1000  # enough for the 99th percentile in every round


def chunk_figures(chunks: Chunks, seed: int) -> dict[str, Any]:
    """What a round saw, as plain values."""
    times = chunks.times
    kept = times if len(times) <= KEPT_IN_ROUND else random.Random(seed).sample(times, KEPT_IN_ROUND)
    return {
        "seconds": chunks.seconds,
        "lookahead_s": chunks.lookahead,
        "n": len(times),
        "late": sum(seconds > chunks.seconds for seconds in times),
        "max": round(max(times, default=0.0), CLOCK_DIGITS),
        "samples": [round(seconds, CLOCK_DIGITS) for seconds in kept],
    }


def add_round(earlier: ChunkLatency | None, figures: dict[str, Any]) -> ChunkLatency | None:
    """The figures of all rounds so far; None where nothing was processed."""
    if not figures["n"]:
        return earlier
    samples = [*(earlier.samples if earlier else []), *figures["samples"]]
    n = figures["n"] + (earlier.n if earlier else 0)
    late = figures["late"] + (earlier.late if earlier else 0)
    return ChunkLatency(
        seconds=figures["seconds"],
        lookahead_s=figures["lookahead_s"],
        n=n,
        median=statistics.median(samples),
        percentiles=percentiles(samples),
        max=max(figures["max"], earlier.max if earlier else 0.0),
        late=late,
        over=late / n,
        samples=samples,
    )
