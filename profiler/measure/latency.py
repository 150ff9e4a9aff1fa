"""The timing pass: wall and CPU seconds of the few calls of one round, with nothing switched on.

    make inputs | warm-up calls (discarded) | call, call, call ... until the round has enough
                                              ^  synchronise, clock, run, synchronise, clock

Inputs are made beforehand and come in pairs: A A B B ... Every call gets real, varied speech, and comparing the second
of each pair with the first shows whether the model, or something below it, caches results. Warm-up has an input of its
own, so that the first A is new.

Workers in other environments, which may be of Python 3.8, load this file by its path
(`execution/standalone_worker.py`): at its top it imports the standard library alone.
"""

from __future__ import annotations

import gc
import signal
import statistics
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import FrameType
    from typing import Any

    from profiler.device import Device

    OnSample = Callable[["Timing"], None]

CLOCK_DIGITS = 9  # nanoseconds, the resolution of the clock
INPUTS = 3  # batches made for a round: one to warm up with, two to time
WARMUP_SECONDS = 0.25  # a second warm-up call is not made where the first took longer: what it could gain is small


@dataclass(frozen=True)
class RoundSize:
    """How many calls a round makes."""

    warmup: int = 2
    min_calls: int = 1
    max_calls: int = 5
    seconds: float = 0.5  # of timed calls, after which no more than min_calls are made

    def enough(self, samples: Sequence[float]) -> bool:
        calls = len(samples)
        return calls >= self.max_calls or (calls >= self.min_calls and sum(samples) >= self.seconds)


@dataclass(frozen=True)
class CallTimes:
    """Seconds of one call: wall time, CPU time of all threads of the process, the device's own where it has a clock.

    CPU time ends where the call returns: the CPU may spin while it waits for a device, which is the device's time."""

    wall: float
    cpu: float
    device: float | None
    paused: bool = False  # the process was stopped, or the machine slept, in the middle of it


@dataclass
class Timing:
    """What one round of the timing pass gives."""

    samples: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    device_samples: list[float] = field(default_factory=list)
    warmup: list[float] = field(default_factory=list)
    left_out: int = 0  # calls in which the process stood still: they say nothing about the model

    def add(self, call: CallTimes) -> None:
        if call.paused:
            self.left_out += 1
            return
        self.samples.append(call.wall)
        self.cpu.append(call.cpu)
        if call.device is not None:
            self.device_samples.append(call.device)


def time_calls(
    run: Callable[[Any], Any],
    inputs: Sequence[Any],
    device: Device,
    size: RoundSize,
    on_sample: OnSample = lambda timing: None,
) -> Timing:
    """Warm up, then time calls until the round has enough. `on_sample` is called between calls."""
    timing = warm_up(run, inputs, device, size, on_sample)
    with no_garbage_collection():
        while not size.enough(timing.samples):
            timing.add(timed(run, input_of(inputs, len(timing.samples)), device))
            on_sample(timing)
    return timing


def warm_up(
    run: Callable[[Any], Any], inputs: Sequence[Any], device: Device, size: RoundSize, on_sample: OnSample
) -> Timing:
    """The calls that pay for what is done once: pages touched, threads started, kernels chosen."""
    timing = Timing()
    while len(timing.warmup) < size.warmup and sum(timing.warmup) < WARMUP_SECONDS:
        timing.warmup.append(timed(run, inputs[0], device).wall)
        on_sample(timing)
    return timing


def input_of(inputs: Sequence[Any], number: int) -> Any:
    """The input of a timed call, counted from 0: A A B B A A ..."""
    return inputs[1 + number // 2 % (len(inputs) - 1)]


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """None begins in the middle of a timed call."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


SLEPT_SECONDS = 1.0  # no sleep of a machine is shorter
_continued = [0]


def notice_stops() -> None:
    """From here on this process and its forks count how often they were continued after a stop (SIGSTOP)."""

    def count(number: int, frame: FrameType | None) -> None:
        _continued[0] += 1

    signal.signal(signal.SIGCONT, count)


def _pauses() -> tuple[int, float]:
    """How often this process was continued, and how long the machine has slept (Linux: one clock goes on meanwhile)."""
    if not hasattr(time, "CLOCK_BOOTTIME"):
        return _continued[0], 0.0
    return _continued[0], time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)


def timed(run: Callable[[Any], Any], value: Any, device: Device) -> CallTimes:
    """One call, by the clocks."""
    stops, slept = _pauses()
    device.synchronize()
    before = device.event()
    cpu = time.process_time()
    start = time.perf_counter()
    run(value)
    after = device.event()
    cpu = time.process_time() - cpu
    device.synchronize()
    end = time.perf_counter()
    later_stops, later_slept = _pauses()
    return CallTimes(
        round(end - start, CLOCK_DIGITS),
        round(cpu, CLOCK_DIGITS),
        device.seconds_between(before, after),
        later_stops != stops or later_slept - slept > SLEPT_SECONDS,
    )


# A repeated input may be a little faster: its data still lie in the processor's caches. This much is more than that.
SUSPICIOUS_RATIO = 0.8


def repeated_over_fresh(samples: Sequence[float]) -> float | None:
    """Median of calls whose input was just seen, over calls with a new input; None with fewer than 3 pairs."""
    pairs = len(samples) // 2
    if pairs < 3:
        return None
    fresh = statistics.median(samples[0 : 2 * pairs : 2])
    return statistics.median(samples[1 : 2 * pairs : 2]) / fresh if fresh > 0 else None


# -- taking turns: two processes that hold what is compared make their calls one after the other, within milliseconds
#
#     A: warm up, rest | call, rest |            |            | call, rest
#     B:               |            | call, rest | call, rest |
#
# What the machine does meanwhile, it does to both. The one that waits must burn nothing: threads of a parallel
# operation spin for a while after it, so a call is only reported once they have gone to sleep.

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
            made = len(timing.samples)
            while len(timing.samples) == made:
                timing.add(timed(run, value, device))
                on_sample(timing)
            rest()
    return timing


def rest() -> None:
    """Return once the threads of this process sleep; one thread alone has nobody to spin with."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.get_num_threads() == 1:
        return
    deadline = time.monotonic() + LONGEST_REST
    while time.monotonic() < deadline:
        cpu, start = time.process_time(), time.perf_counter()
        time.sleep(LOOK_SECONDS)
        if time.process_time() - cpu < ASLEEP * (time.perf_counter() - start):
            return
