"""The energy pass: joules of a call by a sensor of this machine; the sensors and the windows are in measure/energy/."""

from __future__ import annotations

import contextlib

from profiler.measure.passes.base import Absent, Pass, Work
from profiler.recipe.schema import Recipe
from profiler.results.types import Energy


class EnergyPass(Pass[Energy, Energy]):
    name = "energy"
    result = Energy
    field = "energy_j"

    def wanted(self, recipe: Recipe) -> bool:
        """A power that the recipe gives needs no pass."""
        return recipe.measure.energy and not recipe.measure.power_is_given

    def calls(self, recipe: Recipe) -> int:
        return 0  # few machines have a sensor

    def measure(self, work: Work) -> Energy | Absent:
        from profiler.measure.energy import GivenPower, Unavailable, find_sensor, measure_energy

        sensor = find_sensor(work.device.name)
        if isinstance(sensor, Unavailable):
            return Absent(str(sensor))
        assert not isinstance(sensor, GivenPower)
        with contextlib.closing(sensor):
            energy = measure_energy(work.run, work.inputs[0], work.device, sensor, work.seconds_of_audio)
        return Absent(str(energy)) if isinstance(energy, Unavailable) else energy
