"""A short workload of known size: what this machine can do at best, and whether it still can at the end of the run.

A matrix multiply bounds arithmetic, a copy of a large array bounds memory. The best of several repeats is taken: noise
only ever slows them down.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from profiler.results.types import Reference

MATRIX = 1024  # 3 x 4 MB: in cache on server processors, large enough to use all threads well
COPY_BYTES = 64 * 1024 * 1024  # larger than the last-level cache
SECONDS_EACH = 0.4


def measure_reference() -> Reference:
    """Of the current process."""
    import torch

    left, right = torch.randn(MATRIX, MATRIX), torch.randn(MATRIX, MATRIX)
    product = torch.empty(MATRIX, MATRIX)
    source = torch.ones(COPY_BYTES // 4)
    target = torch.empty_like(source)
    multiply = _best(lambda: torch.mm(left, right, out=product))
    copy = _best(lambda: target.copy_(source))
    return Reference(
        gflops=2 * MATRIX**3 / multiply / 1e9,
        gb_per_s=2 * COPY_BYTES / copy / 1e9,  # read and written
        threads=torch.get_num_threads(),
    )


def _best(work: Callable[[], Any]) -> float:
    work()
    best, until = float("inf"), time.perf_counter() + SECONDS_EACH
    while time.perf_counter() < until:
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best
