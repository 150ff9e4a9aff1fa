"""GPUs and Jetson boards through zeus. Neither is here: a driver is imitated at the functions that zeus calls, a board
where zeus hands over its figures; each stand-in says so."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from profiler.device import Device
from profiler.measure import energy
from profiler.measure.energy import Unavailable, find_sensor, zeus_sensors
from profiler.measure.energy.sensor import SensorError
from profiler.measure.energy.zeus_sensors import GpuSensor, JetsonSensor
from profiler.measure.passes.energy import measure_energy
from profiler.results.types import Energy
from tests.unit.measure.powercap import Machine


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The real bindings and the real zeus; what is forgotten afterwards are their singletons and caches."""
    pynvml = pytest.importorskip("pynvml", reason="needs the extra `energy`")
    pytest.importorskip("httpx", reason="needs the extra `energy`")
    pytest.importorskip("zeus", reason="needs the extra `energy`")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    known = set(sys.modules)
    yield pynvml
    for name in set(sys.modules) - known:
        if name.split(".")[0] in ("zeus", "amdsmi"):
            del sys.modules[name]


class Driver:
    """A stand-in for NVIDIA's driver: the functions of its library that zeus calls."""

    def __init__(self, pynvml: Any, patch: pytest.MonkeyPatch, architecture: int, gpus: int = 2) -> None:
        self.millijoules = 5_000
        answers = {
            "nvmlInit": lambda: None,
            "nvmlShutdown": lambda: None,
            "nvmlDeviceGetCount": lambda: gpus,
            "nvmlDeviceGetHandleByIndex": lambda index: index,
            "nvmlDeviceGetC2cModeInfoV": lambda handle: SimpleNamespace(isC2cEnabled=0),
            "nvmlDeviceGetName": lambda handle: f"NVIDIA A40 number {handle}",
            "nvmlDeviceGetArchitecture": lambda handle: architecture,
            "nvmlDeviceGetTotalEnergyConsumption": lambda handle: self.millijoules,
        }
        for name, answer in answers.items():
            patch.setattr(pynvml, name, answer)


class GpuMachine(Machine):
    """Its joules go to the driver's counter and to no file."""

    driver: Driver

    def draw(self, joules: float, zone: str = "") -> None:
        self.driver.millijoules += round(joules * 1000)


