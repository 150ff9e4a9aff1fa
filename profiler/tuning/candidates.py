"""A recipe -> the variants to try: its own, and the product of runtimes, precisions and threads.

What the schema of a variant refuses (int8 in bfloat16) is left out here; what a runtime or a model does not support is
found when it is tried, and is in the results with its reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import ValidationError

from profiler.errors import UserError, did_you_mean
from profiler.recipe.load import LoadedRecipe
from profiler.recipe.schema import Dataset, Measure, ProfilingDimensions, Recipe, Trace, Variant
from profiler.runtimes import check_installed

MOST = 100  # variants of a run, by the schema
PRECISIONS: dict[str, dict[str, Any]] = {
    "float32": {},
    "bfloat16": {"precision": "bfloat16"},
    "float16": {"precision": "float16"},
    "int8": {"quantize": "dynamic"},
    "int8-weights": {"quantize": "weight_only"},
}
USUAL = ("float32", "bfloat16", "int8")
TORCH = "torch"
SLOW = ("aot_inductor",)  # compiles for minutes: tried when asked for
# A quick look: short rounds, nothing but time and memory.
LOOK = {"warmup": 1, "min_calls": 1, "max_calls": 3, "rounds": 1, "budget": 1.0, "operations": False}
OFF: dict[str, Any] = {"breakdown": False}


@dataclass(frozen=True)
class Ranges:
    """What to make the product of; None: what is usual."""

    runtimes: Sequence[str] | None = None
    precisions: Sequence[str] | None = None
    threads: Sequence[int] | None = None
    compile: bool = False


@dataclass(frozen=True)
class Candidates:
    """The variants, of which recipe variant each is a form, and what computes the same."""

    variants: list[Variant]
    origin: dict[str, str]
    computes: dict[str, str]


def runtimes() -> list[str]:
    """Those that a variant may name."""
    return list(get_args(Variant.model_fields["runtime"].annotation))


def installed_runtimes() -> list[str]:
    """Those whose packages are there; nothing is imported."""
    return [name for name in runtimes() if name == TORCH or _is_installed(name)]


def _is_installed(name: str) -> bool:
    try:
        check_installed(name)
    except UserError:
        return False
    return True


def thread_counts(cores: int) -> list[int]:
    """1, 2, 4, ... and all."""
    return sorted({min(2**power, cores) for power in range(cores.bit_length() + 1)})


def find_candidates(recipe: Recipe, ranges: Ranges, installed: Sequence[str], cores: int, default: int) -> Candidates:
    """`installed`: runtimes; `default`: threads of a variant that names none. Raises UserError."""
    first = recipe.variants[0]
    found = Candidates([], {}, {})
    seen: set[str] = set()
    for own in recipe.variants:
        _add(found, seen, own.model_copy(update={"threads": own.threads or default}), own.name)
    settings = [
        (name, {"runtime": name} if name != TORCH else {}) for name in _chosen(ranges.runtimes, installed, "engines")
    ]
    forms = [
        (f"{runtime}-{precision}" + ("-compiled" if compiled else ""), {**how, **PRECISIONS[precision], **more})
        for runtime, how in settings
        for precision in _precisions(ranges.precisions)
        for compiled, more in ((False, {}), (True, {"compile": True}))
        if not compiled or (ranges.compile and runtime == TORCH)
    ]
    for threads in ranges.threads or thread_counts(cores):
        for name, changes in forms:
            made = _made(first, f"{name}-{threads}t", {**changes, "threads": threads})
            if made is not None:
                _add(found, seen, made, first.name)
    if len(found.variants) > MOST:
        raise UserError(
            f"There are {len(found.variants)} variants to try, and a run has at most {MOST}: name fewer with "
            "--engines, --precisions or --threads."
        )
    return found


def _made(first: Variant, name: str, changes: dict[str, Any]) -> Variant | None:
    """The first variant with other settings; None where these do not go together."""
    kept = {key: getattr(first, key) for key in ("python", "path", "set")}
    if not {"runtime", "quantize", "compile"} & set(changes):  # of torch alone
        kept |= {key: getattr(first, key) for key in ("attention", "memory_format")}
    try:
        return Variant.model_validate({"name": name, **kept, **changes})
    except ValidationError:
        return None


def _add(found: Candidates, seen: set[str], variant: Variant, origin: str) -> None:
    """Once each, whatever it is called."""
    settings = variant.model_dump(mode="json", exclude={"name", "baseline"})
    settings["precision"] = settings["precision"] or "float32"
    same = repr(sorted(settings.items()))
    if same in seen:
        return
    seen.add(same)
    name = variant.name
    while name in found.origin:
        name += "-"
    found.variants.append(variant.model_copy(update={"name": name}))
    found.origin[name] = origin
    found.computes[name] = repr(sorted((key, value) for key, value in settings.items() if key != "threads"))


def _chosen(asked: Sequence[str] | None, known: Sequence[str], option: str) -> list[str]:
    if asked is None:
        return [name for name in known if name not in SLOW]
    for name in asked:
        if name not in known:
            everything = runtimes()
            if name in everything:
                check_installed(name)
            raise UserError(f"--{option} {name}: not known.{did_you_mean(name, everything)} Known: {', '.join(known)}.")
    return list(dict.fromkeys(asked))


def _precisions(asked: Sequence[str] | None) -> list[str]:
    for name in asked or ():
        if name not in PRECISIONS:
            raise UserError(
                f"--precisions {name}: not known.{did_you_mean(name, list(PRECISIONS))} Known: {', '.join(PRECISIONS)}."
            )
    return list(dict.fromkeys(asked or USUAL))


def as_run(
    loaded: LoadedRecipe,
    candidates: Candidates,
    names: Sequence[str],
    changes: dict[str, Any],
    title: str,
    text: str,
) -> LoadedRecipe:
    """A run of some candidates; `changes`: sections of every one of their recipes."""
    variants = [variant for variant in candidates.variants if variant.name in names]
    first = variants[0].name
    variants = [
        variant.model_copy(update={"baseline": first if variant.name != first else None}) for variant in variants
    ]
    recipe = loaded.recipe.model_copy(update={**changes, "variants": variants})
    own = {name: loaded.by_variant[candidates.origin[name]] for name in names}
    by_variant = {variant.name: own[variant.name].model_copy(update=changes) for variant in variants}
    return LoadedRecipe(loaded.path, text, recipe, by_variant, loaded.paths, title, loaded.trust)


def look_sections(recipe: Recipe, seconds: Sequence[float], energy: bool, rates: bool) -> dict[str, Any]:
    """Of the quick look: one length, short rounds; the data set once, where error rates decide."""
    measure = Measure.model_validate(
        recipe.measure.model_dump() | LOOK | {"energy": energy and recipe.measure.energy, "limit": recipe.measure.limit}
    )
    dataset: Dataset | None = recipe.dataset.model_copy(update={"rounds": 1}) if recipe.dataset and rates else None
    return {"measure": measure, "trace": _quiet(recipe.trace), "dataset": dataset} | grid(recipe, seconds)


def final_sections(recipe: Recipe, seconds: Sequence[float], batches: Sequence[int], budget: float) -> dict[str, Any]:
    """Of the final: as the recipe says, with the batch sizes that are left and time for each cell."""
    measure = recipe.measure.model_copy(update={"budget": budget, "operations": False})
    return {"measure": measure, "trace": _quiet(recipe.trace)} | grid(recipe, seconds, batches)


def grid(recipe: Recipe, seconds: Sequence[float], batches: Sequence[int] | None = None) -> dict[str, Any]:
    given: ProfilingDimensions = recipe.profiling_dimensions
    changes = {"audio_mockup_secs": list(seconds), "batch_sizes": list(batches or given.batch_sizes)}
    changes |= {"triangle_only": False, "export_logs": False}
    return {"profiling_dimensions": given.model_copy(update=changes)}


def _quiet(trace: Trace) -> Trace:
    return trace.model_copy(update=OFF)
