"""What doctor says of a machine: each check on made-up files, the noise of made-up runs, the answer of both."""

from __future__ import annotations

import json
import math
import random
import shutil
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from profiler.cli import main
from profiler.conditions import floor as floors
from profiler.device import Device
from profiler.doctor import checks, diagnosis
from profiler.doctor.checks import Check
from profiler.doctor.diagnosis import Diagnosis, diagnose
from profiler.doctor.trial import Noise, Trial, busiest, estimate_noise
from profiler.errors import WorkerError
from profiler.results.types import Condition, Gpu

GB = 10**9
CPU = "sys/devices/system/cpu"


class Machine:
    """A made-up root folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def file(self, path: str, text: str) -> Machine:
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text + "\n")
        return self

    def cpus(self, count: int, file: str, *texts: str) -> Machine:
        """The same file of each CPU; texts are repeated."""
        for number in range(count):
            self.file(f"{CPU}/cpu{number}/{file}", texts[number % len(texts)])
        return self


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.parametrize(
    ("governors", "status"),
    [(("performance",), "ok"), (("powersave",), "warn"), (("performance", "powersave"), "warn")],
)
def test_governor(machine: Machine, governors: tuple[str, ...], status: str) -> None:
    found = checks.governor(machine.cpus(4, "cpufreq/scaling_governor", *governors).root)
    assert found.status == status
    assert ("cpupower" in found.advice) == (status == "warn")


def test_frequency(machine: Machine) -> None:
    machine.cpus(2, "cpufreq/scaling_max_freq", "3600000").cpus(2, "cpufreq/cpuinfo_max_freq", "3600000")
    assert checks.frequency(machine.root) == Check("CPU frequency", "ok", "up to 3.60 GHz")
    machine.cpus(2, "cpufreq/scaling_max_freq", "2000000")
    assert checks.frequency(machine.root).found == "capped at 2.00 of 3.60 GHz"


@pytest.mark.parametrize(
    ("file", "text", "status"),
    [
        ("intel_pstate/no_turbo", "0", "warn"),
        ("intel_pstate/no_turbo", "1", "ok"),
        ("cpufreq/boost", "1", "warn"),
        ("cpufreq/boost", "0", "ok"),
    ],
)
def test_turbo(machine: Machine, file: str, text: str, status: str) -> None:
    found = checks.turbo(machine.file(f"{CPU}/{file}", text).root)
    assert found.status == status
    assert (f"tee /{CPU}/{file}" in found.advice) == (status == "warn")


@pytest.mark.parametrize(("source", "status"), [("tsc", "ok"), ("kvm-clock", "ok"), ("hpet", "warn")])
def test_clock_source(machine: Machine, source: str, status: str) -> None:
    machine.file("sys/devices/system/clocksource/clocksource0/current_clocksource", source)
    assert checks.clock_source(machine.root).status == status


def test_huge_pages(machine: Machine) -> None:
    machine.file("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never")
    assert checks.huge_pages(machine.root).found == "madvise"
    machine.file("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never")
    assert checks.huge_pages(machine.root).advice


@pytest.mark.parametrize(
    "check",
    [
        checks.governor,
        checks.frequency,
        checks.turbo,
        checks.clock_source,
        checks.huge_pages,
        lambda root: checks.hyperthreading(2, [0, 1], root),
        lambda root: checks.cpu_limit(2, root),
        lambda root: checks.steal(0.0, 2, root),
    ],
)
def test_what_cannot_be_read_is_unknown_and_says_why(machine: Machine, check: Callable[[Path], Check]) -> None:
    found = check(machine.root)
    assert found.status == "unknown"
    assert found.found


@pytest.mark.parametrize(
    ("siblings", "threads", "status", "words"),
    [
        (("0", "1", "2", "3"), 4, "ok", "4 cores"),
        (("0-1", "0-1", "2-3", "2-3"), 2, "ok", "2 physical cores for 2 threads"),
        (("0-1", "0-1", "2-3", "2-3"), 4, "warn", "4 threads on 2 physical cores"),
    ],
)
def test_hyperthreading(machine: Machine, siblings: tuple[str, ...], threads: int, status: str, words: str) -> None:
    machine.cpus(4, "topology/thread_siblings_list", *siblings)
    found = checks.hyperthreading(threads, range(4), machine.root)
    assert (found.status, words in found.found) == (status, True)


def test_affinity() -> None:
    assert checks.affinity(2, [0, 1], 2) == Check("CPU affinity", "ok", "all 2 CPUs")
    assert checks.affinity(2, [0, 1], 64).found == "2 of the machine's 64 CPUs may be used"
    crowded = checks.affinity(4, [0, 1], 64)
    assert (crowded.status, crowded.advice) == ("bad", "Use --threads 2, or fewer.")


def test_a_version_2_cgroup_limits_cpus(machine: Machine) -> None:
    machine.file("proc/self/cgroup", "0::/job").file("sys/fs/cgroup/job/cpu.max", "max 100000")
    assert checks.cpu_limit(2, machine.root) == Check("CPU limit", "ok", "none")
    machine.file("sys/fs/cgroup/cpu.max", "150000 100000")
    found = checks.cpu_limit(2, machine.root)
    assert found.status == "bad"
    assert found.found.startswith("1.5 CPUs by cgroup for 2 threads")
    assert "--threads 1" in found.advice
    assert checks.cpu_limit(1, machine.root).status == "ok"


@pytest.mark.parametrize("folder", ["cpu", "cpu,cpuacct"])
def test_a_version_1_cgroup_limits_cpus(machine: Machine, folder: str) -> None:
    machine.file("proc/self/cgroup", f"4:memory:/a\n1:{folder}:/docker/1")
    machine.file(f"sys/fs/cgroup/{folder}/cpu.cfs_quota_us", "-1")
    machine.file(f"sys/fs/cgroup/{folder}/cpu.cfs_period_us", "100000")
    assert checks.cpu_quota(machine.root) is None
    machine.file(f"sys/fs/cgroup/{folder}/cpu.cfs_quota_us", "400000")
    assert checks.cpu_quota(machine.root) == 4.0


def test_memory() -> None:
    assert checks.memory(20 * GB, 25 * GB, None) == Check("memory", "ok", "20.0 GB available of 25.0 GB")
    limited = checks.memory(3 * GB, 64 * GB, 4 * GB)
    assert limited.status == "warn"
    assert "limited to 4.00 GB by the container" in limited.found
    assert checks.memory(GB // 2, 64 * GB, None).status == "bad"


def test_swapping(machine: Machine) -> None:
    assert checks.swapped_pages(machine.root) is None
    machine.file("proc/vmstat", "nr_free_pages 5\npswpin 7\npswpout 3")
    assert checks.swapped_pages(machine.root) == 10
    assert checks.swapping(10, 10).status == "ok"
    assert checks.swapping(10, 30).status == "bad"
    assert checks.swapping(None, None).status == "unknown"


def test_load() -> None:
    assert checks.load(0.4, 2).status == "ok"
    assert checks.load(3.0, 2) == Check("load", "warn", "3.0 in the last minute on 2 CPUs", checks.load(3.0, 2).advice)


def test_other_processes_are_named() -> None:
    before = {(7, "backup"): 10.0, (8, "editor"): 5.0, (9, "ended"): 1.0}
    after = {(7, "backup"): 40.0, (8, "editor"): 5.1, (10, "started"): 15.0}
    names = busiest(before, after, 30.0)
    assert names == [("backup (7)", 1.0), ("started (10)", 0.5)]
    assert checks.other_processes(1.6, names).found == "1.6 CPUs during the trial (backup (7) 1.0, started (10) 0.5)"
    assert checks.other_processes(0.01, []).status == "ok"
    assert checks.other_processes(None, []).status == "unknown"


@pytest.mark.parametrize(("stolen", "status"), [(0.001, "ok"), (0.06, "warn"), (0.5, "bad")])
def test_steal(machine: Machine, stolen: float, status: str) -> None:
    machine.file("proc/stat", "cpu 1 0 1 9 0 0 0 3 0 0\ncpu0 1 0 1 9 0 0 0 3 0 0")
    assert checks.steal(stolen, 2, machine.root).status == status


def test_throttling() -> None:
    assert checks.throttling(0).status == "ok"
    assert checks.throttling(12).found == "12 times during the trial, by a CPU limit or by heat"
    assert checks.throttling(None).status == "unknown"


@pytest.mark.parametrize(
    ("threads", "others", "environment", "status"),
    [
        (1, 5.0, {}, "ok"),
        (2, 0.0, {}, "ok"),
        (2, 1.0, {}, "warn"),
        (2, 1.0, {"OMP_WAIT_POLICY": "PASSIVE"}, "ok"),
        (2, 1.0, {"KMP_BLOCKTIME": "0"}, "ok"),
        (2, 1.0, {"GOMP_SPINCOUNT": "0"}, "ok"),
        (2, None, {}, "ok"),
    ],
)
def test_spinning(threads: int, others: float | None, environment: dict[str, str], status: str) -> None:
    found = checks.spinning(threads, 2, others, environment)
    assert found.status == status
    assert ("--threads 1" in found.advice) == (status == "warn")


def test_inter_thread_latency() -> None:
    assert checks.inter_thread_latency([], 1).status == "ok"
    assert checks.inter_thread_latency([], 2).status == "unknown"
    assert checks.inter_thread_latency([3.4e-6, 3.6e-6], 2).found == "latency 3.4-3.6 µs"
    assert checks.inter_thread_latency([3.4e-6, 5.2e-6], 2).status == "warn"


def test_settings_that_change_figures_are_shown() -> None:
    assert checks.settings({"HOME": "/root"}, ("LD_PRELOAD",)).found == "no variable set that changes figures"
    found = checks.settings({"LD_PRELOAD": "libjemalloc.so"}, ("LD_PRELOAD", "OMP_PLACES"))
    assert found.found == "set: LD_PRELOAD=libjemalloc.so"


def test_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for free, status in ((50 * GB, "ok"), (GB, "warn"), (GB // 100, "bad")):
        monkeypatch.setattr(shutil, "disk_usage", lambda place, free=free: type("Usage", (), {"free": free}))
        assert checks.disk(tmp_path / "not" / "there" / "yet").status == status

    def fail(place: Path) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(shutil, "disk_usage", fail)
    assert checks.disk(tmp_path).status == "unknown"


FINE = Gpu(
    name="V100",
    clock="1380 MHz",
    highest_clock="1530 MHz",
    temperature="41",
    slowdown_temperature=87,
    throttle_reasons="0x0000000000000001",  # idle
    power_limit="300.00 W",
    default_power_limit="300.00 W",
    persistence="Enabled",
    mig="[N/A]",
)


def test_gpus() -> None:
    (none,) = checks.gpus([])
    assert none.found.startswith("no GPU")
    (good,) = checks.gpus([FINE])
    assert (good.status, good.found) == ("ok", "V100, 1380 MHz of 1530 MHz now, 41 °C")
    slow = {"processes": 2, "throttle_reasons": "0x0000000000000068", "persistence": "Disabled"}
    busy, unread = checks.gpus([FINE.model_copy(update=slow), Gpu(name="V100")])
    assert busy.name == "GPU 0"
    assert "2 other process(es) use it, throttled by hardware slowdown and heat, persistence mode is off" in busy.found
    assert "nvidia-smi -pm 1" in busy.advice
    assert unread.status == "unknown"


@pytest.mark.parametrize(
    ("state", "found"),
    [
        ({"mig": "Enabled"}, "cut into parts that share its memory bandwidth and power (MIG)"),
        ({"temperature": "84"}, "it has 84 °C, 3 degrees below the 87 °C at which it lowers its clock"),
        ({"power_limit": "210.00 W"}, "its power limit is 210 W, 30% below the usual 300 W"),
    ],
)
def test_what_a_gpu_is_set_to_is_judged_by_its_figure(state: dict[str, str], found: str) -> None:
    (check,) = checks.gpus([FINE.model_copy(update=state)])
    assert check.status == "warn"
    assert found in check.found


def test_settings_of_torch_on_a_gpu() -> None:
    flags = Device("cuda").flags()  # torch's own, which need no GPU
    unset = checks.torch_on_gpu(flags, "8.0", {})
    assert unset.status == "ok"
    assert "float32 is TF32 in convolutions, recurrent layers on this GPU" in unset.found
    searching = checks.torch_on_gpu(flags | {"cudnn.benchmark": "True"}, "7.0", {"CUDA_LAUNCH_BLOCKING": "1"})
    assert searching.status == "warn"
    assert "TF32" not in searching.found, "a V100 has none"
    assert "cudnn.benchmark is on" in searching.found
    assert "CUDA_LAUNCH_BLOCKING=1: every launch waits" in searching.found
    assert checks.torch_on_gpu(None, None, {}).status == "unknown"


def runs_with(between: float, within: float, seed: int = 0, runs: int = 7, rounds: int = 10) -> list[list[float]]:
    """Rounds of equal runs with known standard deviations of their logs."""
    chance = random.Random(seed)
    levels = [chance.gauss(0, between) for _ in range(runs)]
    return [[0.04 * math.exp(level + chance.gauss(0, within)) for _ in range(rounds)] for level in levels]


def test_the_noise_of_made_up_runs_is_found() -> None:
    """Over many trials: estimates centre on what was put in, and the bound holds in 4 of 5 of them."""
    trials = [estimate_noise(runs_with(0.02, 0.03, seed)) for seed in range(300)]
    assert statistics.fmean(noise.between_rounds for noise in trials) == pytest.approx(0.03, rel=0.03)
    whole = math.sqrt(0.02**2 + math.pi / 2 * 0.03**2 / 10)
    assert statistics.fmean(noise.between_runs for noise in trials) == pytest.approx(whole, rel=0.08)
    assert statistics.fmean(noise.floor >= whole for noise in trials) == pytest.approx(0.8, abs=0.06)
    assert statistics.fmean(noise.level_s for noise in trials) == pytest.approx(0.04, rel=0.01)


def test_the_smallest_change_follows_its_formula() -> None:
    noise = Noise(7, 0.04, between_runs=0.01, floor=0.01, between_rounds=0.0)
    z = 1.95996 + 0.84162
    assert noise.smallest_between_runs(10) == pytest.approx(math.exp(z * math.sqrt(2) * 0.01) - 1, rel=1e-4)
    more = Noise(7, 0.04, between_runs=0.01, floor=0.01, between_rounds=0.05)
    assert more.smallest_between_runs(10) > more.smallest_between_runs(100) > noise.smallest_between_runs(10)


QUIET = Condition(wall_s=30.0)


@pytest.fixture
def healthy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever machine the test runs on, its own settings are fine."""
    monkeypatch.setenv(floors.STATE, str(tmp_path / "state"))
    fine = {
        "governor": lambda: Check("governor", "ok", "performance"),
        "frequency": lambda: Check("CPU frequency", "ok", "up to 3.00 GHz"),
        "turbo": lambda: Check("turbo", "ok", "off"),
        "clock_source": lambda: Check("clock source", "ok", "tsc"),
        "huge_pages": lambda: Check("huge pages", "ok", "madvise"),
        "hyperthreading": lambda *given: Check("hyperthreading", "ok", "off"),
        "cpu_limit": lambda *given: Check("CPU limit", "ok", "none"),
        "memory": lambda *given: Check("memory", "ok", "20 GB"),
        "load": lambda *given: Check("load", "ok", "0.0"),
        "steal": lambda *given: Check("steal", "ok", "none"),
        "disk": lambda *given: Check("disk", "ok", "much"),
    }
    for name, check in fine.items():
        monkeypatch.setattr(checks, name, check)


