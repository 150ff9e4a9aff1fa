"""What joules come from: a counter that this machine keeps, watts that the user gives, or nothing, with a reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from profiler.results.types import Energy

GIVE_WATTS = "give `watts` in the recipe (read from a meter, powertop or jtop), or a powertop CSV file"


class SensorError(Exception):
    """A sensor that was there cannot be read any more."""


class Sensor(Protocol):
    """A counter of joules that only grows. Close it when done: some keep a process of their own."""

    name: str
    covers: str  # whose energy this is: a figure for a processor does not compare with one for a whole machine
    read_within: float | None  # seconds until it must be read again, or it may wrap around unseen; None: it never does
    steps: bool  # whether it is updated so rarely (some tens of milliseconds) that windows must be made for it

    def joules(self) -> float:
        """Raises SensorError."""

    def close(self) -> None: ...


@dataclass(frozen=True)
class GivenPower:
    """Watts that were not measured here."""

    watts: float
    sensor: str
    source: str
    idle_watts: float | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Unavailable:
    """Why there are no joules, and what would give some."""

    reason: str
    what_to_do: str

    def __str__(self) -> str:
        return f"{self.reason}. {self.what_to_do[:1].upper()}{self.what_to_do[1:]}."


def energy_of(seconds_of_audio: float, per_call: float, per_call_above_idle: float | None, **known: Any) -> Energy:
    """`seconds_of_audio` is all audio of a call, batch size x seconds."""
    per_second = per_call / seconds_of_audio
    above = None if per_call_above_idle is None else per_call_above_idle / seconds_of_audio
    return Energy(
        per_call=per_call,
        per_call_above_idle=per_call_above_idle,
        per_second_of_audio=per_second,
        per_second_of_audio_above_idle=above,
        watt_hours_per_hour_of_audio=per_second,
        watt_hours_per_hour_of_audio_above_idle=above,
        **known,
    )
