"""Joules of calls whose energy is known, read from an imitation of the kernel's folder (see powercap.py)."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from profiler.device import Device
from profiler.errors import UserError
from profiler.measure.energy import Unavailable, energy_from_watts, find_sensor, given_power
from profiler.measure.energy.rapl import RaplSensor
from profiler.measure.energy.sensor import SensorError
from profiler.measure.passes.energy import PASS, _read_often, measure_energy
from profiler.recipe.schema import Measure
from profiler.results.types import Energy
from tests.unit.measure.powercap import RANGE_UJ, Machine

CPU = Device("cpu")


def sensor_of(machine: Machine) -> RaplSensor:
    sensor = find_sensor("cpu", machine.folder)
    assert isinstance(sensor, RaplSensor), sensor
    return sensor


def measured(machine: Machine, seconds_of_audio: float = 5.0, **settings: Any) -> Energy:
    energy = measure_energy(machine.run, None, CPU, sensor_of(machine), seconds_of_audio, clock=machine, **settings)
    assert isinstance(energy, Energy), energy
    return energy


def refused(machine: Machine) -> Unavailable:
    found = measure_energy(machine.run, None, CPU, sensor_of(machine), 5.0, clock=machine)
    assert isinstance(found, Unavailable), found
    return found


# --- what is measured ------------------------------------------------------------------------------------------------


def test_joules_of_a_call_raw_and_above_idle(tmp_path: Path) -> None:
    machine = Machine(tmp_path, idle_w=10, call_j=6, call_s=0.3).add_zone("intel-rapl:0", "package-0", 12_345)
    energy = measured(machine, seconds_of_audio=4 * 5)
    assert energy.per_call == pytest.approx(6)
    assert energy.per_call_above_idle == pytest.approx(6 - 10 * 0.3)
    assert energy.per_second_of_audio == pytest.approx(6 / 20)
    assert energy.per_second_of_audio_above_idle == pytest.approx(3 / 20)
    assert energy.mean_power_w == pytest.approx(20)
    assert energy.idle_power_w == pytest.approx(10)
    assert energy.idle_windows_w == pytest.approx([10, 10])
    assert (energy.kind, energy.sensor) == ("measured", "RAPL package-0")
    assert energy.notes == []


def test_watt_hours_per_hour_of_audio(tmp_path: Path) -> None:
    energy = measured(Machine(tmp_path, 10, call_j=18, call_s=0.5).add_zone("intel-rapl:0", "package-0"), 2.0)
    calls_in_an_hour_of_audio = 3600 / 2
    assert energy.watt_hours_per_hour_of_audio == pytest.approx(18 * calls_in_an_hour_of_audio / 3600)
    assert energy.watt_hours_per_hour_of_audio_above_idle == pytest.approx(13 * calls_in_an_hour_of_audio / 3600)


def test_windows_hold_whole_calls_and_last_long_enough(tmp_path: Path) -> None:
    machine = Machine(tmp_path, 10, call_j=6, call_s=0.3).add_zone("intel-rapl:0", "package-0")
    energy = measured(machine, window_seconds=1.0, windows=3)
    assert energy.window_seconds == pytest.approx([1.2, 1.2, 1.2])
    assert energy.calls == machine.calls == 3 * 4
    assert energy.windows == pytest.approx([6, 6, 6])


def test_a_call_longer_than_a_window_is_a_window(tmp_path: Path) -> None:
    energy = measured(Machine(tmp_path, 10, call_j=90, call_s=7).add_zone("intel-rapl:0", "package-0"), windows=2)
    assert (energy.calls, energy.window_seconds) == (2, [7, 7])
    assert energy.per_call == pytest.approx(90)


def test_the_spread_is_that_of_the_windows(tmp_path: Path) -> None:
    machine = Machine(tmp_path, 10, call_j=1, call_s=1).add_zone("intel-rapl:0", "package-0")

    def run_that_draws_more_each_time(value: object) -> None:
        machine.run(value)
        machine.call_j += 1

    energy = measure_energy(run_that_draws_more_each_time, None, CPU, sensor_of(machine), 1.0, clock=machine)
    assert isinstance(energy, Energy)
    assert energy.windows == pytest.approx([1, 2, 3])
    assert energy.spread == pytest.approx([1, 3])
    assert energy.per_call == pytest.approx(2)


@pytest.mark.parametrize("calls_before", range(8))
def test_a_counter_that_wraps_around_loses_nothing(tmp_path: Path, calls_before: int) -> None:
    """In the idle time, in a window, and between two."""
    start = RANGE_UJ - 4_000_000 - calls_before * 6_000_000
    machine = Machine(tmp_path, 10, call_j=6, call_s=0.3).add_zone("intel-rapl:0", "package-0", start)
    energy = measured(machine)
    assert int((tmp_path / "intel-rapl:0" / "energy_uj").read_text()) < start, "the test shall have wrapped"
    assert energy.per_call == pytest.approx(6)
    assert energy.per_call_above_idle == pytest.approx(3)


def test_packages_are_summed_with_their_memory_and_nothing_is_counted_twice(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    shares = {"package-0": 5.0, "core": 3.0, "dram": 0.5, "package-1": 4.0, "psys": 30.0, "mmio": 5.0}
    zones = {
        "intel-rapl:0": "package-0",
        "intel-rapl:0:0": "core",
        "intel-rapl:0:1": "dram",
        "intel-rapl:1": "package-1",
        "intel-rapl:1:0": "dram",
        "intel-rapl:2": "psys",
        "intel-rapl-mmio:0": "package-0",
    }
    (tmp_path / "intel-rapl").mkdir()  # the control type itself, which has no counter
    for zone, name in zones.items():
        machine.add_zone(zone, name)
    sensor = sensor_of(machine)
    for zone, name in zones.items():
        machine.draw(shares["mmio" if "mmio" in zone else name], zone)
    assert sensor.joules() == pytest.approx(5 + 4 + 0.5 + 0.5)
    assert sensor.name == "RAPL package-0, package-1 + dram"
    assert "and its memory" in sensor.covers


def test_each_counter_wraps_at_its_own_range(tmp_path: Path) -> None:
    machine = Machine(tmp_path).add_zone("intel-rapl:0", "package-0", RANGE_UJ - 1)
    machine.add_zone("intel-rapl:0:0", "dram", 65_712_999_612, range_uj=65_712_999_613)
    sensor = sensor_of(machine)
    machine.draw(7)
    machine.draw(2, "intel-rapl:0:0")
    assert sensor.joules() == pytest.approx(9)


def test_a_counter_is_read_often_enough_to_see_every_wrap(tmp_path: Path) -> None:
    machine = Machine(tmp_path).add_zone("intel-rapl:0", "package-0")
    machine.add_zone("intel-rapl:0:0", "dram", range_uj=65_712_999_613)
    within = sensor_of(machine).read_within
    assert within is not None
    assert within < 65_712 / 1000, "at 1000 W it would have wrapped by then"


def test_it_is_read_during_a_call_however_long_that_takes() -> None:
    read_thrice = threading.Event()

    class Counting:
        """A stand-in that must be read every millisecond."""

        name, covers, read_within = "counting", "", 0.001
        reads = 0

        def joules(self) -> float:
            self.reads += 1
            if self.reads == 2:
                raise SensorError("once in a while a reading fails")
            if self.reads >= 3:
                read_thrice.set()
            return 0.0

        def close(self) -> None: ...

    with _read_often(Counting()):
        assert read_thrice.wait(timeout=30)


def test_below_idle_is_reported_as_measured_and_noted(tmp_path: Path) -> None:
    energy = measured(Machine(tmp_path, idle_w=10, call_j=2.7, call_s=0.3).add_zone("intel-rapl:0", "package-0"))
    assert energy.per_call_above_idle == pytest.approx(-0.3)
    assert "below the noise of the sensor" in energy.notes[0]


def test_an_idle_counter_that_stands_still_is_not_taken_for_zero_watts(tmp_path: Path) -> None:
    energy = measured(Machine(tmp_path, idle_w=0, call_j=6).add_zone("intel-rapl:0", "package-0"))
    assert energy.per_call == pytest.approx(6)
    assert energy.idle_power_w is None
    assert energy.per_call_above_idle is None
    assert energy.above_idle_reason is not None
    assert "did not move" in energy.above_idle_reason


def test_it_goes_into_results_as_it_is(tmp_path: Path) -> None:
    energy = measured(Machine(tmp_path, 10, 6).add_zone("intel-rapl:0", "package-0"))
    stored = json.loads(json.dumps(energy.model_dump(mode="json"), allow_nan=False))
    assert stored["per_call"] == pytest.approx(6)
    assert stored["per_call_above_idle"] == pytest.approx(3)
    assert stored["per_second_of_audio"] == pytest.approx(6 / 5)
    assert stored["sensor"] == "RAPL package-0"
    assert stored["source"] == "measured by RAPL package-0"


# --- what cannot be measured -----------------------------------------------------------------------------------------


def test_a_frozen_counter_is_no_zero(tmp_path: Path) -> None:
    found = refused(Machine(tmp_path, idle_w=0, call_j=0).add_zone("intel-rapl:0", "package-0", 777))
    assert "RAPL package-0 did not move in 3 of 3 windows" in found.reason
    assert "`watts`" in found.what_to_do


def test_a_counter_that_vanishes_meanwhile(tmp_path: Path) -> None:
    machine = Machine(tmp_path, 10, 6).add_zone("intel-rapl:0", "package-0")

    def run(value: object) -> None:
        machine.now += 2
        (tmp_path / "intel-rapl:0" / "energy_uj").unlink()

    found = measure_energy(run, None, CPU, sensor_of(machine), 5.0, clock=machine)
    assert isinstance(found, Unavailable)
    assert "failed during the pass" in found.reason
    assert "energy_uj" in found.reason


def test_without_the_folder_it_says_that_virtual_machines_have_none(tmp_path: Path) -> None:
    found = find_sensor("cpu", tmp_path / "powercap")
    assert isinstance(found, Unavailable)
    assert "virtual machine" in found.reason
    assert "modprobe" in found.what_to_do
    assert "`watts`" in found.what_to_do


def test_a_counter_for_root_only_names_the_file_and_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Machine(tmp_path).add_zone("intel-rapl:0", "package-0")
    file = tmp_path / "intel-rapl:0" / "energy_uj"
    file.chmod(0)
    if os.geteuid() == 0:  # root may read everything: the refusal itself is imitated, where the file is opened
        honest = Path.read_text

        def refuse(path: Path, *args: Any, **options: Any) -> str:
            if path == file:
                raise PermissionError(13, "Permission denied", str(path))
            return honest(path, *args, **options)

        monkeypatch.setattr(Path, "read_text", refuse)
    found = find_sensor("cpu", tmp_path)
    assert isinstance(found, Unavailable)
    assert found.reason.startswith(str(file))
    assert f"sudo chmod o+r {tmp_path}/intel-rapl:*/energy_uj" in found.what_to_do
    assert "next boot" in found.what_to_do


def test_counters_that_a_container_hides(tmp_path: Path) -> None:
    """The links are there, and lead nowhere."""
    (tmp_path / "intel-rapl:0").symlink_to(tmp_path / "hidden")
    found = find_sensor("cpu", tmp_path)
    assert isinstance(found, Unavailable)
    assert "container" in found.reason
    assert "systempaths=unconfined" in found.what_to_do


@pytest.mark.parametrize("file", ["energy_uj", "max_energy_range_uj"])
@pytest.mark.parametrize("text", ["", "much"])
def test_a_file_without_a_number_in_it(tmp_path: Path, file: str, text: str) -> None:
    Machine(tmp_path).add_zone("intel-rapl:0", "package-0")
    (tmp_path / "intel-rapl:0" / file).write_text(text)
    found = find_sensor("cpu", tmp_path)
    assert isinstance(found, Unavailable)
    assert f"{file} holds no number" in found.reason


def test_a_range_of_zero_is_refused(tmp_path: Path) -> None:
    Machine(tmp_path).add_zone("intel-rapl:0", "package-0", range_uj=0)
    assert isinstance(find_sensor("cpu", tmp_path), Unavailable)


def test_a_board_counter_alone_is_not_the_processor(tmp_path: Path) -> None:
    Machine(tmp_path).add_zone("intel-rapl:0", "psys")
    found = find_sensor("cpu", tmp_path)
    assert isinstance(found, Unavailable)
    assert "no counter of a processor package" in found.reason


def test_a_device_without_a_sensor() -> None:
    found = find_sensor("mps")
    assert isinstance(found, Unavailable)
    assert str(found) == f"{found.reason}. G{found.what_to_do[1:]}."


# --- what is given ---------------------------------------------------------------------------------------------------


def test_given_watts_are_marked_as_given() -> None:
    given = given_power(watts=5.8)
    energy = energy_from_watts(given, latency_s=0.5, seconds_of_audio=10)
    assert energy.per_call == pytest.approx(2.9)
    assert energy.per_second_of_audio == energy.watt_hours_per_hour_of_audio == pytest.approx(0.29)
    assert energy.per_call_above_idle is None
    assert energy.above_idle_reason is not None
    assert "`idle_watts`" in energy.above_idle_reason
    assert (energy.kind, energy.source) == ("given", "given: 5.8 W in the recipe")
    assert energy.mean_power_w == 5.8
    assert energy.spread is None


def test_given_watts_with_the_idle_ones() -> None:
    given = given_power(watts=5.8, idle_watts=1.8)
    energy = energy_from_watts(given, latency_s=0.5, seconds_of_audio=10)
    assert energy.per_call == pytest.approx(2.9)
    assert energy.per_call_above_idle == pytest.approx(2.0)
    assert energy.above_idle_reason is None


def test_given_watts_go_before_a_sensor() -> None:
    recipe: Any = SimpleNamespace(measure=Measure(watts=5.8))
    assert not PASS.wanted(recipe)
    recipe.measure = Measure()
    assert PASS.wanted(recipe)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"watts": 0.0}, "`watts` is 0; expected a power"),
        ({"watts": -3.0}, "`watts` is -3"),
        ({"watts": float("nan")}, "`watts` is nan"),
        ({"watts": 5.0, "idle_watts": 6.0}, "expected less"),
        ({"watts": 5.0, "idle_watts": 0.0}, "`idle_watts` is 0"),
        ({"idle_watts": 2.0}, "without `watts`"),
        ({"watts": 5.0, "powertop": Path("report.csv")}, "keep one"),
    ],
)
def test_what_is_no_power_is_refused(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError, match=says):
        given_power(**wrong)


# --- a sensor that is updated rarely, as those of GPUs; a stand-in, there is none here -------------------------------


class Stepping:
    """100 W while calls run and 20 W else, told only every `step` seconds; the clock too."""

    name, covers, read_within, steps = "NVML A100", "the GPU", None, True

    def __init__(self, step: float) -> None:
        self.step, self.now, self.drawn, self.told, self.next, self.calls = step, 0.0, 0.0, 0.0, step, 0

    def perf_counter(self) -> float:
        return self.now

    def sleep(self, seconds: float, watts: float = 20.0) -> None:
        while self.now + seconds >= self.next:
            part = self.next - self.now
            self.drawn += part * watts
            self.now, self.told, self.next, seconds = self.next, self.drawn, self.next + self.step, seconds - part
        self.drawn += seconds * watts
        self.now += seconds

    def run(self, value: Any) -> None:
        self.calls += 1
        self.sleep(0.007, watts=100.0)

    def joules(self) -> float:
        return self.told

    def close(self) -> None:
        pass


@pytest.mark.parametrize("step", [0.02, 0.1])
def test_windows_cover_many_updates_of_the_sensor(step: float) -> None:
    gpu = Stepping(step)
    energy = measure_energy(gpu.run, None, CPU, gpu, 1.0, clock=gpu)
    assert isinstance(energy, Energy)
    assert min(energy.window_seconds) >= 29 * step
    assert energy.update_seconds == pytest.approx(step, rel=0.1)
    assert energy.per_call == pytest.approx(0.7, rel=0.04)
    assert energy.per_call_above_idle == pytest.approx(0.56, rel=0.06)
    assert any("covers 30 or more" in note for note in energy.notes)


def test_a_sensor_that_is_hardly_updated_gives_no_figure() -> None:
    gpu = Stepping(1.5)
    found = measure_energy(gpu.run, None, CPU, gpu, 1.0, clock=gpu)
    assert "was not updated 4 times in 2 s: no window of calls would be long enough" in str(found)
    assert gpu.calls == 0
