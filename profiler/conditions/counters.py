"""How the machine was while a job ran: CPU time taken by others, stolen by the hypervisor, throttling.

Read before and after a job from the kernel's counters: nothing runs beside the job.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass

import psutil

from profiler.environment import throttle_counts
from profiler.results.types import Condition


@dataclass(frozen=True)
class Counters:
    """CPU seconds since boot, and what our own processes had of them."""

    clock: float
    busy: float
    stolen: float
    ours: float
    throttled: int


def read_counters(worker_pids: Sequence[int], job_cpu_seconds: float = 0.0) -> Counters:
    """`job_cpu_seconds`: what the processes of finished jobs say they used."""
    cpu = psutil.cpu_times()
    busy = sum(getattr(cpu, name, 0.0) for name in ("user", "nice", "system", "irq", "softirq"))
    stolen = getattr(cpu, "steal", 0.0)
    own = os.times()
    ours = own.user + own.system + sum(map(_cpu_seconds, worker_pids)) + job_cpu_seconds
    return Counters(time.monotonic(), busy, stolen, ours, throttle_counts())


def _cpu_seconds(pid: int) -> float:
    """CPU seconds of a process, without its children."""
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system)


def between(before: Counters, after: Counters) -> Condition:
    """What happened from one reading to the next, in CPUs (1.0 = one CPU all the time)."""
    wall = max(after.clock - before.clock, 1e-6)
    others = (after.busy - before.busy) - (after.ours - before.ours)
    return Condition(
        wall_s=round(wall, 3),
        other_cpus=round(max(0.0, others) / wall, 3),
        stolen_cpus=round(max(0.0, after.stolen - before.stolen) / wall, 3),
        throttled=max(0, after.throttled - before.throttled),
    )
