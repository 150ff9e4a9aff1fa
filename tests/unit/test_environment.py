"""What is recorded about the machine: all the documented keys, and limits that are tighter than the machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from profiler import environment

GB = 10**9
ROOT = Path(__file__).resolve().parents[2]


class Machine:
    """A made-up /proc and /sys."""

    def __init__(self, folder: Path) -> None:
        self.proc, self.sys = folder / "proc", folder / "sys"
        self.proc.mkdir()
        self.sys.mkdir()

    def write(self, path: str, text: str) -> None:
        file = self.proc.parent / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine of 64 GB without limits; tests add what they need."""
    made = Machine(tmp_path)
    monkeypatch.setattr(environment, "PROC", made.proc)
    monkeypatch.setattr(environment, "SYS", made.sys)
    memory = type("Memory", (), {"total": 64 * GB, "available": 50 * GB})
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)
    monkeypatch.setattr(environment, "_process_limit", lambda: None)
    return made


def test_the_documented_keys_are_there() -> None:
    read = environment.read_environment()
    documented = {"host", "cpu", "cores", "memory_bytes", "gpu", "os", "python", "packages", "load", "governor"}
    assert documented <= set(read.model_dump())
    assert (read.cores or 0) >= 1
    assert (read.memory_bytes or 0) > GB // 10
    assert read.packages["torch"]
    assert read.profiler is not None
    assert read.profiler.version
    assert len(read.load) == 3
    json.dumps(read.model_dump(mode="json"), allow_nan=False)  # it goes into results.json as it is


@pytest.mark.slow
def test_torchs_profiler_leaves_the_log_of_a_worker_to_the_worker() -> None:
    """It is looked into where something failed: what the model wrote is to be found there."""
    code = "import torch\nwith torch.profiler.profile():\n    torch.ones(1)"
    given = environment.worker_environment(threads=1)
    done = subprocess.run([sys.executable, "-c", code], env=given, capture_output=True, text=True, check=True)
    assert done.stdout + done.stderr == ""


def test_reading_it_imports_no_torch() -> None:
    code = "import sys; from profiler.environment import read_environment as r; r(); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("processor\t: 0\nmodel\t\t: 17\nmodel name\t: AMD EPYC\n", "AMD EPYC"),
        ("processor\t: 0\nBogoMIPS\t: 38.40\n\nHardware\t: BCM2711\nModel\t\t: Raspberry Pi 4\n", "BCM2711"),
        ("processor\t: 0\n\nModel\t\t: Raspberry Pi 5\n", "Raspberry Pi 5"),
    ],
)
def test_the_processor_is_named(machine: Machine, text: str, name: str) -> None:
    machine.write("proc/cpuinfo", text)
    assert environment.cpu_name() == name


def test_without_limits_all_available_memory_counts(machine: Machine) -> None:
    assert environment.memory_limit() is None
    assert environment.available_memory() == 50 * GB


def test_a_version_2_cgroup_limits_memory(machine: Machine) -> None:
    machine.write("proc/self/cgroup", "0::/user/job\n")
    machine.write("sys/fs/cgroup/cgroup.controllers", "cpu memory\n")
    machine.write("sys/fs/cgroup/user/job/memory.max", f"{8 * GB}\n")
    machine.write("sys/fs/cgroup/user/job/memory.current", f"{3 * GB}\n")
    assert environment.memory_limit() == 8 * GB
    assert environment.available_memory() == 5 * GB


def test_the_tightest_cgroup_above_counts(machine: Machine) -> None:
    machine.write("proc/self/cgroup", "0::/user/job\n")
    machine.write("sys/fs/cgroup/cgroup.controllers", "memory\n")
    machine.write("sys/fs/cgroup/user/job/memory.max", "max\n")
    machine.write("sys/fs/cgroup/user/memory.max", f"{4 * GB}\n")
    assert environment.memory_limit() == 4 * GB


def test_a_version_1_cgroup_limits_memory(machine: Machine) -> None:
    machine.write("proc/self/cgroup", "5:cpu,cpuacct:/\n4:memory:/docker/abc\n0::/\n")
    machine.write("sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", f"{2 * GB}\n")
    machine.write("sys/fs/cgroup/memory/docker/abc/memory.usage_in_bytes", f"{GB}\n")
    machine.write("sys/fs/cgroup/memory/memory.limit_in_bytes", f"{2**63 - 4096}\n")
    assert environment.memory_limit() == 2 * GB
    assert environment.available_memory() == GB


