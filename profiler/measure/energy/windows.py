"""The energy pass: joules over windows that are long enough for the sensor, with nothing else switched on.

    idle | call call call ... | call call call ... | call call call ... | idle
    1 s    window: whole calls, 1 s or more; three of them                1 s
           ^ joules, clock      ^ joules, clock                         what sleeping costs, subtracted

Call it where earlier calls have paid for what is done once, as for the memory pass.
"""

from __future__ import annotations

import contextlib
import gc
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from profiler.device import Device
from profiler.measure.energy.sensor import GIVE_WATTS, Sensor, SensorError, Unavailable, energy_of
from profiler.results.types import Energy

BELOW_NOISE = (
    "the energy above idle came out negative: it is below the noise of the sensor, and shown as it was measured"
)
IDLE_STILL = "the counter did not move while the machine was idle, so the idle power is not known"


class Clock(Protocol):
    """What is used of the module `time`."""

    def perf_counter(self) -> float: ...

    def sleep(self, seconds: float, /) -> None: ...


@dataclass(frozen=True)
class Window:
    joules: float
    seconds: float
    calls: int = 0

    @property
    def watts(self) -> float:
        return self.joules / self.seconds


def measure_energy(
    run: Callable[[Any], Any],
    value: Any,
    device: Device,
    sensor: Sensor,
    seconds_of_audio: float,
    idle_seconds: float = 1.0,
    window_seconds: float = 1.0,
    windows: int = 3,
    clock: Clock = time,
) -> Energy | Unavailable:
    """`seconds_of_audio` is all audio of a call, batch size x seconds."""
    gc.collect()
    device.synchronize()
    try:
        with _read_often(sensor):
            before = _idle(sensor, idle_seconds, clock)
            work = [_work(run, value, device, sensor, window_seconds, clock) for _ in range(windows)]
            after = _idle(sensor, idle_seconds, clock)
    except SensorError as problem:
        return Unavailable(f"the sensor failed during the pass: {problem}", GIVE_WATTS)
    if any(window.joules < 0 for window in [before, *work, after]):
        return Unavailable(f"the counter of {sensor.name} went backwards: it was reset meanwhile", "measure again")
    still = [window for window in work if window.joules == 0]
    if still:
        return Unavailable(
            f"the counter of {sensor.name} did not move in {len(still)} of {len(work)} windows of at least "
            f"{window_seconds:g} s with calls in them: it is frozen, or too coarse",
            f"lengthen the windows, or {GIVE_WATTS}",
        )
    return _energy(sensor, work, [before, after], seconds_of_audio)


def _idle(sensor: Sensor, seconds: float, clock: Clock) -> Window:
    start, joules = clock.perf_counter(), sensor.joules()
    clock.sleep(seconds)
    end, joules_after = clock.perf_counter(), sensor.joules()
    return Window(joules_after - joules, end - start)


def _work(
    run: Callable[[Any], Any], value: Any, device: Device, sensor: Sensor, at_least: float, clock: Clock
) -> Window:
    calls = 0
    start, joules = clock.perf_counter(), sensor.joules()
    while True:
        run(value)
        device.synchronize()
        calls += 1
        end = clock.perf_counter()
        if end - start >= at_least:
            return Window(sensor.joules() - joules, end - start, calls)


@contextmanager
def _read_often(sensor: Sensor) -> Iterator[None]:
    """Read a counter that wraps around so often that it cannot do so twice unseen, however long a call takes."""
    period = sensor.read_within
    if period is None:
        yield
        return
    done = threading.Event()

    def keep_reading() -> None:
        while not done.wait(period):
            # The pass reads it too, and tells.
            with contextlib.suppress(SensorError):
                sensor.joules()

    reader = threading.Thread(target=keep_reading, daemon=True)
    reader.start()
    try:
        yield
    finally:
        done.set()
        reader.join()


def _energy(sensor: Sensor, work: list[Window], idle: list[Window], seconds_of_audio: float) -> Energy:
    calls = sum(window.calls for window in work)
    seconds = sum(window.seconds for window in work)
    joules = sum(window.joules for window in work)
    idle_power = statistics.fmean(window.watts for window in idle) if all(window.joules for window in idle) else None
    above = None if idle_power is None else (joules - idle_power * seconds) / calls
    per_window = [window.joules / window.calls for window in work]
    return energy_of(
        seconds_of_audio,
        per_call=joules / calls,
        per_call_above_idle=above,
        above_idle_reason=IDLE_STILL if above is None else None,
        mean_power_w=joules / seconds,
        idle_power_w=idle_power,
        kind="measured",
        sensor=sensor.name,
        source=f"measured by {sensor.name}",
        covers=sensor.covers,
        calls=calls,
        windows=per_window,
        window_seconds=[window.seconds for window in work],
        idle_windows_w=[window.watts for window in idle] if idle_power is not None else [],
        spread=(min(per_window), max(per_window)),
        notes=[BELOW_NOISE] if above is not None and above < 0 else [],
    )
