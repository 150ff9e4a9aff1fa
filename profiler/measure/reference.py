"""What this machine can do at best, by a short workload of known size, and how near to it a cell came.

A matrix multiply bounds arithmetic, a copy of a large array bounds memory. The best of several repeats is taken: noise
only ever slows them down. It is run at both ends of a run, which tells whether the machine still can what it could.
How long one thread takes to hand work to another tells whether the cores that they run on are near each other.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

from profiler.device import Device
from profiler.measure.operations import FLOPS_PER_MAC
from profiler.results.types import Operations, Reference

MATRIX = 1024  # 3 x 4 MB: in cache on server processors, large enough to use all threads well
COPY_BYTES = 64 * 1024 * 1024  # larger than the last-level cache
# On an accelerator so large that a repeat takes milliseconds, and launching and waiting for it next to nothing of that.
MATRIX_ON_DEVICE, COPY_BYTES_ON_DEVICE = 8192, 512 * 1024 * 1024
SECONDS_EACH = 0.4


def measure_reference(device: Device) -> Reference:
    """Of the current process, on the device that its model is measured on."""
    import torch

    on_cpu = device.kind == "cpu"
    size, copied = (MATRIX, COPY_BYTES) if on_cpu else (MATRIX_ON_DEVICE, COPY_BYTES_ON_DEVICE)
    place = torch.device("cpu" if on_cpu else device.name)
    left, right = torch.randn(size, size, device=place), torch.randn(size, size, device=place)
    product = torch.empty(size, size, device=place)
    source = torch.ones(copied // 4, device=place)
    target = torch.empty_like(source)
    multiply = _best(lambda: torch.mm(left, right, out=product), device)
    copy = _best(lambda: target.copy_(source), device)
    return Reference(
        gflops=2 * size**3 / multiply / 1e9,
        gb_per_s=2 * copied / copy / 1e9,  # read and written
        threads=torch.get_num_threads(),
    )


def _best(work: Callable[[], Any], device: Device) -> float:
    work()
    device.synchronize()
    best, until = float("inf"), time.perf_counter() + SECONDS_EACH
    while time.perf_counter() < until:
        start = time.perf_counter()
        work()
        device.synchronize()
        best = min(best, time.perf_counter() - start)
    return best


OVERHEAD = 0.2  # where arithmetic and memory both explain less of a call than this, neither bounds it


def higher_peak(known: Reference | None, found: Reference) -> Reference:
    """The best of both, for arithmetic and memory each: a disturbance only ever lowers what is seen."""
    if known is None:
        return found
    best = {"gflops": max(known.gflops, found.gflops), "gb_per_s": max(known.gb_per_s, found.gb_per_s)}
    return found.model_copy(update=best)


def relate_to_peak(operations: Operations, latency: float, reference: Reference | None) -> None:
    """Fill in how fast the operations were done, and how near the peak that is, where it was measured. `bound` is what
    would take longer at the peak, or `overhead` where the call took several times longer than both."""
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


# Cores come in groups that share a cache. A hypervisor moves a virtual machine's cores between groups without notice,
# and threads that were neighbours are not any more: a call of many small operations takes half as long again (seen),
# though no counter of the system shows anything and a matrix multiply is as fast as before. Handing over shows it.
SHARE = 32768  # elements: what torch gives to a thread before it asks another one
THREADS = 8  # beyond these the elements alone would take longer than handing them over
CALLS, LEAST_CALLS, SECONDS = 200, 20, 0.01
FAR = 1.25  # times the shortest: another distance, not chance


def measure_handoff() -> float | None:
    """Seconds of an operation that is shared among threads and does next to nothing; None with one thread."""
    import torch

    threads = min(torch.get_num_threads(), THREADS)
    if threads < 2:
        return None
    source = torch.ones(SHARE * (threads - 1) + SHARE // 4)
    target = torch.empty_like(source)
    times: list[float] = []
    for _ in range(5):  # threads start, pages are touched
        torch.neg(source, out=target)
    until = time.perf_counter() + SECONDS
    while len(times) < LEAST_CALLS or (len(times) < CALLS and time.perf_counter() < until):
        start = time.perf_counter()
        torch.neg(source, out=target)
        times.append(time.perf_counter() - start)
    return round(statistics.median(times), 9)
