"""One check per function: what a file or a counter says -> status, what was found, what to do about it.

Files are read below a `root` that tests replace; what cannot be read is `unknown`, with the reason, and never guessed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from profiler import sandbox
from profiler.execution.record import BUSY
from profiler.measure.reference import FAR
from profiler.results.types import Gpu
from profiler.units import GB, bytes_text, many

Status = Literal["ok", "warn", "bad", "unknown"]
ROOT = Path("/")
CPUS = "sys/devices/system/cpu"

NO_CPUFREQ = "not shown here, as is usual in a virtual machine"
BUSY_CPUS = 0.1  # a tenth of a CPU: less is what an idle machine does
STEAL = (0.01, 0.1)  # of the CPU time: from 1 % it shows in figures, from 10 % it rules them
SPIN_FREE = 0.25  # CPUs: with less of one missing, threads that spin do not wait long for one another
LITTLE_MEMORY = (4 * GB, 1 * GB)  # a large wav2vec 2.0 takes 1.3 GB of weights, and about as much again per short cell
LITTLE_DISK = (2 * GB, 0.2 * GB)  # a default run with traces takes some hundred MB
SLOW_CLOCKS = ("hpet", "acpi_pm", "jiffies", "xen")  # a reading takes a microsecond and more, or a system call
# Bits of nvidia-smi's clocks_throttle_reasons.active that slow a GPU down; idle and chosen clocks are not among them.
GPU_THROTTLING = {0x4: "power cap", 0x8: "hardware slowdown", 0x20: "heat", 0x40: "heat", 0x80: "power brake"}
GPU_QUERY = "--query-gpu=persistence_mode,clocks.sm,clocks.max.sm,clocks_throttle_reasons.active"


@dataclass(frozen=True)
class Check:
    """A line of the answer. `advice` is empty where there is nothing to do."""

    name: str
    status: Status
    found: str
    advice: str = ""


def untrusted_models() -> Check:
    """Whether models that are not trusted run in a sandbox; what it says has no effect on figures."""
    name, found = "sandbox", sandbox.state(trust=False)
    if found.in_force:
        listed = ", ".join(found.restricts)
        return Check(name, "ok", f"Landlock {found.landlock} restricts models that run without --trust: {listed}")
    return Check(name, "unknown", f"none: {found.reason}", "TorchScript files need --trust here.")


def governor(root: Path = ROOT) -> Check:
    name = "governor"
    found = sorted({text for text in _each_cpu(root, "cpufreq/scaling_governor") if text})
    if not found:
        return Check(name, "unknown", NO_CPUFREQ)
    if found == ["performance"]:
        return Check(name, "ok", "performance")
    return Check(
        name,
        "warn",
        f"{', '.join(found)}: the clock changes with load",
        "Set it with `sudo cpupower frequency-set -g performance`.",
    )


def frequency(root: Path = ROOT) -> Check:
    """Whether the clock is capped below what the processor can do."""
    name = "CPU frequency"
    limits, possible = _numbers(root, "cpufreq/scaling_max_freq"), _numbers(root, "cpufreq/cpuinfo_max_freq")
    if not limits or not possible:
        return Check(name, "unknown", NO_CPUFREQ)
    if min(limits) < min(possible):
        return Check(
            name,
            "warn",
            f"capped at {min(limits) / 1e6:.2f} of {min(possible) / 1e6:.2f} GHz",
            "Fine if meant: it steadies figures. Else lift it with `sudo cpupower frequency-set -u MAX`.",
        )
    return Check(name, "ok", f"up to {max(limits) / 1e6:.2f} GHz")


def turbo(root: Path = ROOT) -> Check:
    name = "turbo"
    intel, others = root / CPUS / "intel_pstate/no_turbo", root / CPUS / "cpufreq/boost"
    intel_off, boost = _read(intel), _read(others)
    if intel_off is None and boost is None:
        return Check(name, "unknown", NO_CPUFREQ)
    on = intel_off == "0" if intel_off is not None else boost == "1"
    if not on:
        return Check(name, "ok", "off")
    command = f"echo 1 | sudo tee /{intel.relative_to(root)}" if intel_off is not None else ""
    command = command or f"echo 0 | sudo tee /{others.relative_to(root)}"
    return Check(
        name,
        "warn",
        "on: the clock depends on heat and on how many cores work",
        f"For figures that repeat, switch it off: `{command}`.",
    )


def clock_source(root: Path = ROOT) -> Check:
    name = "clock source"
    found = _read(root / "sys/devices/system/clocksource/clocksource0/current_clocksource")
    if found is None:
        return Check(name, "unknown", "not shown by this system")
    if found in SLOW_CLOCKS:
        return Check(
            name,
            "warn",
            f"{found}: reading the clock is slow, which short calls show",
            "Boot with `clocksource=tsc` where the processor has a stable one.",
        )
    return Check(name, "ok", found)


def huge_pages(root: Path = ROOT) -> Check:
    name = "huge pages"
    text = _read(root / "sys/kernel/mm/transparent_hugepage/enabled") or ""
    found = text.partition("[")[2].partition("]")[0]
    if not found:
        return Check(name, "unknown", "not shown by this system")
    if found == "always":
        return Check(
            name,
            "ok",
            "always: one run may get huge pages where the next does not",
            "Nothing, unless rounds differ much; then choose `madvise`.",
        )
    return Check(name, "ok", found)


def hyperthreading(threads: int, cpus: Sequence[int], root: Path = ROOT) -> Check:
    """Physical cores among the CPUs that may be used, against the threads."""
    name = "hyperthreading"
    siblings = {cpu: _read(root / CPUS / f"cpu{cpu}/topology/thread_siblings_list") for cpu in cpus}
    if not all(siblings.values()):
        return Check(name, "unknown", "the cores' topology is not shown by this system")
    cores = len(set(siblings.values()))
    if cores == len(cpus):
        return Check(name, "ok", f"{many(cores, 'core')}, one CPU each, as far as the system shows")
    if threads > cores:
        return Check(
            name,
            "warn",
            f"{many(threads, 'thread')} on {many(cores, 'physical core')}: two share a core",
            f"Use --threads {cores}, or fewer.",
        )
    return Check(name, "ok", f"{many(cores, 'physical core')} for {many(threads, 'thread')}")


def affinity(threads: int, cpus: Sequence[int], machine: int) -> Check:
    """`machine`: the CPUs of the whole machine."""
    name = "CPU affinity"
    if threads > len(cpus):
        return Check(
            name,
            "bad",
            f"{many(threads, 'thread')} on {many(len(cpus), 'CPU')}: threads wait for one another",
            f"Use --threads {len(cpus)}, or fewer.",
        )
    if len(cpus) < machine:
        return Check(name, "ok", f"{len(cpus)} of the machine's {machine} CPUs may be used")
    return Check(name, "ok", f"all {many(machine, 'CPU')}")


def cpu_limit(threads: int, root: Path = ROOT) -> Check:
    """The CPU quota of the container or service, cgroup version 2 or 1."""
    name = "CPU limit"
    if _read(root / "proc/self/cgroup") is None:
        return Check(name, "unknown", "this system has no cgroups")
    quota = cpu_quota(root)
    if quota is None:
        return Check(name, "ok", "none")
    found = f"{quota:g} CPUs by cgroup"
    if quota < threads:
        return Check(
            name,
            "bad",
            f"{found} for {many(threads, 'thread')}: they are stopped for part of each period",
            f"Use --threads {max(1, int(quota))}, or raise the limit (docker: --cpus, SLURM: -c).",
        )
    return Check(name, "ok", found)


def cpu_quota(root: Path = ROOT) -> float | None:
    """CPUs that the tightest cgroup over this process allows; None without a limit."""
    quotas = []
    for line in (_read(root / "proc/self/cgroup") or "").splitlines():
        _, controllers, path = line.split(":", 2)
        groups = root / "sys/fs/cgroup"
        if controllers:
            if "cpu" not in controllers.split(","):
                continue
            groups = next((groups / name for name in (controllers, "cpu") if (groups / name).is_dir()), groups)
        folder = groups / path.lstrip("/")
        for place in (folder, *folder.parents):
            quotas.append(_quota(place))
            if place == groups:
                break
    return min(filter(None, quotas), default=None)


def _quota(folder: Path) -> float | None:
    text = _read(folder / "cpu.max")
    quota, period = (
        (text or "").split() if text else (_read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us"))
    )
    try:
        return int(quota or "") / int(period or "") if int(quota or "") > 0 else None
    except (ValueError, ZeroDivisionError):  # "max", or no such file
        return None


def memory(available: int, total: int, limit: int | None) -> Check:
    within = f", limited to {bytes_text(limit)} by the container" if limit is not None else ""
    found = f"{bytes_text(available)} available of {bytes_text(total)}{within}"
    if available >= LITTLE_MEMORY[0]:
        return Check("memory", "ok", found)
    return Check(
        "memory",
        "warn" if available >= LITTLE_MEMORY[1] else "bad",
        found,
        "Close programs or raise the limit: large cells will be skipped, and the system may swap.",
    )


def swapping(before: int | None, after: int | None) -> Check:
    """`before`, `after`: pages moved to or from swap since boot, around the trial."""
    name = "swap"
    if before is None or after is None:
        return Check(name, "unknown", "the system does not show it")
    if after > before:
        return Check(
            name,
            "bad",
            f"{many(after - before, 'page')} moved during the trial",
            "Close what takes memory: a call that waits for a disk says nothing of the model.",
        )
    return Check(name, "ok", "no page moved during the trial")


def swapped_pages(root: Path = ROOT) -> int | None:
    """Pages moved to or from swap since boot."""
    facts = dict(line.split(maxsplit=1) for line in (_read(root / "proc/vmstat") or "").splitlines() if " " in line)
    try:
        return int(facts["pswpin"]) + int(facts["pswpout"])
    except (KeyError, ValueError):
        return None


def load(average: float, cpus: int) -> Check:
    found = f"{average:.1f} in the last minute on {many(cpus, 'CPU')}"
    if average <= BUSY * cpus:
        return Check("load", "ok", found)
    return Check("load", "warn", found, "Wait for what runs, or stop it; the processes are named below if they go on.")


def other_processes(cpus: float | None, names: Sequence[tuple[str, float]]) -> Check:
    """CPUs that others used during the trial, and who they were where they lived through it."""
    name = "other processes"
    if cpus is None:
        return Check(name, "unknown", "there was no trial during which to look")
    found = f"{cpus:.1f} CPUs during the trial"
    who = ", ".join(f"{process} {used:.1f}" for process, used in names[:3])
    if cpus < BUSY_CPUS:
        return Check(name, "ok", found)
    return Check(
        name,
        "warn",
        found + (f" ({who})" if who else ""),
        "Stop them, or measure when they are done; `ab` suffers less, as both sides meet them.",
    )


def steal(cpus: float | None, count: int, root: Path = ROOT) -> Check:
    """`cpus`: taken away by the hypervisor during the trial, of `count`."""
    name = "steal"
    fields = (_read(root / "proc/stat") or "").partition("\n")[0].split()
    if cpus is None or len(fields) < 9:
        return Check(name, "unknown", "there was no trial" if cpus is None else "this kernel does not count it")
    share = cpus / count
    found = f"{100 * share:.1f} % of the CPU time during the trial"
    if share < STEAL[0]:
        return Check(name, "ok", found)
    return Check(
        name,
        "warn" if share < STEAL[1] else "bad",
        f"{found}: other virtual machines use these cores",
        "Take a machine with dedicated cores, or another hour; compare by `ab`.",
    )


def throttling(count: int | None) -> Check:
    """How often the kernel or the processor held the trial back."""
    name = "throttling"
    if count is None:
        return Check(name, "unknown", "there was no trial during which to look")
    if count == 0:
        return Check(name, "ok", "none during the trial")
    return Check(
        name,
        "bad",
        f"{many(count, 'time')} during the trial, by a CPU limit or by heat",
        "Raise the container's CPU limit or use fewer threads; let the machine cool down.",
    )


def spinning(threads: int, cpus: int, others: float | None, environment: Mapping[str, str] = os.environ) -> Check:
    """Threads wait for one another by spinning, which costs much when one of them has no CPU. `others`: their CPUs."""
    name = "thread spinning"
    if threads == 1:
        return Check(name, "ok", "one thread waits for nobody")
    passive = environment.get("OMP_WAIT_POLICY", "").lower() == "passive"
    passive = passive or environment.get("GOMP_SPINCOUNT") == "0" or environment.get("KMP_BLOCKTIME") == "0"
    if passive:
        return Check(
            name, "ok", "off: threads sleep while they wait, so calls are a little slower than with the default"
        )
    if threads + (others or 0.0) > cpus + SPIN_FREE:
        fewer = max(1, int(cpus - (others or 0.0)))
        return Check(
            name,
            "warn",
            f"{many(threads, 'thread')} spin while others need their CPUs: calls take many times longer",
            f"Use --threads {fewer}, or set OMP_WAIT_POLICY=passive for all runs that are compared.",
        )
    return Check(name, "ok", f"on, with a CPU for each of {many(threads, 'thread')}")


def inter_thread_latency(seconds: Sequence[float], threads: int) -> Check:
    """`seconds`: of every round of the trial."""
    name = "inter-thread"
    if threads == 1:
        return Check(name, "ok", "one thread, no hand-over")
    if not seconds:
        return Check(name, "unknown", "not measured")
    low, high = min(seconds) * 1e6, max(seconds) * 1e6
    if high <= FAR * low:
        return Check(name, "ok", f"latency {low:.1f}-{high:.1f} µs")
    return Check(
        name,
        "warn",
        f"latency varied between rounds ({low:.1f}-{high:.1f} µs): CPUs were busy, or vCPUs moved",
        "Measure with --threads 1 too: it does not depend on it.",
    )


def settings(environment: Mapping[str, str], recorded: Sequence[str]) -> Check:
    """Variables that change figures: an allocator, thread placement."""
    name = "environment"
    found = [variable for variable in recorded if environment.get(variable)]
    if not found:
        return Check(name, "ok", "no variable set that changes figures")
    return Check(
        name,
        "ok",
        f"set: {', '.join(f'{variable}={environment[variable]}' for variable in found)}",
        "Keep them equal in all runs that are compared; runs record them.",
    )


def disk(folder: Path) -> Check:
    """Room where runs are written."""
    name = "disk"
    place = next((place for place in (folder.absolute(), *folder.absolute().parents) if place.is_dir()), folder)
    try:
        free = shutil.disk_usage(place).free
    except OSError as error:
        return Check(name, "unknown", f"{folder}: {error.strerror}", "Choose another folder with --logdir.")
    found = f"{bytes_text(free)} free for {folder}"
    if free >= LITTLE_DISK[0]:
        return Check(name, "ok", found)
    status: Status = "warn" if free >= LITTLE_DISK[1] else "bad"
    return Check(name, status, found, "Make room, or choose another folder with --logdir.")


def gpus(found: Sequence[Gpu], states: Sequence[Sequence[str]]) -> list[Check]:
    """`found`: as the environment tells; `states`: the rows of GPU_QUERY. The trial itself runs on the CPU."""
    if not found:
        return [Check("GPU", "ok", "no GPU (none that nvidia-smi shows)")]
    checks = []
    for number, gpu in enumerate(found):
        state = states[number] if number < len(states) else []
        checks.append(_gpu(f"GPU {number}" if len(found) > 1 else "GPU", gpu, state))
    return checks


def _gpu(name: str, gpu: Gpu, state: Sequence[str]) -> Check:
    if len(state) < 4:
        return Check(name, "unknown", f"{gpu.name}: nvidia-smi does not tell its state")
    persistence, clock, highest, reasons = state[:4]
    problems, advice = [], []
    if gpu.processes:
        problems.append(f"{gpu.processes} other process(es) use it")
        advice.append("Wait until they are done, or choose another with --device cuda:N.")
    slowed = _throttled_by(reasons)
    if slowed:
        problems.append(f"throttled by {slowed}")
        advice.append("Let it cool down, or raise its power limit.")
    if persistence != "Enabled":
        problems.append("persistence mode is off")
        advice.append("Switch it on: `sudo nvidia-smi -pm 1`.")
    if gpu.mig == "Enabled":
        problems.append("it is cut into parts that share its memory bandwidth and power (MIG)")
        advice.append("Measure on a whole one, or say which part the figures are of.")
    clocks = f"{gpu.name}, {clock} of {highest} now"
    if problems:
        return Check(name, "warn", f"{clocks}: {', '.join(problems)}", " ".join(advice))
    return Check(name, "ok", clocks, "For figures that repeat, fix the clock: `sudo nvidia-smi -lgc MHZ`.")


def _throttled_by(reasons: str) -> str:
    try:
        bits = int(reasons, 16)
    except ValueError:
        return ""
    return " and ".join(dict.fromkeys(name for bit, name in GPU_THROTTLING.items() if bits & bit))


def _each_cpu(root: Path, file: str) -> list[str | None]:
    return [_read(folder / file) for folder in sorted((root / CPUS).glob("cpu[0-9]*"))]


def _numbers(root: Path, file: str) -> list[int]:
    return [int(text) for text in _each_cpu(root, file) if text and text.isdigit()]


def _read(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return None
