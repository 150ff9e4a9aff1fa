"""Counted operations and a measured time -> how near the machine's peak that is, and what bounds it."""

from __future__ import annotations

from profiler.results.types import Operations, Reference

FLOPS_PER_MAC = 2
OVERHEAD = 0.2  # where arithmetic and memory both explain less of a call than this, neither bounds it


def higher_peak(known: Reference | None, found: Reference) -> Reference:
    """The best of both, for arithmetic and memory each: a disturbance only ever lowers what is seen."""
    if known is None:
        return found
    best = {"gflops": max(known.gflops, found.gflops), "gb_per_s": max(known.gb_per_s, found.gb_per_s)}
    return found.model_copy(update=best)


def relate_to_peak(operations: Operations, latency: float, reference: Reference | None) -> None:
    """Fill in how fast the operations were done, and how near the peak that is, where it was measured.

    `intensity` is FLOPs for each byte that operators read and write. `bound` is what would take longer at the peak:
    'compute' or 'memory'; 'overhead' where the call took several times longer than both.
    """
    flops, moved = FLOPS_PER_MAC * operations.macs, operations.bytes_moved
    operations.achieved_gflops = flops / latency / 1e9 if latency > 0 else None
    operations.intensity = flops / moved if moved else None
    if not reference or latency <= 0:
        return
    arithmetic, memory = flops / (reference.gflops * 1e9), moved / (reference.gb_per_s * 1e9)
    operations.share_of_peak = arithmetic / latency
    operations.bound = "compute" if arithmetic >= memory else "memory"
    if max(arithmetic, memory) < OVERHEAD * latency:
        operations.bound = "overhead"
    operations.peak_gflops, operations.peak_gb_per_s = reference.gflops, reference.gb_per_s