def test_a_gpu_is_measured_by_its_own_counter(nvml: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    driver = Driver(nvml, monkeypatch, nvml.NVML_DEVICE_ARCH_AMPERE)
    machine = GpuMachine(tmp_path, idle_w=30, call_j=60, call_s=0.5)
    machine.driver = driver
    sensor = find_sensor("cuda:1")
    assert isinstance(sensor, GpuSensor), sensor
    # The model runs on the CPU here: what is tested is whose joules are counted.
    energy = measure_energy(machine.run, None, Device("cpu"), sensor, 10.0, clock=machine)
    assert isinstance(energy, Energy), energy
    assert energy.sensor == "NVML NVIDIA A40 number 1"
    assert energy.per_call == pytest.approx(60)
    assert energy.per_call_above_idle == pytest.approx(60 - 30 * 0.5)
    assert "not the processor" in energy.covers


def test_a_gpu_without_an_energy_counter(nvml: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    Driver(nvml, monkeypatch, nvml.NVML_DEVICE_ARCH_PASCAL)
    found = find_sensor("cuda")
    assert isinstance(found, Unavailable)
    assert "NVIDIA A40 number 0 keeps no energy counter" in found.reason


def test_a_gpu_that_the_driver_does_not_show(nvml: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    Driver(nvml, monkeypatch, nvml.NVML_DEVICE_ARCH_AMPERE)
    found = find_sensor("cuda:2")
    assert isinstance(found, Unavailable)
    assert "2 GPU(s)" in found.reason


def test_visible_devices_that_zeus_cannot_read(nvml: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    Driver(nvml, monkeypatch, nvml.NVML_DEVICE_ARCH_AMPERE)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-1234")
    found = find_sensor("cuda")
    assert isinstance(found, Unavailable)
    assert "MIG" in found.reason


def test_a_machine_without_a_driver(nvml: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_driver() -> None:
        raise nvml.NVMLError(nvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(nvml, "nvmlInit", no_driver)
    found = find_sensor("cuda")
    assert isinstance(found, Unavailable)
    assert "NVML and AMDSMI unavailable" in found.reason
    assert "nvidia-smi" in found.what_to_do


def test_a_driver_that_fails_later() -> None:
    def lost(index: int) -> int:
        raise RuntimeError("GPU is lost.\nReboot.")

    sensor = GpuSensor(SimpleNamespace(get_name=lambda index: "A40", get_total_energy_consumption=lost), 0)
    with pytest.raises(SensorError, match=r"^NVML A40: GPU is lost$"):
        sensor.joules()


@pytest.mark.parametrize("jetson", [False, True])
def test_without_zeus_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, jetson: bool) -> None:
    monkeypatch.setattr(energy, "is_jetson", lambda: jetson)
    for name in [name for name in sys.modules if name.split(".")[0] == "zeus"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "zeus", None)  # as where it is not installed
    found = find_sensor("cuda")
    assert isinstance(found, Unavailable)
    assert "zeus, which reads this sensor, cannot be imported" in found.reason
    assert "pip install 'speech-profiler[energy]'" in found.what_to_do
    assert "jtop" in found.what_to_do


def test_zeus_is_not_imported_where_it_is_not_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zeus", None)  # importing it would raise
    machine = Machine(tmp_path).add_zone("intel-rapl:0", "package-0")
    assert not isinstance(find_sensor("cpu", machine.folder), Unavailable)


class Board:
    """A stand-in for zeus' Jetson, whose answers are as old as its last round: asking starts the next one."""

    def __init__(self, **rails_w: float) -> None:
        self.rails_w, self.seconds, self.counted_seconds = rails_w, 0.0, 0.0
        self.ended = False
        self.process = SimpleNamespace(kill=lambda: setattr(self, "ended", True), join=lambda: None)

    def get_total_energy_consumption(self) -> SimpleNamespace:
        fields = {
            f"{rail}_energy_mj": self.rails_w[rail] * self.counted_seconds * 1000 if rail in self.rails_w else None
            for rail in ("cpu", "gpu", "total")
        }
        self.counted_seconds = self.seconds
        return SimpleNamespace(**fields)


def test_a_jetson_is_measured_as_a_whole_and_up_to_now() -> None:
    board = Board(cpu=1, gpu=2, total=7)
    sensor = JetsonSensor(board)
    assert sensor.name == "Jetson INA3221, total"
    assert sensor.covers == "the whole module"
    start = sensor.joules()
    board.seconds += 2
    assert sensor.joules() - start == pytest.approx(14)


def test_a_jetson_without_a_rail_for_all_names_those_it_has() -> None:
    board = Board(cpu=1, gpu=2)
    sensor = JetsonSensor(board)
    assert sensor.name == "Jetson INA3221, cpu + gpu"
    start = sensor.joules()
    board.seconds += 2
    assert sensor.joules() - start == pytest.approx(6)


def test_the_process_that_reads_a_jetson_is_ended() -> None:
    board = Board(total=7)
    JetsonSensor(board).close()
    assert board.ended


def test_on_a_jetson_processor_and_gpu_share_the_board(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(energy, "is_jetson", lambda: True)
    monkeypatch.setattr(energy, "find_jetson", lambda: JetsonSensor(Board(total=7)))
    for device in ("cpu", "cuda"):
        assert isinstance(find_sensor(device), JetsonSensor)


def test_this_is_no_jetson_by_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zeus_sensors, "JETSON_MARKS", (tmp_path / "nv_tegra_release",))
    assert not zeus_sensors.is_jetson()
    (tmp_path / "nv_tegra_release").touch()
    assert zeus_sensors.is_jetson()
