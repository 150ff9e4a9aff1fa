"""One check per function: what a file or a counter says -> status, what was found, what to do about it, if anything.

Files are read below a `root` that tests replace; what cannot be read is `unknown`, with the reason, and never guessed.
"""

from __future__ import annotations

import functools
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, ParamSpec

from profiler import sandbox
from profiler.conditions.gpu_settings import remarks_on_gpu, remarks_on_torch
from profiler.environment import cgroups, read_text
from profiler.execution.record import BUSY
from profiler.measure.reference import FAR
from profiler.results.types import Gpu
from profiler.units import GB, bytes_text, many

Status = Literal["ok", "warn", "bad", "unknown"]
Finding = tuple[Status, str] | tuple[Status, str, str]
P = ParamSpec("P")
ROOT = Path("/")
CPUS = "sys/devices/system/cpu"

NO_CPUFREQ = "not shown here, as is usual in a virtual machine"
NOT_SHOWN = "not shown by this system"
NO_TRIAL = "there was no trial during which to look"
BUSY_CPUS = 0.1  # a tenth of a CPU: less is what an idle machine does
STEAL = (0.01, 0.1)  # of the CPU time: from 1 % it shows in figures, from 10 % it rules them
SPIN_FREE = 0.25  # CPUs: with less of one missing, threads that spin do not wait long for one another
LITTLE_MEMORY = (4 * GB, 1 * GB)  # a large wav2vec 2.0 takes 1.3 GB of weights, and about as much again per short cell
LITTLE_DISK = (2 * GB, 0.2 * GB)  # a default run with traces takes some hundred MB
SLOW_CLOCKS = ("hpet", "acpi_pm", "jiffies", "xen")  # a reading takes a microsecond and more, or a system call


@dataclass(frozen=True)
class Check:
    """A line of the answer. `advice` is empty where there is nothing to do."""

    name: str
    status: Status
    found: str
    advice: str = ""


def _check(name: str) -> Callable[[Callable[P, Finding]], Callable[P, Check]]:
    def named(look: Callable[P, Finding]) -> Callable[P, Check]:
        @functools.wraps(look)
        def check(*arguments: P.args, **more: P.kwargs) -> Check:
            return Check(name, *look(*arguments, **more))

        return check

    return named


@_check("sandbox")
def untrusted_models() -> Finding:
    """Whether models that are not trusted run in a sandbox; what it says has no effect on figures."""
    found = sandbox.state(trust=False)
    if found.in_force:
        listed = ", ".join(found.restricts)
        return "ok", f"Landlock {found.landlock} restricts models that run without --trust: {listed}"
    return "unknown", f"none: {found.reason}", "TorchScript files need --trust here."


@_check("governor")
def governor(root: Path = ROOT) -> Finding:
    found = sorted({text for text in _each_cpu(root, "cpufreq/scaling_governor") if text})
    if not found:
        return "unknown", NO_CPUFREQ
    if found == ["performance"]:
        return "ok", "performance"
    changing = f"{', '.join(found)}: the clock changes with load"
    return "warn", changing, "Set it with `sudo cpupower frequency-set -g performance`."


@_check("CPU frequency")
def frequency(root: Path = ROOT) -> Finding:
    """Whether the clock is capped below what the processor can do."""
    limits, possible = _numbers(root, "cpufreq/scaling_max_freq"), _numbers(root, "cpufreq/cpuinfo_max_freq")
    if not limits or not possible:
        return "unknown", NO_CPUFREQ
    if min(limits) >= min(possible):
        return "ok", f"up to {max(limits) / 1e6:.2f} GHz"
    capped = f"capped at {min(limits) / 1e6:.2f} of {min(possible) / 1e6:.2f} GHz"
    return "warn", capped, "Fine if meant: it steadies figures. Else lift it with `sudo cpupower frequency-set -u MAX`."


