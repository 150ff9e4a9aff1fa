"""Joules of a call -> all figures of its energy that follow from them."""

from __future__ import annotations

from typing import Any

from profiler.results.types import Energy


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
