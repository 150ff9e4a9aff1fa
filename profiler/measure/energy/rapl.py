"""The energy counters of Intel and AMD processors (RAPL), as the kernel shows them in its powercap folder:

    /sys/class/powercap/intel-rapl:0      name: package-0   a socket, or a die of it: counted
                        intel-rapl:0:0    name: core        inside the package: not counted again
                        intel-rapl:0:2    name: dram        beside the package: counted, and named
                        intel-rapl:1      name: psys        the whole board, packages included: not counted
                        intel-rapl-mmio:0 name: package-0   the same counter by another road: not counted

zeus, which serves the other sensors, reads psys as one more processor, keeps a process for each counter and learns of a
wrap-around up to a second late; so these files, which are simple, are read here.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path

from profiler.measure.energy.sensor import GIVE_WATTS, Sensor, SensorError, Unavailable

POWERCAP = Path("/sys/class/powercap")
MICRO = 1e-6
# More than a socket or its memory draws. A counter of the usual 65 to 262 kJ takes at least a minute to wrap then.
MAX_WATTS = 1000.0
READS_A_WRAP = 2  # one would do if threads woke up on time


@dataclass
class Counter:
    """One energy_uj file, made to grow for ever."""

    name: str
    file: Path
    range_uj: int
    last_uj: int
    total_uj: int = 0

    def advance(self) -> int:
        try:
            now = _read_number(self.file)
        except OSError as problem:
            raise SensorError(f"{self.file}: {problem.strerror}") from problem
        # Lower than before: it started again from 0, once, as it is read often enough.
        self.total_uj += now - self.last_uj + (self.range_uj if now < self.last_uj else 0)
        self.last_uj = now
        return self.total_uj


class RaplSensor:
    """The sum of all packages and their memory."""

    steps = False  # every millisecond

    def __init__(self, counters: list[Counter]) -> None:
        self._counters = counters
        self._lock = threading.Lock()
        with_memory = any(counter.name == "dram" for counter in counters)
        packages = ", ".join(counter.name for counter in counters if counter.name != "dram")
        self.name = f"RAPL {packages}{' + dram' if with_memory else ''}"
        self.covers = (
            f"the processor{' and its memory' if with_memory else ', without memory'}, all programs that ran on it; "
            "not the rest of the machine"
        )
        self.read_within: float | None = (
            min(counter.range_uj for counter in counters) * MICRO / MAX_WATTS / READS_A_WRAP
        )

    def joules(self) -> float:
        with self._lock:
            return sum(counter.advance() for counter in self._counters) * MICRO

    def close(self) -> None:
        """Files are opened for each reading; there is nothing to give back."""


def find_rapl(powercap: Path = POWERCAP) -> Sensor | Unavailable:
    """All counters, or none: a sum over those that happen to be readable would look like a small figure."""
    zones = sorted(powercap.glob("intel-rapl:*"))
    if not zones:
        return Unavailable(
            f"there is no {powercap / 'intel-rapl:0'}: a virtual machine and most containers have no RAPL, "
            "and neither have processors other than Intel's and AMD's",
            f"on a physical machine try `sudo modprobe intel_rapl_msr` (AMD too); elsewhere {GIVE_WATTS}",
        )
    try:
        counters = [counter for zone in zones if (counter := _counter(zone)) is not None]
    except PermissionError as problem:
        return Unavailable(
            f"{problem.filename} may be read by root only",
            f"run `sudo chmod o+r {powercap}/intel-rapl:*/energy_uj` (lasts until the next boot), or run as root; "
            f"where you cannot, {GIVE_WATTS}",
        )
    except FileNotFoundError as problem:
        return Unavailable(
            f"{problem.filename} is missing, as where a container hides the counters",
            f"start the container with `--security-opt systempaths=unconfined`, or run outside; else {GIVE_WATTS}",
        )
    except (OSError, SensorError) as problem:
        return Unavailable(f"the energy counter cannot be read: {problem}", GIVE_WATTS)
    if not any(counter.name.startswith("package") for counter in counters):
        return Unavailable(f"{powercap} has no counter of a processor package", GIVE_WATTS)
    return RaplSensor(counters)


def _counter(zone: Path) -> Counter | None:
    """None for a zone that another one contains."""
    name = (zone / "name").read_text().strip()
    inside_package = zone.name.count(":") == 2
    if not (name == "dram" if inside_package else name.startswith("package")):
        return None
    limit, file = zone / "max_energy_range_uj", zone / "energy_uj"
    range_uj = _read_number(limit)
    if range_uj <= 0:
        raise SensorError(f"{limit} holds {range_uj}, so a wrap-around could not be told")
    return Counter(name, file, range_uj, _read_number(file))


def _read_number(file: Path) -> int:
    text = file.read_text()
    try:
        return int(text)
    except ValueError as problem:
        raise SensorError(f"{file} holds no number") from problem
