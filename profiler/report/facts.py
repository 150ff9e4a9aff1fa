"""The machine that a run was made on, and how it was measured, as lines for a reader."""

from __future__ import annotations

from typing import Any

from profiler.results.statistics import INTERVAL_NEEDS
from profiler.results.types import Results
from profiler.units import bytes_text, many, significant


def environment_facts(results: Results) -> list[tuple[str, str]]:
    """Name and text; what is not known is left out."""
    here = results.environment
    limit = here.get("memory_limit_bytes")
    memory = bytes_text(here["memory_bytes"]) if here.get("memory_bytes") else None
    facts: list[tuple[str, Any]] = [
        ("host", here.get("host")),
        ("processor", here.get("cpu")),
        ("cores", _cores(here)),
        ("threads", _threads(results)),
        ("device", here.get("device")),
        *(
            ("GPU", ", ".join(str(gpu[key]) for key in ("name", "memory", "driver") if gpu.get(key)))
            for gpu in _gpus(here)
        ),
        ("memory", f"{memory}, of which {bytes_text(limit)} may be used" if memory and limit else memory),
        ("system", here.get("os")),
        ("Python", here.get("python")),
        ("torch", (here.get("packages") or {}).get("torch")),
        ("profiler", _profiler(here.get("profiler") or {})),
        ("load at the start and the end", _load(here)),
        ("CPU governor", here.get("governor")),
        ("reference workload", _reference(here)),
    ]
    return [(name, str(text)) for name, text in facts if text]


def method(results: Results) -> list[str]:
    """How the figures came about, with the settings of this run."""
    measure = results.run.resolved.get("measure")
    if not measure:
        return []
    rounds, warmup, least = (measure.get(name) for name in ("rounds", "warmup", "min_calls"))
    more = (
        f" Cells whose 95 % CI was wider than ±{measure.get('width', 0):.1%} got more rounds, up to "
        f"{measure.get('budget'):g} s of timing per cell."
        if rounds >= INTERVAL_NEEDS
        else ""
    )
    return [
        f"Each cell was timed in {many(rounds, 'round')}{' or more' if more else ''}, each in a process of its own, "
        f"with the cells in shuffled order: {many(warmup, 'call')} to warm up, then {least} to "
        f"{measure.get('max_calls')} timed ones.{more}",
        "Memory, energy, operations, the breakdown and traces were taken in passes of their own, so that no instrument "
        "was at work while time was measured. The figure is the median over rounds of the rounds' medians; its 95 % CI "
        "comes from order statistics over rounds. The raw samples are in `results.json`.",
    ]


def _cores(here: dict[str, Any]) -> str | None:
    cores, physical = here.get("cores"), here.get("physical_cores")
    return f"{cores} ({physical} physical)" if cores and physical else str(cores or "") or None


def _threads(results: Results) -> str | None:
    settings = results.environment.get("settings") or {}
    counts = {name: setting.get("threads") for name, setting in settings.items()}
    if len(set(counts.values())) > 1:
        return ", ".join(f"{name}: {count}" for name, count in counts.items())
    return str(results.environment.get("threads") or "") or None


def _gpus(here: dict[str, Any]) -> list[dict[str, Any]]:
    return [gpu for gpu in here.get("gpu") or [] if isinstance(gpu, dict)]


def _profiler(found: dict[str, Any]) -> str | None:
    if not found.get("version"):
        return None
    commit = f", commit {found['commit'][:12]}" if found.get("commit") else ""
    return f"{found['version']}{commit}{', with changes' if found.get('modified') else ''}"


def _load(here: dict[str, Any]) -> str | None:
    start, end = here.get("load"), (here.get("at_end") or {}).get("load")
    return ", ".join(f"{load[0]:.2f}" for load in (start, end) if load) or None


def _reference(here: dict[str, Any]) -> str | None:
    """A matrix multiply and a copy: the machine's peak, and whether it changed."""
    found = [here.get(name) for name in ("reference", "reference_at_end")]
    return (
        ", ".join(
            f"{significant(each['gflops'], 3)} GFLOP/s and {significant(each['gb_per_s'], 3)} GB/s at the {when}"
            for each, when in zip(found, ("start", "end"), strict=True)
            if each
        )
        or None
    )
