"""Figures of a cell that follow from others: energy from a power that was given, shares of the machine's peak."""

from __future__ import annotations

from profiler.execution.workers import Workers
from profiler.measure.energy import GivenPower, energy_from_watts, find_sensor
from profiler.measure.reference import higher_peak, relate_to_peak
from profiler.recipe.load import LoadedRecipe
from profiler.recipe.schema import Recipe
from profiler.results.types import CellResult, Environment, ModelResult, Reference


def given_power(loaded: LoadedRecipe, device: str) -> GivenPower | None:
    """The power that the recipe names, where there is no sensor."""
    measure = loaded.recipe.measure
    if not measure.power_is_given:
        return None
    report = loaded.resolve_path(measure.powertop) if measure.powertop else None
    given = find_sensor(device, watts=measure.watts, idle_watts=measure.idle_watts, powertop=report)
    assert isinstance(given, GivenPower)
    return given


def put_energy(result: CellResult, power: GivenPower | None, recipe: Recipe) -> None:
    """With a power that the user gave, energy follows from the latency; without energy there is a reason."""
    if result.latency_s is None:
        return
    if power is not None:
        result.energy_j = energy_from_watts(power, result.latency_s.median, result.input.seconds_of_audio or 0.0)
    elif not recipe.measure.energy:
        result.energy_reason = "the recipe has measure.energy: false"


def put_operations(result: CellResult, peak: Reference | None, model: ModelResult | None) -> None:
    """How near the peak the cell came; and what the model does for a second of audio, by the first cell that tells."""
    if not result.operations or not result.latency_s:
        return
    relate_to_peak(result.operations, result.latency_s.median, peak)
    if model is not None and model.operations.macs_per_second_of_audio is None:
        model.operations.macs_per_second_of_audio = result.operations.per_second
        model.operations.uncounted = result.operations.uncounted


SECONDS = 60.0  # for the reference workload: more is a hang


class Peaks:
    """Peaks of a run, kept in its environment as `references`. A resumed run knows those of the first part."""

    def __init__(self, workers: Workers, environment: Environment) -> None:
        self._workers = workers
        self._found = environment.references

    def of(self, threads: int) -> Reference | None:
        return self._found.get(str(threads))

    def measure(self, variant: str, threads: int) -> Reference | None:
        """What the machine does now, in the variant's process; a disturbance lowers it, so the best is the peak."""
        now = self._workers.reference(variant, SECONDS)
        if now is not None:
            self._found[str(threads)] = higher_peak(self.of(threads), now)
        return now
