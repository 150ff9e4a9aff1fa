"""Joules from watts that the user read elsewhere: power x seconds of a call. Nothing is run for it.

The watts are in the recipe, or in a report that `powertop --csv=FILE` wrote: text in sections, cells divided by `;`
(older versions: `,`). The power of the machine stands above the section "Device Power Report", where powertop knows it:

    The battery reports a discharge rate of:   5.83  W;
    The system baseline power is estimated at:   460 m W;

with the unit's prefix apart from the unit. The first is read from the battery and is what the machine drew; the second
is powertop's own estimate and stands in for it only when there is no other.
"""

from __future__ import annotations

import math
import re
import statistics
from dataclasses import replace
from pathlib import Path

from profiler.errors import UserError
from profiler.measure.energy.sensor import GivenPower, energy_of
from profiler.results.types import Energy

COVERS = "what the given power covers"
NO_IDLE = "no idle power was given: add `idle_watts`, read while the machine does nothing"
PREFIXES = {"": 1.0, "n": 1e-9, "u": 1e-6, "µ": 1e-6, "m": 1e-3, "k": 1e3}
POWER = r"\s*:?\s*(-?\d+(?:\.\d+)?)\s*([nuµmk]?)\s*W\b"
DISCHARGE = re.compile(r"battery reports a discharge rate of" + POWER)
BASELINE = re.compile(r"system baseline power is estimated at" + POWER, re.IGNORECASE)
MARKS = ("P o w e r T O P", "PowerTOP Version", "PowerTOP Report")
ESTIMATE = (
    "powertop had no battery to read; this is its estimate of the system's baseline, which need not contain the call"
)
EXPECTED = "expected what `sudo powertop --csv=FILE --time=20` writes while the model runs"


def given_power(
    watts: float | None = None, idle_watts: float | None = None, powertop: Path | None = None
) -> GivenPower:
    """The recipe's `watts`, or the power in a report. Raises UserError when it is not a power."""
    if watts is not None and powertop is not None:
        raise UserError("Both `watts` and a powertop file are given; keep one of them.")
    if powertop is not None:
        given = read_powertop(powertop)
    elif watts is not None:
        _check("watts", watts)
        given = GivenPower(watts, "watts of the recipe", f"given: {watts:g} W in the recipe")
    else:
        raise UserError("`idle_watts` is given without `watts`; give both, or neither.")
    if idle_watts is not None:
        _check("idle_watts", idle_watts)
        if idle_watts >= given.watts:
            raise UserError(
                f"`idle_watts` is {idle_watts:g}, but the power during calls is {given.watts:g} W; "
                "expected less: the power while the machine does nothing."
            )
    return replace(given, idle_watts=idle_watts)


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


def read_powertop(path: Path) -> GivenPower:
    """The mean over the reports in a file, or in a folder of those that `--iteration=N` leaves. Raises UserError."""
    texts = [_read(file) for file in _files(path)]
    for pattern, what, notes in (
        (DISCHARGE, "discharge rate of the battery", ()),
        (BASELINE, "estimated system baseline", (ESTIMATE,)),
    ):
        found = [[float(match[1]) * PREFIXES[match[2]] for match in pattern.finditer(text)] for text in texts]
        figures = [watts for watts_of_file in found for watts in watts_of_file]
        if not figures:
            continue
        if not all(found):
            raise UserError(
                f"{path}: the {what} stands in {sum(map(bool, found))} of {len(texts)} files only; "
                "leave out those that were written on mains power."
            )
        if min(figures) <= 0:
            raise UserError(f"{path}: the {what} is {min(figures):g} W, which is no power; {EXPECTED}, on battery.")
        mean = f", mean of {len(figures)}" if len(figures) > 1 else ""
        source = f"powertop file {path.name}"
        return GivenPower(statistics.fmean(figures), f"powertop, {what}{mean}", source, notes=notes)
    raise UserError(
        f"{path}: this powertop report has no power in it, neither `The battery reports a discharge rate of` nor "
        "`The system baseline power is estimated at`. powertop knows them on a machine that runs on battery; "
        "elsewhere read a meter and give `watts`."
    )


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(path.glob("*.csv"))
    if not files:
        raise UserError(f"{path}: the folder holds no .csv file; {EXPECTED}.")
    return files


def _read(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as problem:
        raise UserError(f"{path}: the powertop file cannot be read ({problem.strerror}); {EXPECTED}.") from problem
    if not text.strip():
        raise UserError(f"{path}: the powertop file is empty; {EXPECTED}.")
    if "<html" in text[:2000].lower():
        raise UserError(f"{path}: this is a web page; {EXPECTED} (--csv, not --html).")
    if not any(mark in text for mark in MARKS):
        raise UserError(f"{path}: this is no powertop report; {EXPECTED}.")
    return text
