"""Joules from watts that the user read elsewhere: power x seconds of a call. Nothing is run for it."""

from __future__ import annotations

import math
from pathlib import Path

from profiler.errors import UserError
from profiler.measure.energy.powertop import read_powertop
from profiler.measure.energy.sensor import GivenPower, energy_of
from profiler.results.types import Energy

COVERS = "what the given power covers"
NO_IDLE = "no idle power was given: add `idle_watts`, read while the machine does nothing"


def given_watts(watts: float, idle_watts: float | None = None) -> GivenPower:
    """The recipe's `watts`. Raises UserError when it is not a power."""
    _check("watts", watts)
    _check_idle(idle_watts, watts)
    return GivenPower(watts, "watts of the recipe", f"given: {watts:g} W in the recipe", idle_watts)


def given_powertop(path: Path, idle_watts: float | None = None) -> GivenPower:
    """The power in a powertop report. Raises UserError when there is none."""
    reading = read_powertop(path)
    _check_idle(idle_watts, reading.watts)
    return GivenPower(
        reading.watts, f"powertop, {reading.what}", f"powertop file {path.name}", idle_watts, reading.notes
    )


def energy_from_watts(given: GivenPower, latency_s: float, seconds_of_audio: float) -> Energy:
    """`latency_s` is that of the timing pass; `seconds_of_audio` is all audio of a call, batch size x seconds."""
    above = None if given.idle_watts is None else (given.watts - given.idle_watts) * latency_s
    return energy_of(
        seconds_of_audio,
        per_call=given.watts * latency_s,
        per_call_above_idle=above,
        above_idle_reason=NO_IDLE if above is None else None,
        mean_power_w=given.watts,
        idle_power_w=given.idle_watts,
        kind="given",
        sensor=given.sensor,
        source=given.source,
        covers=COVERS,
        notes=list(given.notes),
    )


def _check(key: str, watts: float) -> None:
    if not (math.isfinite(watts) and watts > 0):
        raise UserError(f"`{key}` is {watts:g}; expected a power in watts, greater than 0, such as 5.8.")


def _check_idle(idle_watts: float | None, watts: float) -> None:
    if idle_watts is None:
        return
    _check("idle_watts", idle_watts)
    if idle_watts >= watts:
        raise UserError(
            f"`idle_watts` is {idle_watts:g}, but the power during calls is {watts:g} W; "
            "expected less: the power while the machine does nothing."
        )
