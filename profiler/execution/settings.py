"""What we fix for every worker of a run, so that all cells run alike: threads, hashing, libraries' habits."""

from __future__ import annotations

import os
from pathlib import Path

FIXED = {
    "PYTHONHASHSEED": "0",
    "TOKENIZERS_PARALLELISM": "false",  # its threads would not survive a fork
    "TRANSFORMERS_VERBOSITY": "error",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "KINETO_LOG_LEVEL": "5",
    "PYTHONUNBUFFERED": "1",
}
# Set by the user these change figures; they are passed on as they are and recorded.
RECORDED = (
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
    "OMP_WAIT_POLICY",
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY",
    "PYTORCH_CUDA_ALLOC_CONF",
)


def worker_environment(threads: int) -> dict[str, str]:
    """The environment of a worker process."""
    environment = dict(os.environ)
    environment.update(FIXED)
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        environment[name] = str(threads)
    # The worker finds this very package, installed or not.
    root = str(Path(__file__).resolve().parents[2])
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [root, environment.get("PYTHONPATH")]))
    return environment


def recorded_settings(threads: int) -> dict[str, object]:
    """What goes into results.json about how workers run."""
    return {
        "threads": threads,
        "affinity": allowed_cpus(),
        "environment": {name: os.environ[name] for name in RECORDED if name in os.environ},
    }


def allowed_cpus() -> list[int]:
    """The CPUs this process may use; workers inherit them."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))
