"""What a cell's energy is made of; `asdict` of it is what results.json holds."""

from __future__ import annotations

from dataclasses import InitVar, dataclass, field


@dataclass
class Energy:
    """Joules. Raw is all that was drawn meanwhile; above idle is that less what the idle machine would have drawn."""

    seconds_of_audio: InitVar[float]  # all audio of a call, batch size x seconds
    per_call: float
    per_call_above_idle: float | None
    above_idle_reason: str | None  # why the figures above idle are absent
    mean_power_w: float
    idle_power_w: float | None
    kind: str  # measured | given
    sensor: str
    source: str
    covers: str
    per_second_of_audio: float = field(init=False)
    per_second_of_audio_above_idle: float | None = field(init=False)
    # The same number as joules per second of audio: both units are 3600 times larger. Kept, because people ask for it.
    watt_hours_per_hour_of_audio: float = field(init=False)
    watt_hours_per_hour_of_audio_above_idle: float | None = field(init=False)
    calls: int = 0
    windows: list[float] = field(default_factory=list)  # joules a call in each window, raw
    window_seconds: list[float] = field(default_factory=list)
    idle_windows_w: list[float] = field(default_factory=list)  # before the calls, and after them
    spread: list[float] | None = None  # lowest and highest of the windows
    notes: list[str] = field(default_factory=list)

    def __post_init__(self, seconds_of_audio: float) -> None:
        above = self.per_call_above_idle
        self.per_second_of_audio = self.per_call / seconds_of_audio
        self.per_second_of_audio_above_idle = None if above is None else above / seconds_of_audio
        self.watt_hours_per_hour_of_audio = self.per_second_of_audio
        self.watt_hours_per_hour_of_audio_above_idle = self.per_second_of_audio_above_idle
