"""The timing pass: wall seconds of single calls, with nothing switched on.

    make inputs | warm-up calls (discarded) | call, call, call ... until the stop rule says enough
                                              ^  synchronise, clock, run, synchronise, clock

Inputs are made beforehand and come in pairs: A A B B C C ... Every call gets real, varied speech, and comparing the
second of each pair with the first shows whether the model, or something below it, caches results.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from profiler.device import Device
from profiler.measure.statistics import relative_half_width

INTERVAL_NEEDS = 6  # samples: with fewer, not even the extremes bound the median with 95 % confidence
CLOCK_DIGITS = 9  # nanoseconds, the resolution of the clock
VARIED_INPUTS = 4  # different batches in a cell; enough to tell caching from chance, few enough to hold in memory


@dataclass(frozen=True)
class StopRule:
    """When a round of a cell has enough samples."""

    min_calls: int
    width: float
    budget: float  # seconds of timed calls in this round
    earlier: tuple[float, ...] = ()  # samples of earlier rounds
    max_calls: int = 100

    def decide(self, samples: Sequence[float]) -> str | None:
        """'width', 'budget' or 'max_calls' when it is time to stop, else None."""
        if len(samples) < self.min_calls or len(self.earlier) + len(samples) < INTERVAL_NEEDS:
            return None
        if relative_half_width(sorted([*self.earlier, *samples])) <= self.width:
            return "width"
        if sum(samples) >= self.budget:
            return "budget"
        return "max_calls" if len(samples) >= self.max_calls else None

    def next_look(self, calls: int) -> int:
        """After how many calls to decide again: looking costs time that grows with the samples."""
        return min(max(self.min_calls, calls + 1 + calls // 20), max(self.max_calls, calls + 1))


@dataclass
class Timing:
    """What one round of the timing pass gives."""

    samples: list[float] = field(default_factory=list)
    device_samples: list[float] = field(default_factory=list)
    warmup: list[float] = field(default_factory=list)
    stopped_by: str = ""


def time_calls(
    run: Callable[[Any], Any],
    inputs: Sequence[Any],
    device: Device,
    rule: StopRule,
    warmup: int,
    on_sample: Callable[[Timing], None] = lambda timing: None,
) -> Timing:
    """Warm up, then time calls until the rule is content. `on_sample` is called between calls."""
    timing = Timing()
    for number in range(warmup):
        timing.warmup.append(timed(run, inputs[number % len(inputs)], device)[0])
        on_sample(timing)
    gc.collect()
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        look = rule.next_look(0)
        while not timing.stopped_by:
            value = inputs[len(timing.samples) // 2 % len(inputs)]
            seconds, device_seconds = timed(run, value, device)
            timing.samples.append(seconds)
            if device_seconds is not None:
                timing.device_samples.append(device_seconds)
            on_sample(timing)
            if len(timing.samples) >= look:
                timing.stopped_by = rule.decide(timing.samples) or ""
                look = rule.next_look(len(timing.samples))
    finally:
        if was_enabled:
            gc.enable()
    return timing


def timed(run: Callable[[Any], Any], value: Any, device: Device) -> tuple[float, float | None]:
    """Wall seconds of one call, and the device's own where it has a clock."""
    device.synchronize()
    before = device.event()
    start = time.perf_counter()
    run(value)
    after = device.event()
    device.synchronize()
    end = time.perf_counter()
    return round(end - start, CLOCK_DIGITS), device.seconds_between(before, after)


# A repeated input may be a little faster: its data still lie in the processor's caches. This much is more than that.
SUSPICIOUS_RATIO = 0.8


def repeated_over_fresh(samples: Sequence[float]) -> float | None:
    """Median of calls whose input was just seen, over calls with a new input; None with fewer than 3 pairs."""
    pairs = len(samples) // 2
    if pairs < 3:
        return None
    fresh = statistics.median(samples[0 : 2 * pairs : 2])
    return statistics.median(samples[1 : 2 * pairs : 2]) / fresh if fresh > 0 else None
