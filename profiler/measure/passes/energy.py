"""The energy pass: joules of a call by a sensor of this machine; the sensors and the windows are in measure/energy/."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from profiler.measure.passes.base import Absent, Pass, Work
from profiler.results.metric import Metric, detail, of
from profiler.results.types import CellResult, Energy

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
        from profiler.measure.energy import GivenPower, Unavailable, find_sensor, measure_energy

        sensor = find_sensor(work.device.name)
        if isinstance(sensor, Unavailable):
            return Absent(str(sensor))
        assert not isinstance(sensor, GivenPower)
        with contextlib.closing(sensor):
            energy = measure_energy(work.run, work.inputs[0], work.device, sensor, work.seconds_of_audio)
        return Absent(str(energy)) if isinstance(energy, Unavailable) else energy

    def remarks(self, cells: Sequence[CellResult]) -> list[str]:
        found = [cell.energy_j for cell in cells if cell.energy_j]
        sources = [f"{energy.source}: {energy.sensor}; {energy.covers}." for energy in found]
        notes = [f"- {note}" for energy in found for note in energy.notes]
        absent = [f"- above idle: {energy.above_idle_reason}" for energy in found if energy.above_idle_reason]
        return list(dict.fromkeys([*sources, *notes, *absent]))


PASS = EnergyPass()