def test_in_a_container_the_files_stand_at_the_root(machine: Machine) -> None:
    """The kernel names the path outside; inside only the root of the tree is mounted."""
    machine.write("proc/self/cgroup", "4:memory:/docker/abc\n")
    machine.write("sys/fs/cgroup/memory/memory.limit_in_bytes", f"{2 * GB}\n")
    machine.write("sys/fs/cgroup/memory/memory.usage_in_bytes", f"{GB // 2}\n")
    assert environment.memory_limit() == 2 * GB
    assert environment.available_memory() == 2 * GB - GB // 2


@pytest.mark.parametrize("limit", ["max", str(2**63 - 4096), str(100 * GB), ""])
def test_a_limit_above_the_machine_is_none(machine: Machine, limit: str) -> None:
    machine.write("proc/self/cgroup", "0::/\n")
    machine.write("sys/fs/cgroup/cgroup.controllers", "memory\n")
    machine.write("sys/fs/cgroup/memory.max", limit)
    assert environment.memory_limit() is None


def test_more_in_use_than_the_limit_leaves_nothing(machine: Machine) -> None:
    machine.write("proc/self/cgroup", "0::/\n")
    machine.write("sys/fs/cgroup/cgroup.controllers", "memory\n")
    machine.write("sys/fs/cgroup/memory.max", f"{GB}\n")
    machine.write("sys/fs/cgroup/memory.current", f"{2 * GB}\n")
    assert environment.available_memory() == 0


@pytest.mark.parametrize("kind", ["RLIMIT_AS", "RLIMIT_DATA"])
def test_a_limit_of_the_shell_counts_too(kind: str) -> None:
    """`ulimit -v` or `ulimit -d`: 600 MB, less than any machine has."""
    code = (
        f"import resource; resource.setrlimit(resource.{kind}, (600_000_000, 600_000_000)); "
        "from profiler.environment import available_memory, memory_limit; "
        "print(memory_limit(), available_memory() <= 600_000_000)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["600000000", "True"]


@pytest.mark.parametrize("place", ["cpu.stat", "cpu/cpu.stat"])
def test_throttling_is_counted(machine: Machine, place: str) -> None:
    machine.write(f"sys/fs/cgroup/{place}", "nr_periods 100\nnr_throttled 7\nthrottled_usec 5\n")
    machine.write("sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "2\n")
    machine.write("sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count", "1\n")
    assert environment.throttle_counts() == 10


def test_what_cannot_be_read_is_null_and_no_error(machine: Machine) -> None:
    assert environment.throttle_counts() == 0
    assert environment.read_state().governor is None


def test_the_governor_is_read(machine: Machine) -> None:
    machine.write("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n")
    assert environment.read_state().governor == "powersave"


def test_a_machine_without_nvidia_tools_has_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert environment.read_gpus() == []


def test_gpus_are_read_from_nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text(
        "#!/bin/sh\n"
        'case "$1" in\n'
        '*clocks*) echo "GPU-2, 1590 MHz, 1590 MHz, 60.00 W, 70.00 W, 41, 0x0000000000000004, Disabled, Enabled";;\n'
        '*gpu=*) echo "Tesla T4, 550.1, 15360 MiB, GPU-1"; echo "Tesla T4, 550.1, 15360 MiB, GPU-2";;\n'
        '*) echo "GPU-2, 4711, 900 MiB";;\n'
        "esac\n"
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    first, second = environment.read_gpus()
    assert (first.name, first.driver, first.processes) == ("Tesla T4", "550.1", 0)
    assert second.processes == 1
    assert (first.clock, first.mig) == (None, None)  # not told
    assert (second.clock, second.power_limit, second.temperature) == ("1590 MHz", "60.00 W", "41")
    assert (second.default_power_limit, second.persistence) == ("70.00 W", "Enabled")
    assert (int(second.throttle_reasons or "0", 16), second.mig) == (4, "Disabled")


def test_a_checkout_is_recorded_with_its_commit(tmp_path: Path) -> None:
    git = ["git", "-C", str(tmp_path), "-c", "user.name=n", "-c", "user.email=e"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "first"], check=True)
    made = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    assert environment.read_commit(tmp_path).commit == made


def test_outside_a_checkout_there_is_no_commit(tmp_path: Path) -> None:
    assert environment.read_commit(tmp_path).commit is None


def test_a_recipes_repository_is_read_from_any_folder_in_it(tmp_path: Path) -> None:
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    assert environment.read_repository(below) is None
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    assert environment.read_repository(below) is None  # no commit yet
    named = ["git", "-c", "user.name=n", "-c", "user.email=e", "commit", "-q", "--allow-empty", "-m", "first"]
    subprocess.run(named, cwd=tmp_path, check=True)
    found = environment.read_repository(below)
    assert found is not None
    assert len(found.commit) == 40
    assert found.modified is False


def test_without_git_a_run_has_no_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert environment.read_repository(tmp_path) is None
