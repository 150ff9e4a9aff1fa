"""How long one thread takes to hand work to another: it tells whether the cores that they run on are near each other.

Cores come in groups that share a cache. A hypervisor moves a virtual machine's cores between groups without notice,
and threads that were neighbours are not any more: a call of many small operations takes half as long again (seen),
though no counter of the system shows anything and a matrix multiply is as fast as before. Handing over shows it.
"""

from __future__ import annotations

import statistics
import time

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
