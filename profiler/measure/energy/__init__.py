"""Energy: joules per call, from a counter of this machine or from watts that the user read elsewhere.

find_sensor -> a Sensor:     measure_energy, in the pass itself | sensor.py, rapl.py, zeus_sensors.py
            -> GivenPower:   energy_from_watts, no pass          | given.py
            -> Unavailable:  why, and what to do; never a zero
"""

from __future__ import annotations

from pathlib import Path

from profiler.errors import UserError
from profiler.measure.energy.given import energy_from_watts, given_powertop, given_watts
from profiler.measure.energy.rapl import POWERCAP, find_rapl
from profiler.measure.energy.sensor import GIVE_WATTS, GivenPower, Sensor, Unavailable
from profiler.measure.energy.zeus_sensors import find_gpu, find_jetson, is_jetson

__all__ = ["GivenPower", "Sensor", "Unavailable", "energy_from_watts", "find_sensor"]


def find_sensor(
    device: str,
    powercap: Path = POWERCAP,
    watts: float | None = None,
    idle_watts: float | None = None,
    powertop: Path | None = None,
) -> Sensor | GivenPower | Unavailable:
    """For 'cpu', 'cuda', 'cuda:1', 'mps'. Raises UserError when what the user gives is not a power."""
    if watts is not None and powertop is not None:
        raise UserError("Both `watts` and a powertop file are given; keep one of them.")
    if watts is not None:
        return given_watts(watts, idle_watts)
    if powertop is not None:
        return given_powertop(powertop, idle_watts)
    if idle_watts is not None:
        raise UserError("`idle_watts` is given without `watts`; give both, or neither.")
    if is_jetson():  # processor and GPU share a board and its sensor
        return find_jetson()
    kind, _, index = device.partition(":")
    if kind == "cpu":
        return find_rapl(powercap)
    if kind == "cuda":
        return find_gpu(int(index or 0))
    return Unavailable(f"there is no sensor for {device} here", GIVE_WATTS)
