"""What a GPU went through in a round, by NVML's counters. There is no GPU here: NVML is a stand-in that counts."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from profiler import messages
from profiler.conditions import gpu
from profiler.conditions.gpu import clock_and_heat, gpu_between, nvml, read_gpu
from profiler.measure.verdict import judge
from profiler.results.types import Condition, DeviceFacts, Gpu, GpuCondition

OURS, OTHER = 100, 200
HERE = DeviceFacts(place="cuda:1", name="A100", memory_bytes=80, uuid="GPU-b")
WILD = [[0.10], [0.20], [0.10], [0.30], [0.10], [0.20]]


class Nvml:
    """As pynvml: two GPUs, of which GPU-b does what the test says."""

    NVML_PERF_POLICY_POWER, NVML_PERF_POLICY_THERMAL, NVML_CLOCK_SM, NVML_TEMPERATURE_GPU = 0, 1, 1, 0
    NVML_TEMPERATURE_THRESHOLD_SLOWDOWN = 1
    NVML_FI_DEV_PERF_POLICY_POWER, NVML_FI_DEV_PERF_POLICY_THERMAL = 74, 75

    def __init__(self) -> None:
        self.lowered = {0: 0, 1: 0}  # ns, by policy
        self.running = [OURS]
        self.use: dict[int, int] | None = {OURS: 90}  # percent

    def nvmlInit(self) -> None:
        pass

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        return {"GPU-a": "first", "GPU-b": "second", "MIG-c": "part of second"}[uuid]

    def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, handle: str) -> str:
        return {"part of second": "second"}[handle]

    def nvmlDeviceGetTemperatureThreshold(self, handle: str, kind: int) -> int:
        assert (handle, kind) == ("second", self.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN)
        return 87

    def nvmlDeviceGetFieldValues(self, handle: str, fields: list[int]) -> list[Any]:
        values = [SimpleNamespace(ullVal=self.lowered[field - 74]) for field in fields]
        return [SimpleNamespace(nvmlReturn=0, value=value) for value in values]

    def nvmlDeviceGetViolationStatus(self, handle: str, policy: int) -> Any:
        assert handle == "second"
        return SimpleNamespace(violationTime=self.lowered[policy])

    def nvmlDeviceGetComputeRunningProcesses(self, handle: str) -> list[Any]:
        return [SimpleNamespace(pid=pid) for pid in self.running]

    def nvmlDeviceGetProcessUtilization(self, handle: str, since: int) -> list[Any]:
        if self.use is None:
            raise RuntimeError("Not Supported")
        return [SimpleNamespace(pid=pid, smUtil=use) for pid, use in self.use.items()]

    def nvmlDeviceGetClockInfo(self, handle: str, kind: int) -> int:
        assert handle == "second"
        return 1410

    def nvmlDeviceGetTemperature(self, handle: str, kind: int) -> int:
        return 61


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[Nvml]:
    made = Nvml()
    clock: Any = SimpleNamespace(now=10.0)
    clock.monotonic = clock.time = lambda: clock.now
    monkeypatch.setitem(sys.modules, "pynvml", made)
    monkeypatch.setattr(gpu, "time", clock)
    for cached in (nvml, gpu._handle):
        cached.cache_clear()
    yield made
    for cached in (nvml, gpu._handle):
        cached.cache_clear()


def after_2_seconds(fake: Nvml, device: DeviceFacts | None = HERE) -> GpuCondition | None:
    """A round in which heat lowered the clock for half a second and power for another half."""
    before = read_gpu(device)
    gpu.time.now += 2.0  # type: ignore[attr-defined]
    fake.lowered = {policy: ns + 500_000_000 for policy, ns in fake.lowered.items()}
    return gpu_between(device, before, [OURS])


def test_what_lowered_the_clock_is_told_as_a_share_of_the_round(fake: Nvml) -> None:
    fake.lowered = {0: 7_000_000_000, 1: 9_000_000_000}  # long before this run
    found = after_2_seconds(fake)
    assert found == GpuCondition(
        held_back=0.5, other_processes=0, other_use=0.0, clock_mhz=1410, temperature_c=61, slowdown_c=87
    )


def test_a_part_of_a_gpu_has_the_clock_of_the_whole(fake: Nvml) -> None:
    """torch gives the number of a part (MIG) alone, which NVML knows by another prefix."""
    part = HERE.model_copy(update={"uuid": "GPU-c"})
    found = after_2_seconds(fake, part)
    assert found is not None
    assert (found.clock_mhz, found.held_back, found.slowdown_c) == (1410, 0.5, 87)


def test_the_clock_is_that_after_the_calls_not_after_what_followed_them(fake: Nvml) -> None:
    after_calls = clock_and_heat(HERE)
    fake.nvmlDeviceGetClockInfo = lambda handle, kind: 210  # type: ignore[method-assign]
    found = gpu_between(HERE, read_gpu(HERE), [OURS], after_calls)
    assert found is not None
    assert found.clock_mhz == 1410


def test_the_temperature_at_which_it_slows_down_is_told_of_each_gpu(fake: Nvml) -> None:
    known, unknown = gpu.with_slowdown([Gpu(name="A100", uuid="GPU-b"), Gpu(name="A100", uuid="GPU-z")])
    assert (known.slowdown_temperature, unknown.slowdown_temperature) == (87, None)


@pytest.mark.parametrize(
    ("running", "use", "told"),
    [
        ([OURS, OTHER], {OURS: 60, OTHER: 40}, (1, 0.4)),
        ([OURS, OTHER], None, (1, None)),  # such as a part of a GPU (MIG): who is there, not how busy
        ([OURS], None, (0, 0.0)),
        ([OTHER], {OTHER: 90}, (None, None)),  # a container: that may be ourselves under another number
    ],
)
def test_other_processes_are_told_apart_from_our_own(
    fake: Nvml, running: list[int], use: dict[int, int] | None, told: tuple[int | None, float | None]
) -> None:
    fake.running, fake.use = running, use
    found = after_2_seconds(fake)
    assert found is not None
    assert (found.other_processes, found.other_use) == told


def test_what_is_not_told_is_absent_and_no_zero(fake: Nvml, monkeypatch: pytest.MonkeyPatch) -> None:
    assert after_2_seconds(fake, None) is None
    assert after_2_seconds(fake, HERE.model_copy(update={"uuid": "GPU-unknown"})) is None
    monkeypatch.delattr(Nvml, "nvmlDeviceGetViolationStatus")
    found = after_2_seconds(fake)
    assert found is not None
    assert found.held_back == 0.5, "by the way of newer drivers"
    monkeypatch.delattr(Nvml, "nvmlDeviceGetFieldValues")
    found = after_2_seconds(fake)
    assert found is not None
    assert found.held_back is None


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (GpuCondition(held_back=0.25), "clock was lowered by heat or its power limit in up to 25% of a round"),
        (GpuCondition(other_use=0.4, other_processes=1), "another process used the GPU, up to 40% of the time"),
        (GpuCondition(other_processes=2), "other processes (2) had the GPU open"),
        (GpuCondition(clock_mhz=1200), "the GPU's clock was up to 15% lower after one round than after another"),
        (GpuCondition(temperature_c=84, slowdown_c=87), "the GPU came within 3 degrees of the temperature at which"),
    ],
)
def test_it_is_a_reason_why_a_cell_is_unstable(state: GpuCondition, said: str) -> None:
    _, verdict, found = judge(WILD, [], [Condition(gpu=GpuCondition(clock_mhz=1410)), Condition(gpu=state)], width=0.03)
    assert verdict == "unstable"
    ((kind, value),) = found.items()
    assert said in messages.disturbance(kind, value)


def test_without_nvml_it_is_said_why(monkeypatch: pytest.MonkeyPatch, fake: Nvml) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    nvml.cache_clear()
    assert "pip install 'speech-profiler[energy]'" in str(nvml())
    assert read_gpu(HERE) is None