@_check("turbo")
def turbo(root: Path = ROOT) -> Finding:
    intel, others = root / CPUS / "intel_pstate/no_turbo", root / CPUS / "cpufreq/boost"
    intel_off, boost = read_text(intel), read_text(others)
    if intel_off is None and boost is None:
        return "unknown", NO_CPUFREQ
    on = intel_off == "0" if intel_off is not None else boost == "1"
    if not on:
        return "ok", "off"
    value, file = (1, intel) if intel_off is not None else (0, others)
    command = f"echo {value} | sudo tee /{file.relative_to(root)}"
    advice = f"For figures that repeat, switch it off: `{command}`."
    return "warn", "on: the clock depends on heat and on how many cores work", advice


@_check("clock source")
def clock_source(root: Path = ROOT) -> Finding:
    found = read_text(root / "sys/devices/system/clocksource/clocksource0/current_clocksource")
    if found is None:
        return "unknown", NOT_SHOWN
    if found not in SLOW_CLOCKS:
        return "ok", found
    slow = f"{found}: reading the clock is slow, which short calls show"
    return "warn", slow, "Boot with `clocksource=tsc` where the processor has a stable one."


@_check("huge pages")
def huge_pages(root: Path = ROOT) -> Finding:
    text = read_text(root / "sys/kernel/mm/transparent_hugepage/enabled") or ""
    found = text.partition("[")[2].partition("]")[0]
    if not found:
        return "unknown", NOT_SHOWN
    if found != "always":
        return "ok", found
    advice = "Nothing, unless rounds differ much; then choose `madvise`."
    return "ok", "always: one run may get huge pages where the next does not", advice


@_check("hyperthreading")
def hyperthreading(threads: int, cpus: Sequence[int], root: Path = ROOT) -> Finding:
    """Physical cores among the CPUs that may be used, against the threads."""
    siblings = {cpu: read_text(root / CPUS / f"cpu{cpu}/topology/thread_siblings_list") for cpu in cpus}
    if not all(siblings.values()):
        return "unknown", "the cores' topology is not shown by this system"
    cores = len(set(siblings.values()))
    if cores == len(cpus):
        return "ok", f"{many(cores, 'core')}, one CPU each, as far as the system shows"
    if threads <= cores:
        return "ok", f"{many(cores, 'physical core')} for {many(threads, 'thread')}"
    shared = f"{many(threads, 'thread')} on {many(cores, 'physical core')}: two share a core"
    return "warn", shared, f"Use --threads {cores}, or fewer."


@_check("CPU affinity")
def affinity(threads: int, cpus: Sequence[int], machine: int) -> Finding:
    """`machine`: the CPUs of the whole machine."""
    if threads > len(cpus):
        few = f"{many(threads, 'thread')} on {many(len(cpus), 'CPU')}: threads wait for one another"
        return "bad", few, f"Use --threads {len(cpus)}, or fewer."
    if len(cpus) < machine:
        return "ok", f"{len(cpus)} of the machine's {machine} CPUs may be used"
    return "ok", f"all {many(machine, 'CPU')}"


@_check("CPU limit")
def cpu_limit(threads: int, root: Path = ROOT) -> Finding:
    """The CPU quota of the container or service, cgroup version 2 or 1."""
    if read_text(root / "proc/self/cgroup") is None:
        return "unknown", "this system has no cgroups"
    quota = cpu_quota(root)
    if quota is None:
        return "ok", "none"
    found = f"{quota:g} CPUs by cgroup"
    if quota >= threads:
        return "ok", found
    advice = f"Use --threads {max(1, int(quota))}, or raise the limit (docker: --cpus, SLURM: -c)."
    return "bad", f"{found} for {many(threads, 'thread')}: they are stopped for part of each period", advice


def cpu_quota(root: Path = ROOT) -> float | None:
    """CPUs that the tightest cgroup over this process allows; None without a limit."""
    return min(filter(None, map(_quota, cgroups("cpu", root / "proc", root / "sys"))), default=None)


def _quota(folder: Path) -> float | None:
    text = read_text(folder / "cpu.max")
    quota, period = text.split() if text else (read_text(folder / f"cpu.cfs_{name}_us") for name in ("quota", "period"))
    try:
        return int(quota or "") / int(period or "") if int(quota or "") > 0 else None
    except (ValueError, ZeroDivisionError):  # "max", or no such file
        return None


