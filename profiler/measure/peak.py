"""Counted operations and a measured time -> how near the machine's peak that is, and what bounds it."""

from __future__ import annotations

from typing import Any

FLOPS_PER_MAC = 2
OVERHEAD = 0.2  # where arithmetic and memory both explain less of a call than this, neither bounds it


def higher_peak(known: dict[str, Any] | None, found: dict[str, Any]) -> dict[str, Any]:
    """The best of both, for arithmetic and memory each: a disturbance only ever lowers what is seen."""
    if known is None:
        return found
    return found | {name: max(known[name], found[name]) for name in ("gflops", "gb_per_s")}


def relate_to_peak(operations: dict[str, Any], latency: float, reference: dict[str, Any] | None) -> dict[str, Any]:
    """{achieved_gflops, intensity, share_of_peak, bound, peak_gflops, peak_gb_per_s}; peaks only where measured.

    `intensity` is FLOPs for each byte that operators read and write. `bound` is what would take longer at the peak:
    'compute' or 'memory'; 'overhead' where the call took several times longer than both.
    """
    flops = FLOPS_PER_MAC * operations["macs"]
    moved = operations["bytes_moved"]
    found: dict[str, Any] = {
        "achieved_gflops": flops / latency / 1e9 if latency > 0 else None,
        "intensity": flops / moved if moved else None,
    }
    if not reference or latency <= 0:
        return found
    arithmetic, memory = flops / (reference["gflops"] * 1e9), moved / (reference["gb_per_s"] * 1e9)
    bound = "compute" if arithmetic >= memory else "memory"
    return found | {
        "share_of_peak": arithmetic / latency,
        "bound": "overhead" if max(arithmetic, memory) < OVERHEAD * latency else bound,
        "peak_gflops": reference["gflops"],
        "peak_gb_per_s": reference["gb_per_s"],
    }
