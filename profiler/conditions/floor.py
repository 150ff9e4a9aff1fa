"""The machine's noise floor: how far two equal runs on it differ by chance. `doctor` measures it, `compare` adds it.

The floor is the standard deviation of the log of one run's figure between equal runs (0.02: 2 %). Rounds within a run
cannot show it, so a comparison of two runs adds it to what their rounds say: the ratio of two runs has the variance
se_A^2 + se_B^2 + 2 floor^2 on the log scale. It is kept in the user's state folder, for each machine and number of
threads, and recorded with every run that is made there. Imports neither torch nor numpy: `compare` must start fast.
"""

from __future__ import annotations

import math
import os
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from profiler.results.types import NoiseFloor, Results


# Where doctor never ran: what equal runs differ by on a shared machine of two cores in a quiet hour; in a busy one it
# is more, and dedicated cores do better. It is a careful default, no measurement of the machine at hand.
ASSUMED = 0.03
STATE = "SPEECH_PROFILER_STATE"  # environment variable: another folder than the user's own
FILE = "noise-floor.json"
KEPT_TRIALS = 20  # of each machine and number of threads: some weeks of use; older ones say little of today
REFERENCE = {"gflops": "at equal arithmetic", "gb_per_s": "at equal memory speed"}


class EarlierTrial(msgspec.Struct):
    """One A/A trial of doctor."""

    measured: str
    level_s: float  # of its call
    software: str


class KeptFloor(msgspec.Struct):
    """What is kept for a machine and a number of threads."""

    value: float
    threads: int | None = None
    measured: str | None = None
    trials: list[EarlierTrial] = []


@dataclass(frozen=True)
class Floor:
    """Standard deviation of the log of a run's figure between equal runs."""

    value: float
    source: str  # "measured by doctor on 2026-11-17", or "assumed"


def floor_of(*results: Results) -> Floor:
    """The floor for comparing: the largest recorded in them; else this machine's, if they ran here; else assumed."""
    recorded = [run.environment.noise_floor for run in results]
    found = [_measured(floor.value, floor.measured) if floor and floor.value > 0 else None for floor in recorded]
    if not any(found):
        here = machine_key(_this_machine())
        found = [
            read_floor(run.environment.threads)
            for run in results
            if machine_key(vars(run.environment)) == here and run.environment.threads
        ]
    return max(filter(None, found), key=lambda floor: floor.value, default=Floor(ASSUMED, "assumed"))


def read_floor(threads: int | None = None) -> Floor | None:
    """This machine's floor with so many threads, or the largest of any number; None where doctor never measured it."""
    entries = _read().get(machine_key(_this_machine()), {})
    wanted = [entry for number, entry in entries.items() if threads is None or number == str(threads)]
    largest = max(wanted, key=lambda entry: entry.value, default=None)
    return _measured(largest.value, largest.measured) if largest else None


def record_floor(threads: int) -> NoiseFloor | None:
    """What a run stores in its environment; None where there is none."""
    from profiler.results.types import NoiseFloor

    entry = _entry(threads)
    return NoiseFloor(value=entry.value, threads=entry.threads, measured=entry.measured) if entry else None


def keep_floor(
    threads: int, value: float, level: float, software: str, measured: str, undisturbed: bool = True
) -> Floor:
    """Keep what a trial found, and give the floor that holds from now on; raises StorageError.

    `value` is what the equal runs of this trial say, `level` the seconds of its call. A trial lasts less than a minute
    and cannot see what changes from one day to the next, but earlier trials were made at other times: where they differ
    by more (standard deviation of the log of their levels, same software), that is the floor. A trial that others
    disturbed is not remembered for that: its level is theirs.
    """
    from profiler.results.store import write_atomically

    everything, key = _read(), machine_key(_this_machine())
    this = [EarlierTrial(measured, level, software)] if undisturbed else []
    trials = [*earlier_trials(threads), *this][-KEPT_TRIALS:]
    levels = [math.log(trial.level_s) for trial in trials if trial.software == software and trial.level_s > 0]
    floor = max(value, statistics.stdev(levels) if len(levels) > 1 else 0.0)
    everything.setdefault(key, {})[str(threads)] = KeptFloor(floor, threads, measured, trials)
    path = state_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        from profiler.errors import StorageError

        raise StorageError(f"Cannot make the folder {path.parent}: {error.strerror}.") from None
    write_atomically(path, msgspec.json.format(msgspec.json.encode(everything), indent=1).decode() + "\n")
    return _measured(floor, measured)