@_check("memory")
def memory(available: int, total: int, limit: int | None) -> Finding:
    within = f", limited to {bytes_text(limit)} by the container" if limit is not None else ""
    found = f"{bytes_text(available)} available of {bytes_text(total)}{within}"
    advice = "Close programs or raise the limit: large cells will be skipped, and the system may swap."
    return _enough(available, LITTLE_MEMORY, found, advice)


def _enough(there: float, little: tuple[float, float], found: str, advice: str) -> Finding:
    if there >= little[0]:
        return "ok", found
    return "warn" if there >= little[1] else "bad", found, advice


@_check("swap")
def swapping(before: int | None, after: int | None) -> Finding:
    """`before`, `after`: pages moved to or from swap since boot, around the trial."""
    if before is None or after is None:
        return "unknown", "the system does not show it"
    if after <= before:
        return "ok", "no page moved during the trial"
    advice = "Close what takes memory: a call that waits for a disk says nothing of the model."
    return "bad", f"{many(after - before, 'page')} moved during the trial", advice


def swapped_pages(root: Path = ROOT) -> int | None:
    """Pages moved to or from swap since boot."""
    lines = (read_text(root / "proc/vmstat") or "").splitlines()
    facts = dict(line.split(maxsplit=1) for line in lines if " " in line)
    try:
        return int(facts["pswpin"]) + int(facts["pswpout"])
    except (KeyError, ValueError):
        return None


@_check("load")
def load(average: float, cpus: int) -> Finding:
    found = f"{average:.1f} in the last minute on {many(cpus, 'CPU')}"
    if average <= BUSY * cpus:
        return "ok", found
    return "warn", found, "Wait for what runs, or stop it; the processes are named below if they go on."


@_check("other processes")
def other_processes(cpus: float | None, names: Sequence[tuple[str, float]]) -> Finding:
    """CPUs that others used during the trial, and who they were where they lived through it."""
    if cpus is None:
        return "unknown", NO_TRIAL
    found = f"{cpus:.1f} CPUs during the trial"
    if cpus < BUSY_CPUS:
        return "ok", found
    who = ", ".join(f"{process} {used:.1f}" for process, used in names[:3])
    advice = "Stop them, or measure when they are done; `ab` suffers less, as both sides meet them."
    return "warn", found + (f" ({who})" if who else ""), advice


@_check("steal")
def steal(cpus: float | None, count: int, root: Path = ROOT) -> Finding:
    """`cpus`: taken away by the hypervisor during the trial, of `count`."""
    fields = (read_text(root / "proc/stat") or "").partition("\n")[0].split()
    if cpus is None or len(fields) < 9:
        return "unknown", "there was no trial" if cpus is None else "this kernel does not count it"
    share = cpus / count
    found = f"{100 * share:.1f} % of the CPU time during the trial"
    if share < STEAL[0]:
        return "ok", found
    advice = "Take a machine with dedicated cores, or another hour; compare by `ab`."
    return "warn" if share < STEAL[1] else "bad", f"{found}: other virtual machines use these cores", advice


@_check("throttling")
def throttling(count: int | None) -> Finding:
    """How often the kernel or the processor held the trial back."""
    if count is None:
        return "unknown", NO_TRIAL
    if count == 0:
        return "ok", "none during the trial"
    advice = "Raise the container's CPU limit or use fewer threads; let the machine cool down."
    return "bad", f"{many(count, 'time')} during the trial, by a CPU limit or by heat", advice


@_check("thread spinning")
def spinning(threads: int, cpus: int, others: float | None, environment: Mapping[str, str] = os.environ) -> Finding:
    """Threads wait for one another by spinning, which costs much when one of them has no CPU. `others`: their CPUs."""
    if threads == 1:
        return "ok", "one thread waits for nobody"
    passive = environment.get("OMP_WAIT_POLICY", "").lower() == "passive"
    if passive or environment.get("GOMP_SPINCOUNT") == "0" or environment.get("KMP_BLOCKTIME") == "0":
        return "ok", "off: threads sleep while they wait, so calls are a little slower than with the default"
    if threads + (others or 0.0) <= cpus + SPIN_FREE:
        return "ok", f"on, with a CPU for each of {many(threads, 'thread')}"
    fewer = max(1, int(cpus - (others or 0.0)))
    advice = f"Use --threads {fewer}, or set OMP_WAIT_POLICY=passive for all runs that are compared."
    return "warn", f"{many(threads, 'thread')} spin while others need their CPUs: calls take many times longer", advice


