"""Threads of this process that wait -> how many CPUs they keep busy: measured alike for every engine.

    call | sleep 20 ms: CPU time of all threads but this one, over the wall time | call | sleep ...

ONNX Runtime has a setting that can be read back. OpenVINO's, ExecuTorch's and OpenMP's threads have none that tells,
and what a setting promises is seen here too. A thread that spins takes a CPU from whatever runs next to the call.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

LOOKS = 3
SECONDS = 0.02  # of each look: longer than a thread may need to fall asleep, about as long as a busy one may spin
SPINNING = 0.2  # CPUs; below, nothing spins


def waiting_cpus(call: Callable[[], object]) -> float:
    """The median of a few looks; on a busy machine, where a spinning thread gets little CPU, it may be too low."""
    return statistics.median(_look(call) for _ in range(LOOKS))


def _look(call: Callable[[], object]) -> float:
    call()
    start, cpu, own = time.perf_counter(), time.process_time(), time.thread_time()
    time.sleep(SECONDS)
    cpu, own = time.process_time() - cpu, time.thread_time() - own
    return max(0.0, cpu - own) / (time.perf_counter() - start)
