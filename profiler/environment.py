"""What machine this is and in what state, recorded with every run; and what we fix for its workers. Needs no torch.

Everything is read, nothing guessed: what cannot be read here is null.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import os
import platform
import re
import resource
import socket
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil

from profiler import __version__
from profiler.git import repository
from profiler.results.types import Commit, Environment, Gpu, MachineState, WorkerSettings
from profiler.shipped import shipped_folder

SYS = Path("/sys")
PROC = Path("/proc")
# Fixed for every worker of a run, so that all cells run alike: hashing, habits of libraries; and threads, below.
FIXED = {
    "PYTHONHASHSEED": "0",
    "TOKENIZERS_PARALLELISM": "false",  # its threads would not survive a fork
    "TRANSFORMERS_VERBOSITY": "error",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "KINETO_LOG_LEVEL": "6",  # nothing; 5 leaves a line at each start and stop of torch's profiler, as of torch 2.13
    "PYTHONUNBUFFERED": "1",
}
# Set by the user these change figures; they are passed on as they are and recorded.
WAIT_POLICY = "OMP_WAIT_POLICY"
RECORDED = [
    "LD_PRELOAD",
    "MALLOC_ARENA_MAX",
    "MALLOC_MMAP_THRESHOLD_",
    "MALLOC_TRIM_THRESHOLD_",
    "MALLOC_TOP_PAD_",
    "GLIBC_TUNABLES",
    "KMP_AFFINITY",
    "KMP_BLOCKTIME",
    "OMP_PROC_BIND",
    "OMP_PLACES",
    WAIT_POLICY,
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_NO_CUDA_MEMORY_CACHING",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_LAUNCH_BLOCKING",
    "NVIDIA_TF32_OVERRIDE",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
]
MEMORY_FILES = (  # of a cgroup of version 2, and of version 1
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
LIBRARIES = ("torch", "torchaudio", "speechbrain", "transformers", "numpy", "espnet")


def read_environment() -> Environment:
    """All that is recorded about the machine at the start of a run, but for the reference workload."""
    return Environment(
        host=socket.gethostname(),
        cpu=cpu_name(),
        cores=len(allowed_cpus()),
        physical_cores=psutil.cpu_count(logical=False),
        memory_bytes=psutil.virtual_memory().total,
        memory_available_bytes=available_memory(),
        memory_limit_bytes=memory_limit(),
        gpu=read_gpus(),
        os=platform.platform(),
        python=platform.python_version(),
        packages=read_packages(),
        profiler=read_commit(shipped_folder()).model_copy(update={"version": __version__}),
        **dict(read_state()),
    )


def read_state() -> MachineState:
    """What changes while a run goes on."""
    frequency = psutil.cpu_freq()
    sensors: Mapping[str, Any] = getattr(psutil, "sensors_temperatures", dict)()
    temperatures = [found.current for readings in sensors.values() for found in readings if found.current]
    return MachineState(
        load=os.getloadavg(),
        governor=read_text(SYS / "devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        frequency_mhz=round(frequency.current, 1) if frequency and frequency.current else None,
        temperature_c=max(temperatures, default=None),
        steal_s=getattr(psutil.cpu_times(), "steal", None),
    )


def cpu_name() -> str | None:
    facts: dict[str, str] = {}
    for line in (read_text(PROC / "cpuinfo") or "").splitlines():
        name, _, value = line.partition(":")
        facts.setdefault(name.strip().lower(), value.strip())
    # ARM boards name the board or the chip, not the processor.
    return next((facts[name] for name in ("model name", "hardware", "model") if facts.get(name)), platform.processor())


def available_memory() -> int:
    """Bytes a new process could take now: what the kernel calls available, within cgroup and process limits."""
    cgroup = _cgroup_room()
    # The limit of a process holds for each process alone, and a cell has one of its own.
    rooms = (psutil.virtual_memory().available, cgroup[1] if cgroup else None, _process_limit())
    return int(max(0, min(room for room in rooms if room is not None)))


def memory_limit() -> int | None:
    """The tightest limit below the machine's memory: cgroup or address space; None where there is none."""
    cgroup = _cgroup_room()
    limits = [value for value in (cgroup[0] if cgroup else None, _process_limit()) if value is not None]
    return min((value for value in limits if value < psutil.virtual_memory().total), default=None)


def _process_limit() -> int | None:
    soft = [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA)]
    return min((value for value in soft if value != resource.RLIM_INFINITY), default=None)


def _cgroup_room() -> tuple[int, int] | None:
    """(limit, room left) of the tightest memory cgroup over this process; None without a limit."""
    rooms = []
    for place in cgroups("memory", PROC, SYS):
        for limit_file, usage_file, cache in MEMORY_FILES:
            if (limit := _number(place / limit_file)) is not None:
                # File cache that nobody reads counts as used, but the kernel gives it up when asked.
                used = (_number(place / usage_file) or 0) - _stat(place / "memory.stat", cache)
                rooms.append((limit, limit - max(0, used)))
    return (min(limit for limit, _ in rooms), min(room for _, room in rooms)) if rooms else None


def cgroups(controller: str, proc: Path, system: Path) -> Iterator[Path]:
    """The folders of the cgroups over this process that have this controller, its own first; version 2 or 1."""
    for line in (read_text(proc / "self/cgroup") or "").splitlines():
        _, controllers, path = line.split(":", 2)
        root = system / "fs/cgroup"
        if controllers:
            if controller not in controllers.split(","):
                continue
            root = next((root / name for name in (controllers, controller) if (root / name).is_dir()), root)
        folder = root / path.lstrip("/")
        yield from (place for place in (folder, *folder.parents) if place.is_relative_to(root))


