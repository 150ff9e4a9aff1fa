"""What is not the same in two runs: keys of the recipe, versions, threads, machine, models, code. Judges nothing."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from typing import Any, Literal

from pydantic import BaseModel, ValidationError

from profiler.conditions.gpu_settings import used_gpus
from profiler.results.types import Commit, Environment, Gpu, ModelResult, Results

SAME_MACHINE = ("host", "cpu", "cores", "memory_bytes", "os", "python")
PACKAGES_THAT_MATTER = ("torch", "torchaudio", "speechbrain", "transformers", "numpy", "speech-profiler")
HARDWARE = ("host", "cpu", "cores", "device")
GPU_SETTINGS = {"driver": "driver", "power_limit": "power limit", "mig": "MIG", "persistence": "persistence mode"}
SAME_CLOCK = 0.02  # GPUs choose among clocks that lie 15 MHz from one another
SAME_SIZE = 0.01  # kernels keep a little of the memory for themselves, not always the same
ABOUT_MODELS = ("source", "type", "weights")


Kind = Literal["recipe", "versions", "threads", "machine", "weights", "code"]
Pair = tuple[str, Any, Any]  # a name, and what it is in the one run and in the other


class Difference(BaseModel):
    """Something that is not the same in both runs, and of which kind it is."""

    kind: Kind
    name: str
    before: Any = None
    after: Any = None


def unequal_keys(before: Any, after: Any, prefix: str = "") -> list[Pair]:
    """Dotted keys of nested dictionaries whose values differ; lists and values are compared as they are."""
    if isinstance(before, dict) and isinstance(after, dict):
        found = []
        for key in sorted({*before, *after}, key=str):
            found += unequal_keys(before.get(key), after.get(key), f"{prefix}.{key}" if prefix else str(key))
        return found
    return [] if before == after else [(prefix, before, after)]


def unequal_machines(first: Environment, second: Environment) -> list[Difference]:
    """What tells the machines of two environments apart; nothing where it is one machine. What a run does not say (a
    host's name may be taken out before sharing) does not count."""
    pairs: list[Pair] = [(name, getattr(first, name), getattr(second, name)) for name in HARDWARE]
    known = [pair for pair in pairs if pair[1] is not None and pair[2] is not None]
    sizes = first.memory_bytes, second.memory_bytes
    if sizes[0] and sizes[1] and abs(sizes[1] / sizes[0] - 1) > SAME_SIZE:
        known.append(("memory_bytes", *sizes))
    gpus = [[gpu.name for gpu in each.gpu] for each in (first, second)]
    return _unequal("machine", [*known, ("gpu", gpus[0], gpus[1])])


def find_differences(first: Results, second: Results, variants: list[tuple[str, str]]) -> list[Difference]:
    """Everything that may be a reason for other figures, the weightiest first."""
    one, two = first.environment, second.environment
    found = unequal_machines(one, two)
    for mine, theirs in variants:
        name = mine if mine == theirs else f"{mine} and {theirs}"
        found += _unequal("threads", [(name, first.threads(mine), second.threads(theirs))])
        left, right = first.model(mine), second.model(theirs)
        found += _unequal("weights", _models(name, left, right))
        if left is not None and right is not None:
            found += _unequal("machine", unequal_keys(left.flags, right.flags))
            on = left.device.name if left.device else None, right.device.name if right.device else None
            found += _unequal("machine", [(f"device of {name}", *on)] if all(on) else [])
        found += _unequal("machine", unequal_keys(_variables(first, mine), _variables(second, theirs)))
    if first is second:
        return found
    found += _unequal("recipe", unequal_keys(_with_defaults(first), _with_defaults(second)))
    # Of what matters for speed first, then of all other packages.
    others = sorted({*one.packages, *two.packages} - set(PACKAGES_THAT_MATTER), key=str.lower)
    packages = (*PACKAGES_THAT_MATTER, *others)
    found += _unequal("versions", [("python", one.python, two.python), ("os", one.os, two.os)])
    found += _unequal("versions", [(name, one.packages.get(name), two.packages.get(name)) for name in packages])
    found += _unequal("code", [("the profiler's commit", _commit(one.profiler), _commit(two.profiler))])
    found += _unequal("code", [("commit", _commit(one.repository), _commit(two.repository))])
    found += _unequal("machine", _gpu_pairs(first, second))
    return found + _unequal("machine", [("governor", one.governor, two.governor)])


def different_models(first: Results, second: Results, variants: list[tuple[str, str]]) -> str:
    """One sentence where two models are compared, or one with other weights; empty where the model is the same."""
    pairs = [(first.model(one), second.model(two)) for one, two in variants]
    known = [(one, two) for one, two in pairs if one is not None and two is not None]
    for one, two in known:
        if one.source != two.source:
            return f"These are different models: {one.source}, then {two.source}."
    for one, two in known:
        if one.weights != two.weights:
            return f"The weights differ: {one.weights}, then {two.weights}."
    return ""


def _unequal(kind: Kind, pairs: Iterable[Pair]) -> list[Difference]:
    return [
        Difference(kind=kind, name=name, before=before, after=after) for name, before, after in pairs if before != after
    ]


def _variables(results: Results, variant: str) -> dict[str, str]:
    """Those that change figures, as they were set for the workers of a variant."""
    settings = results.environment.settings.get(variant)
    return settings.environment if settings else {}


def _gpu_pairs(first: Results, second: Results) -> list[Pair]:
    """Settings of the GPUs that both runs were made on, and the clock that they really had."""
    gpus = _gpu_of(first), _gpu_of(second)
    if gpus[0] is None or gpus[1] is None:
        return []
    settings = [
        (f"{title} of the GPU", *(getattr(gpu, field) for gpu in gpus)) for field, title in GPU_SETTINGS.items()
    ]
    pairs = [pair for pair in settings if None not in pair]
    clocks = _clock_of(first), _clock_of(second)
    if all(clocks) and min(clocks) < (1 - SAME_CLOCK) * max(clocks):
        pairs.append(("clock of the GPU after rounds, median", *(f"{clock:.0f} MHz" for clock in clocks)))
    return pairs


def _gpu_of(results: Results) -> Gpu | None:
    if (results.environment.device or "cpu") == "cpu":
        return None
    uuids = [model.device.uuid for model in results.models if model.device is not None]
    return next(iter(used_gpus(results.environment, uuids)), None)


def _clock_of(results: Results) -> float:
    found = [state.gpu for cell in results.cells for state in cell.conditions if state.gpu is not None]
    return statistics.median([gpu.clock_mhz for gpu in found if gpu.clock_mhz] or [0])


def _with_defaults(results: Results) -> dict[str, Any]:
    """The recipe as this version reads it: a key that an earlier one did not know yet has its default."""
    from profiler.recipe.schema import Recipe

    try:
        return Recipe.model_validate(results.run.resolved).model_dump(mode="json")
    except ValidationError:
        return results.run.resolved


def _models(name: str, first: ModelResult | None, second: ModelResult | None) -> list[Pair]:
    if first is None or second is None:
        return []
    pairs = [(f"{about} of {name}", getattr(first, about), getattr(second, about)) for about in ABOUT_MODELS]
    return [*pairs, (f"parameters of {name}", first.parameters.total, second.parameters.total)]


def _commit(about: Commit | None) -> str | None:
    commit = about.commit if about else None
    return f"{commit[:10]}{' with changes' if about and about.modified else ''}" if commit else None