def trial(between: float, conditions: Condition = QUIET) -> Trial:
    return Trial(runs=runs_with(between, 0.005), conditions=conditions, swapped=(0, 0), seconds=30.0)


def diagnosis_of(made: Trial, threads: int = 1) -> Diagnosis:
    return diagnose(threads, Path("logs"), measure=lambda threads, on_step: made)


@pytest.mark.usefixtures("healthy")
def test_a_quiet_machine_is_fit_and_its_floor_is_kept() -> None:
    found = diagnosis_of(trial(0.005))
    assert found.answer == "fit"
    assert found.text().startswith("Fit for measuring: changes of ")
    kept = floors.read_floor(1)
    assert kept == found.floor
    assert kept is not None
    assert 0.001 < kept.value < 0.02


@pytest.mark.usefixtures("healthy")
def test_a_noisier_one_is_usable_with_care() -> None:
    found = diagnosis_of(trial(0.035))
    assert found.answer == "care"
    assert "noise floor" in found.sentence()
    assert diagnosis_of(trial(0.005, Condition(other_cpus=0.6)), threads=1).answer == "care"


@pytest.mark.usefixtures("healthy")
def test_a_throttled_or_very_noisy_one_is_not_fit() -> None:
    assert diagnosis_of(trial(0.3)).sentence().startswith("Not fit for measuring: only changes of ")
    assert "throttling" in diagnosis_of(trial(0.005, Condition(throttled=3))).sentence()


