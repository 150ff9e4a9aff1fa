"""What a run is of, the machine that it was made on, and how it was measured, as lines for a reader."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from profiler.measure.afford import LONG_SECONDS
from profiler.results.statistics import INTERVAL_NEEDS
from profiler.results.types import CellResult, Commit, Environment, Results
from profiler.units import bytes_text, many, seconds_text, significant

LONG = (
    " Where calls are long, rounds are fewer, only the first has a call to warm up, and memory is taken in these "
    "calls: `calls` and `rounds` in results.csv say how many each cell had."
)


def name_of(results: Results, variants: list[str]) -> str:
    """'facebook/wav2vec2-base-960h, float32, random weights'."""
    models = [model for model in results.models if model.variant in variants]
    sources = list(dict.fromkeys(model.source for model in models))
    weights = " and ".join(dict.fromkeys(model.weights for model in models if model.weights))
    parts = [sources[0] if len(sources) == 1 else f"{len(sources)} models"] if sources else []
    parts.append(variants[0] if len(variants) == 1 else f"{len(variants)} variants")
    parts += ["training"] * is_training(results)
    return ", ".join(parts) + (f", {weights} weights" if weights else "")


def recipe_name(results: Results) -> str:
    """'wav2vec2', of recipes/wav2vec2.yaml."""
    return Path(results.run.recipe).stem


def few_calls(cells: Iterable[CellResult], several: bool) -> str:
    """'1 timed call of 64 s (32 s x 8), 2 of 15 s (8 s x 8)': the cells whose calls were too long for more."""
    found = [
        f"{many(cell.latency_s.n, 'timed call')} of {seconds_text(cell.latency_s.median)} "
        f"({f'{cell.variant} ' * several}{cell.place})"
        for cell in sorted(cells, key=lambda cell: -cell.disturbances.get("long_calls", 0.0))
        if "long_calls" in cell.disturbances and cell.latency_s is not None
    ]
    return ", ".join(found)


def is_training(results: Results) -> bool:
    return results.run.resolved.get("mode") == "training"


def environment_facts(results: Results) -> list[tuple[str, str]]:
    """Name and text; what is not known is left out."""
    here = results.environment
    limit = here.memory_limit_bytes
    memory = bytes_text(here.memory_bytes) if here.memory_bytes else None
    facts: list[tuple[str, Any]] = [
        ("host", here.host),
        ("processor", here.cpu),
        ("cores", _cores(here)),
        ("threads", _threads(results)),
        ("device", here.device),
        *(("GPU", ", ".join(filter(None, (gpu.name, gpu.memory, gpu.driver)))) for gpu in here.gpu),
        ("memory", f"{memory}, of which {bytes_text(limit)} may be used" if memory and limit else memory),
        ("system", here.os),
        ("Python", here.python),
        ("torch", here.packages.get("torch")),
        ("profiler", _profiler(here.profiler)),
        ("load at the start and the end", _load(here)),
        ("CPU governor", here.governor),
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
    long = any((cell.latency_s.median if cell.latency_s else 0.0) >= LONG_SECONDS for cell in results.cells)
    return [
        f"Each cell was timed in {many(rounds, 'round')}{' or more' if more else ''}, each in a process of its own, "
        f"with the cells in shuffled order: {many(warmup, 'call')} to warm up, then {least} to "
        f"{measure.get('max_calls')} timed ones.{more}{LONG if long else ''}",
        "Memory, energy, operations, the breakdown and traces were taken in passes of their own, so that no instrument "
        "was at work while time was measured. The figure is the median over rounds of the rounds' medians; its 95 % CI "
        "comes from order statistics over rounds. The raw samples are in `results.json`.",
    ]


def _cores(here: Environment) -> str | None:
    cores, physical = here.cores, here.physical_cores
    return f"{cores} ({physical} physical)" if cores and physical else str(cores or "") or None


def _threads(results: Results) -> str | None:
    counts = {name: setting.threads for name, setting in results.environment.settings.items()}
    if len(set(counts.values())) > 1:
        return ", ".join(f"{name}: {count}" for name, count in counts.items())
    return str(results.environment.threads or "") or None


def _profiler(found: Commit | None) -> str | None:
    if not found or not found.version:
        return None
    commit = f", commit {found.commit[:12]}" if found.commit else ""
    return f"{found.version}{commit}{', with changes' if found.modified else ''}"


def _load(here: Environment) -> str | None:
    start, end = here.load, here.at_end.load if here.at_end else None
    return ", ".join(f"{load[0]:.2f}" for load in (start, end) if load) or None


def _reference(here: Environment) -> str | None:
    """A matrix multiply and a copy: the machine's peak, and whether it changed."""
    found = (here.reference, here.reference_at_end)
    return (
        ", ".join(
            f"{significant(each.gflops, 3)} GFLOP/s and {significant(each.gb_per_s, 3)} GB/s at the {when}"
            for each, when in zip(found, ("start", "end"), strict=True)
            if each
        )
        or None
    )
