"""Energy: joules per call, from a counter of this machine or from watts that the user read elsewhere.

find_sensor -> a Sensor:     measure_energy, in the pass itself | sensor.py, rapl.py, zeus_sensors.py
            -> Unavailable:  why, and what to do; never a zero
given_power -> GivenPower:   energy_from_watts, no pass          | given.py
"""

from __future__ import annotations

from pathlib import Path

from profiler.measure.energy.given import energy_from_watts, given_power
from profiler.measure.energy.rapl import POWERCAP, find_rapl
from profiler.measure.energy.sensor import GIVE_WATTS, GivenPower, Sensor, Unavailable
from profiler.measure.energy.zeus_sensors import find_gpu, find_jetson, is_jetson

__all__ = ["GivenPower", "Sensor", "Unavailable", "energy_from_watts", "find_sensor", "given_power"]


def find_sensor(device: str, powercap: Path = POWERCAP) -> Sensor | Unavailable:
    """For 'cpu', 'cuda', 'cuda:1', 'mps'."""
    if is_jetson():  # processor and GPU share a board and its sensor
        return find_jetson()
    kind, _, index = device.partition(":")
    if kind == "cpu":
        return find_rapl(powercap)
    if kind == "cuda":
        return find_gpu(int(index or 0))
    return Unavailable(f"there is no sensor for {device} here", GIVE_WATTS)