def earlier_trials(threads: int) -> list[EarlierTrial]:
    """Those made on this machine with so many threads, oldest first."""
    entry = _entry(threads)
    return entry.trials if entry else []


def machine_key(environment: Mapping[str, Any]) -> str:
    """One machine: its name, processor and the cores that may be used."""
    return " | ".join(str(environment.get(name)) for name in ("host", "cpu", "cores"))


def this_machine() -> str:
    """The key of this machine as the name of a folder: its name, and what tells it from others of that name."""
    import hashlib

    about = _this_machine()
    host = "".join(letter if letter.isalnum() else "-" for letter in str(about["host"]))
    return f"{host}-{hashlib.sha256(machine_key(about).encode()).hexdigest()[:8]}"


def state_file() -> Path:
    """Where floors are kept: the user's state folder, or the folder that SPEECH_PROFILER_STATE names."""
    from platformdirs import user_state_path

    folder = os.environ.get(STATE)
    return (Path(folder) if folder else user_state_path("speech-profiler", appauthor=False)) / FILE


def _this_machine() -> dict[str, Any]:
    import socket

    from profiler.environment import allowed_cpus, cpu_name

    return {"host": socket.gethostname(), "cpu": cpu_name(), "cores": len(allowed_cpus())}


def _read() -> dict[str, dict[str, KeptFloor]]:
    """Machine -> number of threads -> entry. A damaged file is as good as none: doctor writes it anew."""
    try:
        found = msgspec.json.decode(state_file().read_bytes(), type=dict[str, dict[str, KeptFloor]])
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}
    return {machine: {name: e for name, e in kept.items() if e.value > 0} for machine, kept in found.items()}


def _entry(threads: int) -> KeptFloor | None:
    return _read().get(machine_key(_this_machine()), {}).get(str(threads))


def _measured(value: float, when: str | None) -> Floor:
    return Floor(value, f"measured by doctor on {str(when or 'an unknown day').split('T')[0]}")


def readings(results: Results, threads: int | None, name: str) -> list[float]:
    """What the reference workload gave with so many threads, in this run."""
    environment = results.environment
    found = (environment.reference, environment.reference_at_end, environment.references.get(str(threads)))
    same = [each for each in found if each is not None and each.threads == threads]
    return [getattr(each, name) for each in same if getattr(each, name)]


def floor_between(first: Results, second: Results, variants: tuple[str, str]) -> Floor:
    """The run-to-run floor for comparing two runs of one machine: what is known of it, or more where its own speed is
    seen to have changed: by the reference workload, which each run times at its start and end."""
    found = floor_of(first, second)
    changes = [math.log(value) for value in normalised(1.0, first, second, variants).values() if value > 0]
    change = -max(changes, key=abs, default=0.0)  # above 0: slower in the second
    if abs(change) / math.sqrt(2.0) <= found.value:  # 2 * floor^2 is the variance of the difference of two runs
        return found
    how = f"{abs(math.expm1(change)):.0%} {'slower' if change > 0 else 'faster'}"
    return Floor(abs(change) / math.sqrt(2.0), f"the reference workload ran {how} in this run")


def normalised(ratio: float, first: Results, second: Results, variants: tuple[str, str]) -> dict[str, float]:
    """The ratio of times if both machines had done the reference workload equally fast."""
    found = {}
    for name, words in REFERENCE.items():
        before = readings(first, first.threads(variants[0]), name)
        after = readings(second, second.threads(variants[1]), name)
        if before and after:
            found[words] = ratio * max(after) / max(before)
    return found
