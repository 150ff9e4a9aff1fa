"""Sensors that zeus reads: NVIDIA (NVML) and AMD (AMD SMI) GPUs, and Jetson boards.

zeus is imported here, inside the functions, and only when such a device is measured: it pulls in libraries of vendors,
of which some do not load without their drivers and disturb other packages then. Its `zeus.device` is used and not its
monitor, which would count processors by its own rules beside the GPU.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from profiler.measure.energy.sensor import GIVE_WATTS, Sensor, SensorError, Unavailable

JETSON_MARKS = (Path("/etc/nv_tegra_release"), Path("/usr/lib/aarch64-linux-gnu/tegra"))
# zeus comes without its own list: that has amdsmi in it, which breaks other packages where there is no AMD driver.
INSTALL = "install it with `pip install 'speech-profiler[energy]' && pip install --no-deps 'zeus>=0.16,<0.17'`"
MILLI = 1e-3


class GpuSensor:
    """The energy counter of one GPU."""

    read_within: float | None = None  # 64 bits of millijoules
    steps = True  # every 20 to 100 ms, by the GPU

    def __init__(self, gpus: Any, index: int) -> None:
        self._gpus = gpus
        self._index = index
        library = "AMD SMI" if type(gpus).__name__.startswith("AMD") else "NVML"
        self.name = f"{library} {gpus.get_name(index)}"
        self.covers = "the GPU with its memory; not the processor and the rest of the machine"

    def joules(self) -> float:
        try:
            return float(self._gpus.get_total_energy_consumption(self._index)) * MILLI
        except Exception as problem:  # whatever a driver raises
            raise SensorError(f"{self.name}: {_short(problem)}") from problem

    def close(self) -> None:
        """The library stays loaded until the process ends."""


class JetsonSensor:
    """The power rails of a Jetson, which a process of zeus reads ten times a second and sums."""

    read_within: float | None = None
    steps = True  # with each reading of the rails

    def __init__(self, board: Any) -> None:
        self._board = board
        rails = board.get_total_energy_consumption()
        if rails.total_energy_mj is not None:
            self._fields = ["total_energy_mj"]
            self.covers = "the whole module"
        else:
            self._fields = [f for f in ("cpu_energy_mj", "gpu_energy_mj") if getattr(rails, f) is not None]
            self.covers = "these rails of the board; not the rest of it"
        if not self._fields:
            raise SensorError("the board shows no power rail")
        names = " + ".join(field.removesuffix("_energy_mj") for field in self._fields)
        self.name = f"Jetson INA3221, {names}"

    def joules(self) -> float:
        try:
            # The first answer holds the sum as of the last tenth of a second; asking makes it count up to now.
            self._board.get_total_energy_consumption()
            rails = self._board.get_total_energy_consumption()
        except Exception as problem:
            raise SensorError(f"{self.name}: {_short(problem)}") from problem
        return float(sum(getattr(rails, field) for field in self._fields)) * MILLI

    def close(self) -> None:
        """End the process that reads: a worker that ends without cleaning up would leave it behind."""
        self._board.process.kill()
        self._board.process.join()


def is_jetson() -> bool:
    return any(mark.exists() for mark in JETSON_MARKS)


def find_gpu(index: int) -> Sensor | Unavailable:
    """The counter of the GPU that torch calls cuda:index."""
    try:
        from zeus.device import get_gpus
    except ImportError as problem:
        return _no_zeus(problem)
    try:
        gpus = get_gpus()
        if index >= len(gpus):
            return Unavailable(f"the driver shows {len(gpus)} GPU(s), and none is number {index}", GIVE_WATTS)
        if not gpus.supports_get_total_energy_consumption(index):
            return Unavailable(
                f"{gpus.get_name(index)} keeps no energy counter that can be trusted (NVIDIA: since Volta)", GIVE_WATTS
            )
        sensor = GpuSensor(gpus, index)
        sensor.joules()
    except Exception as problem:  # vendors' libraries raise what they like; without them there is no sensor
        return Unavailable(
            f"no GPU's energy counter can be read: {_short(problem)}",
            f"check that `nvidia-smi` or `amd-smi` shows the GPU; else {GIVE_WATTS}",
        )
    return sensor


def find_jetson() -> Sensor | Unavailable:
    try:
        from zeus.device.soc.jetson import Jetson
    except ImportError as problem:
        return _no_zeus(problem)
    board = None
    try:
        board = Jetson()
        return JetsonSensor(board)
    except Exception as problem:
        if board is not None:
            board.process.kill()
        return Unavailable(f"the board's power sensor cannot be read: {_short(problem)}", GIVE_WATTS)


def _no_zeus(problem: ImportError) -> Unavailable:
    return Unavailable(
        f"zeus, which reads this sensor, cannot be imported ({_short(problem)})", f"{INSTALL}, or {GIVE_WATTS}"
    )


def _short(problem: Exception) -> str:
    text = str(problem).strip()
    return text.splitlines()[0].rstrip(".") if text else type(problem).__name__