def _number(path: Path) -> int | None:
    text = read_text(path)
    return int(text) if text and text.isdigit() else None


def _stat(path: Path, name: str) -> int:
    found = re.search(rf"(?m)^{name} (\d+)", read_text(path) or "")
    return int(found[1]) if found else 0


def throttle_counts() -> int:
    """How often the kernel or the processor held this process back so far; only differences mean something."""
    by_limit = [_stat(SYS / "fs/cgroup" / folder / "cpu.stat", "nr_throttled") for folder in ("", "cpu")]
    return max(by_limit) + sum(int(read_text(file) or 0) for file in _throttle_files(SYS))


@functools.cache
def _throttle_files(system: Path) -> list[Path]:
    """One for each core, where the processor counts."""
    return list((system / "devices/system/cpu").glob("cpu*/thermal_throttle/core_throttle_count"))


# Fields of a Gpu, and what nvidia-smi calls them.
GPU_STATE = {
    "clock": "clocks.sm",
    "highest_clock": "clocks.max.sm",
    "power_limit": "power.limit",
    "default_power_limit": "power.default_limit",
    "temperature": "temperature.gpu",
    "throttle_reasons": "clocks_throttle_reasons.active",
    "mig": "mig.mode.current",
    "persistence": "persistence_mode",
}


def read_gpus() -> list[Gpu]:
    """NVIDIA GPUs, their driver, their state and who else uses them, as nvidia-smi tells."""
    gpus = [
        Gpu(**dict(zip(("name", "driver", "memory", "uuid"), row, strict=False)))
        for row in nvidia_smi("--query-gpu=name,driver_version,memory.total,gpu_uuid")
    ]
    processes = nvidia_smi("--query-compute-apps=gpu_uuid,pid,used_memory")
    fields = ",".join(GPU_STATE.values())
    # Drivers of 2023 and later call it an event; the old name may go.
    asked = (nvidia_smi(f"--query-gpu=gpu_uuid,{each}") for each in (fields, fields.replace("throttle", "event")))
    states = {row[0]: row[1:] for row in next(filter(None, asked), []) if row}
    for gpu in gpus:
        gpu.processes = sum(1 for row in processes if row and row[0] == gpu.uuid)
        for field, value in zip(GPU_STATE, states.get(gpu.uuid or "", []), strict=False):
            setattr(gpu, field, value)
    return gpus


def nvidia_smi(query: str) -> list[list[str]]:
    """The rows that nvidia-smi answers to a query, cut in values; none where it fails."""
    try:
        answer = subprocess.run(
            ["nvidia-smi", query, "--format=csv,noheader"], capture_output=True, text=True, timeout=5, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return [[part.strip() for part in line.split(",")] for line in answer.stdout.splitlines() if line.strip()]


@functools.cache
def read_packages() -> dict[str, str]:
    """Every installed distribution with its version. Read once: a process goes on with what it has imported."""
    about = [found.metadata for found in importlib.metadata.distributions()]
    found = {each["Name"]: each["Version"] for each in about}
    return {name: found[name] for name in sorted(filter(None, found), key=str.lower)}


def versions() -> dict[str, str]:
    """Of this interpreter and of the libraries that decide how fast a model is, as far as they are installed."""
    found = {"python": platform.python_version()}
    for name in LIBRARIES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def read_commit(folder: Path) -> Commit:
    """The project's commit and whether files differ from it; empty outside a checkout."""
    return (read_repository(folder) if (folder / ".git").exists() else None) or Commit()


def read_repository(folder: Path) -> Commit | None:
    """The commit of the git repository that a folder lies in, when it was made, and whether files differ from it.

    None outside of one, and where git is missing or refuses: a run does not depend on it.
    """
    with repository(folder) as found:
        if found is None:
            return None
        try:
            commit, committed = found.ask("log", "-1", "--format=%H %cI").split()
            changed = found.ask("status", "--porcelain", "-uno", "--ignore-submodules=all")
        except (OSError, ValueError, subprocess.SubprocessError):
            return None
    return Commit(commit=commit, committed=committed, modified=bool(changed))


def read_text(path: Path) -> str | None:
    """What a file of the system says; None where it cannot be read."""
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return None


def worker_environment(threads: int, trust: bool = False, waiting_sleep: bool = False) -> dict[str, str]:
    """The environment of a worker process. Without `trust` no entry of PYTHONPATH stands for the current folder.
    `waiting_sleep`: threads of torch that wait for others do not spin, unless the user has them do so."""
    environment = dict(os.environ)
    environment.update(FIXED)
    if waiting_sleep:
        environment.setdefault(WAIT_POLICY, "passive")
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        environment[name] = str(threads)
    environment["PYTHONPATH"] = search_path(environment.get("PYTHONPATH", ""), trust)
    return environment


def search_path(given: str, trust: bool = False) -> str:
    """PYTHONPATH of a process that finds this very package, installed or not."""
    root = str(Path(__file__).resolve().parents[1])
    kept = [entry for entry in given.split(os.pathsep) if entry and (trust or Path(entry).is_absolute())]
    return os.pathsep.join([root, *kept])


def recorded_settings(threads: int, waiting_sleep: bool = False) -> WorkerSettings:
    """What goes into results.json about how workers run."""
    environment = worker_environment(threads, waiting_sleep=waiting_sleep)
    return WorkerSettings(
        threads=threads,
        affinity=allowed_cpus(),
        environment={name: environment[name] for name in RECORDED if name in environment},
    )


def allowed_cpus() -> list[int]:
    """The CPUs this process may use; workers inherit them."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))
