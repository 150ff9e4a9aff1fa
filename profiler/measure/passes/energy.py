"""The energy pass: joules of a call by a sensor of this machine (measure/energy/), with nothing else switched on.

    idle | call call call ... | call call call ... | call call call ... | idle
    1 s    window: whole calls, 1 s or more; three of them                1 s
           ^ joules, clock      ^ joules, clock                         what sleeping costs, subtracted

Joules are read over windows that are long enough for the sensor: where it is updated every 20 to 100 ms only, as on a
GPU, its updates are watched first, and a window covers 30 of them. Earlier calls have paid for what is done once.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from profiler.device import Device
from profiler.measure.energy import find_sensor
from profiler.measure.energy.sensor import GIVE_WATTS, Sensor, SensorError, Unavailable, energy_of
from profiler.measure.passes.base import Absent, Pass, Work
from profiler.results.metric import Metric, detail, of
from profiler.results.types import CellResult, Energy
from profiler.units import seconds_text

if TYPE_CHECKING:
    from profiler.recipe.schema import Recipe


_energy = partial(of, "energy_j")
ENERGY = (
    Metric("energy", "Energy of one call", "energy", "J", "energy_per_call_j", _energy("per_call")),
    detail("energy_above_idle", "J above idle", "J", "energy_per_call_above_idle_j", _energy("per_call_above_idle")),
    detail("energy_per_second", "J per s of audio", "J", "energy_per_audio_second_j", _energy("per_second_of_audio")),
    detail("energy_per_hour", "Wh per h of audio", "Wh", "", _energy("watt_hours_per_hour_of_audio")),
    detail("power", "mean W", "W", "mean_power_w", _energy("mean_power_w")),
    detail("idle_power", "idle W", "W", "", _energy("idle_power_w")),
)
WINDOWS = 3
BELOW_NOISE = (
    "the energy above idle came out negative: it is below the noise of the sensor, and shown as it was measured"
)
UPDATES = 30  # of the sensor in a window: its first and last reading are then off by 3 % of it at most
WATCHED = 4  # updates, to see how far they lie apart
WATCH_SECONDS = 2.0  # no sensor takes as long for so many
WATCH_STEP = 0.001
IDLE_STILL = "the counter did not move while the machine was idle, so the idle power is not known"


class EnergyPass(Pass[Energy, Energy]):
    name = "energy"
    result = Energy
    field = "energy_j"
    metrics = ENERGY
    table = "Energy"
    absent = "unavailable"

    def wanted(self, recipe: Recipe) -> bool:
        """A power that the recipe gives needs no pass."""
        return recipe.measure.energy and not recipe.measure.power_is_given

    def calls(self, recipe: Recipe) -> int:
        return 0  # few machines have a sensor

    def measure(self, work: Work) -> Energy | Absent:
        sensor = find_sensor(work.device.name)
        if isinstance(sensor, Unavailable):
            return Absent(str(sensor))
        with contextlib.closing(sensor):
            windows = 1 if work.long else WINDOWS
            energy = measure_energy(
                work.run, work.inputs[0], work.device, sensor, work.seconds_of_audio, windows=windows
            )
        return Absent(str(energy)) if isinstance(energy, Unavailable) else energy

    def remarks(self, cells: Sequence[CellResult]) -> list[str]:
        found = [cell.energy_j for cell in cells if cell.energy_j]
        sources = [f"{energy.source}: {energy.sensor}; {energy.covers}." for energy in found]
        notes = [f"- {note}" for energy in found for note in energy.notes]
        absent = [f"- above idle: {energy.above_idle_reason}" for energy in found if energy.above_idle_reason]
        return list(dict.fromkeys([*sources, *notes, *absent]))


PASS = EnergyPass()


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
    windows: int = WINDOWS,
    clock: Clock = time,
) -> Energy | Unavailable:
    """`seconds_of_audio` is all audio of a call, batch size x seconds."""
    gc.collect()
    device.synchronize()
    try:
        with _read_often(sensor):
            interval = update_interval(sensor, clock) if sensor.steps else 0.0
            if interval is None:
                return Unavailable(
                    f"the counter of {sensor.name} was not updated {WATCHED} times in {WATCH_SECONDS:g} s: "
                    "no window of calls would be long enough for it",
                    GIVE_WATTS,
                )
            window_seconds, idle_seconds = (max(s, UPDATES * interval) for s in (window_seconds, idle_seconds))
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
    return _summed(sensor, work, [before, after], seconds_of_audio, interval)


def update_interval(sensor: Sensor, clock: Clock) -> float | None:
    """Seconds between two updates of the counter, the longest of a few; None where it hardly moves."""
    end = clock.perf_counter() + WATCH_SECONDS
    changed: list[float] = []
    last = sensor.joules()
    while len(changed) < WATCHED and clock.perf_counter() < end:
        clock.sleep(WATCH_STEP)
        if (now := sensor.joules()) != last:
            changed.append(clock.perf_counter())
            last = now
    gaps = [later - earlier for earlier, later in itertools.pairwise(changed)]
    return max(gaps) if len(changed) == WATCHED else None


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


def _summed(sensor: Sensor, work: list[Window], idle: list[Window], seconds_of_audio: float, interval: float) -> Energy:
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
        update_seconds=interval or None,
        notes=([BELOW_NOISE] if above is not None and above < 0 else []) + _how_often(interval),
    )


def _how_often(interval: float) -> list[str]:
    if not interval:
        return []
    return [
        f"the counter is updated about every {seconds_text(interval)}: each window of calls covers {UPDATES} or more"
    ]