@pytest.mark.usefixtures("healthy")
def test_a_trial_that_fails_leaves_the_other_checks() -> None:
    def fail(threads: int, on_step: Any) -> Trial:
        raise WorkerError("The worker died while loading the model: killed by SIGKILL.")

    found = diagnose(1, Path("logs"), measure=fail)
    assert found.answer == "unknown"
    assert "killed by SIGKILL" in found.text()
    assert "governor" in found.text()
    assert floors.read_floor() is None
    json.dumps(found.to_json(), allow_nan=False)


@pytest.mark.usefixtures("healthy")
def test_a_second_trial_is_compared_with_the_first() -> None:
    diagnosis_of(trial(0.005))
    slower = trial(0.005)
    slower.runs = [[1.2 * value for value in rounds] for rounds in slower.runs]
    found = diagnosis_of(slower)
    assert "20.0 % slower than on " in found.text()
    assert found.floor is not None
    assert found.floor.value == pytest.approx(math.log(1.2) / math.sqrt(2), rel=1e-6)
    assert "earlier trials differ more" in " ".join(found.text().split())


@pytest.mark.usefixtures("healthy")
def test_a_state_folder_that_cannot_be_written_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    found = diagnosis_of(trial(0.005))
    assert "not kept" in found.text()
    assert found.answer == "care"


@pytest.mark.usefixtures("healthy")
def test_the_text_fits_80_columns_and_says_what_to_do() -> None:
    made = trial(0.05, Condition(other_cpus=1.0, throttled=2))
    made.busy = [("a-process-with-quite-a-long-name (123456)", 0.9)]
    made.handoff_s = [3e-6, 9e-6]
    text = diagnosis_of(made, threads=2).text()
    assert max(len(line) for line in text.replace(str(floors.state_file()), "").splitlines()) <= diagnosis.WIDTH
    for check in diagnosis_of(made, threads=2).checks:
        assert check.status in ("ok", "unknown") or check.advice, check


@pytest.mark.parametrize("given", ["0", "-1"])
def test_threads_must_be_positive(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--threads", given]) == 2
    assert "expected a whole number greater than 0" in capsys.readouterr().err
