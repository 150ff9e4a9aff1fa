"""An imitation of the kernel's powercap folder, on a machine whose time is a number: no test machine has RAPL, and what
a call draws is known exactly here."""

from __future__ import annotations

from pathlib import Path

RANGE_UJ = 262_143_328_850  # what the kernel shows on common processors
PACKAGE = "intel-rapl:0"


class Machine:
    """Draws `idle_w` while it sleeps and `call_j` in a call of `call_s`. It is its own clock."""

    def __init__(self, folder: Path, idle_w: float = 0.0, call_j: float = 0.0, call_s: float = 0.3) -> None:
        self.folder = folder
        self.idle_w, self.call_j, self.call_s = idle_w, call_j, call_s
        self.now = 0.0
        self.calls = 0

    def add_zone(self, zone: str, name: str, energy_uj: int = 0, range_uj: int = RANGE_UJ) -> Machine:
        path = self.folder / zone
        path.mkdir(parents=True)
        (path / "name").write_text(f"{name}\n")
        (path / "max_energy_range_uj").write_text(f"{range_uj}\n")
        (path / "energy_uj").write_text(f"{energy_uj}\n")
        return self

    def draw(self, joules: float, zone: str = PACKAGE) -> None:
        """As the processor counts: from 0 again beyond the range."""
        file, limit = self.folder / zone / "energy_uj", self.folder / zone / "max_energy_range_uj"
        file.write_text(f"{(int(file.read_text()) + round(joules * 1e6)) % int(limit.read_text())}\n")

    def run(self, value: object) -> None:
        self.calls += 1
        self.now += self.call_s
        self.draw(self.call_j)

    def sleep(self, seconds: float, /) -> None:
        self.now += seconds
        self.draw(self.idle_w * seconds)

    def perf_counter(self) -> float:
        return self.now