@_check("inter-thread")
def inter_thread_latency(seconds: Sequence[float], threads: int) -> Finding:
    """`seconds`: of every round of the trial."""
    if threads == 1:
        return "ok", "one thread, no hand-over"
    if not seconds:
        return "unknown", "not measured"
    low, high = min(seconds) * 1e6, max(seconds) * 1e6
    if high <= FAR * low:
        return "ok", f"latency {low:.1f}-{high:.1f} µs"
    varied = f"latency varied between rounds ({low:.1f}-{high:.1f} µs): CPUs were busy, or vCPUs moved"
    return "warn", varied, "Measure with --threads 1 too: it does not depend on it."


@_check("environment")
def settings(environment: Mapping[str, str], recorded: Sequence[str]) -> Finding:
    """Variables that change figures: an allocator, thread placement."""
    found = [f"{variable}={environment[variable]}" for variable in recorded if environment.get(variable)]
    if not found:
        return "ok", "no variable set that changes figures"
    return "ok", f"set: {', '.join(found)}", "Keep them equal in all runs that are compared; runs record them."


@_check("disk")
def disk(folder: Path) -> Finding:
    """Room where runs are written."""
    place = next((place for place in (folder.absolute(), *folder.absolute().parents) if place.is_dir()), folder)
    try:
        free = shutil.disk_usage(place).free
    except OSError as error:
        return "unknown", f"{folder}: {error.strerror}", "Choose another folder with --logdir."
    advice = "Make room, or choose another folder with --logdir."
    return _enough(free, LITTLE_DISK, f"{bytes_text(free)} free for {folder}", advice)


def gpus(found: Sequence[Gpu]) -> list[Check]:
    """As nvidia-smi and NVML tell. The trial itself runs on the CPU."""
    if not found:
        return [Check("GPU", "ok", "no GPU (none that nvidia-smi shows)")]
    return [_gpu(f"GPU {number}" if len(found) > 1 else "GPU", gpu) for number, gpu in enumerate(found)]


def _gpu(name: str, gpu: Gpu) -> Check:
    if gpu.clock is None:
        return Check(name, "unknown", f"{gpu.name}: nvidia-smi does not tell its state")
    remarks = remarks_on_gpu(gpu)
    heat = f", {gpu.temperature} °C" if gpu.temperature else ""
    state = f"{gpu.name}, {gpu.clock} of {gpu.highest_clock} now{heat}"
    if not remarks:
        return Check(name, "ok", state, "For figures that repeat, fix the clock: `sudo nvidia-smi -lgc MHZ`.")
    found = ", ".join(remark.found for remark in remarks)
    return Check(name, "warn", f"{state}: {found}", " ".join(remark.advice for remark in remarks))


def torch_on_gpu(flags: Mapping[str, str] | None, compute: str | None, environment: Mapping[str, str]) -> Check:
    """What torch is set to by itself and by variables; a model's code may set it otherwise, which its run says."""
    name = "torch on the GPU"
    if not flags:
        return Check(name, "unknown", "torch does not tell its settings", "`--device cuda` says what is missing.")
    library = next(iter(flags))
    built = f"{library} {flags[library]}, cuDNN {flags['cudnn']}"
    remarks = remarks_on_torch(flags, compute, environment)
    status: Status = "warn" if any(remark.weighs for remark in remarks) else "ok"
    found = "; ".join([built, *(remark.found for remark in remarks)])
    return Check(name, status, found, " ".join(remark.advice for remark in remarks))


def _each_cpu(root: Path, file: str) -> list[str | None]:
    return [read_text(folder / file) for folder in sorted((root / CPUS).glob("cpu[0-9]*"))]


def _numbers(root: Path, file: str) -> list[int]:
    return [int(text) for text in _each_cpu(root, file) if text and text.isdigit()]
