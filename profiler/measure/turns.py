"""Taking turns: two processes that hold what is compared make their calls one after the other, within milliseconds.

    A: warm up, rest | call, rest |            |            | call, rest
    B:               |            | call, rest | call, rest |

What the machine does meanwhile, it does to both. The one that waits must burn nothing: threads of a parallel operation
spin for a while after it, so a call is only reported once they have gone to sleep.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from profiler.device import Device
from profiler.measure.latency import OnSample, RoundSize, Timing, input_of, no_garbage_collection, timed, warm_up

# A call shorter than this is made once more, untimed, before: the other side has used the caches. What it lost there is
# read again within some tenths of a millisecond, a few per cent of such a call and next to nothing of a longer one.
COLD_SECONDS = 0.005
LOOK_SECONDS = 0.001  # how long to watch whether threads still spin
ASLEEP = 0.2  # CPUs: below, nothing spins
LONGEST_REST = 0.2  # seconds; threads that never sleep were told so (OMP_WAIT_POLICY=active), and are not waited for


def take_turns(
    run: Callable[[Any], Any],
    inputs: Sequence[Any],
    device: Device,
    size: RoundSize,
    wait: Callable[[float | None], bool],
    on_sample: OnSample,
) -> Timing:
    """Warm up, then make one timed call whenever `wait`, which is told how long the last one took, gives true."""
    timing = warm_up(run, inputs, device, size, on_sample)
    with no_garbage_collection():
        rest()
        while wait(timing.samples[-1] if timing.samples else None):
            value = input_of(inputs, len(timing.samples))
            if (timing.samples or timing.warmup)[-1] < COLD_SECONDS:
                run(value)
            timing.add(timed(run, value, device))
            on_sample(timing)
            rest()
    return timing


def rest() -> None:
    """Return once the threads of this process sleep; one thread alone has nobody to spin with."""
    import torch

    if torch.get_num_threads() == 1:
        return
    deadline = time.monotonic() + LONGEST_REST
    while time.monotonic() < deadline:
        cpu, start = time.process_time(), time.perf_counter()
        time.sleep(LOOK_SECONDS)
        if time.process_time() - cpu < ASLEEP * (time.perf_counter() - start):
            return
