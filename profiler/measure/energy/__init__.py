"""Energy: joules per call, from a counter of this machine or from watts that the user read elsewhere.

find_sensor -> a Sensor:     measure_energy, a pass of its own | sensor.py, rapl.py, zeus_sensors.py, windows.py
            -> GivenPower:   energy_from_watts, no pass        | given.py, powertop.py
            -> Unavailable:  why, and what to do; never a zero
"""

from profiler.measure.energy.find import find_sensor
from profiler.measure.energy.given import energy_from_watts
from profiler.measure.energy.sensor import GivenPower, Sensor, Unavailable
from profiler.measure.energy.windows import measure_energy

__all__ = [
    "GivenPower",
    "Sensor",
    "Unavailable",
    "energy_from_watts",
    "find_sensor",
    "measure_energy",
]
