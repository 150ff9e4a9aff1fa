"""What is not the same in two runs: keys of the recipe, versions, threads, machine, models, code. Judges nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ValidationError

from profiler.results.types import Commit, Environment, Model, Results

SAME_MACHINE = ("host", "cpu", "cores", "memory_bytes", "gpu", "os", "python")
PACKAGES_THAT_MATTER = ("torch", "torchaudio", "speechbrain", "transformers", "numpy", "speech-profiler")
HARDWARE = ("host", "cpu", "cores", "device")
SAME_SIZE = 0.01  # kernels keep a little of the memory for themselves, not always the same
ABOUT_MODELS = ("source", "type", "weights")


class Unequal(NamedTuple):
    """A name, and what it was in the one and in the other."""

    name: str
    before: Any
    after: Any


class Difference(BaseModel):
    """Something that is not the same in both runs, and of which kind it is."""

    kind: Literal["recipe", "versions", "threads", "machine", "weights", "code"]
    name: str
    before: Any = None
    after: Any = None


def unequal_keys(before: Any, after: Any, prefix: str = "") -> list[Unequal]:
    """Dotted keys of nested dictionaries whose values differ; lists and values are compared as they are."""
    if isinstance(before, dict) and isinstance(after, dict):
        found = []
        for key in sorted({*before, *after}, key=str):
            found += unequal_keys(before.get(key), after.get(key), f"{prefix}.{key}" if prefix else str(key))
        return found
    return [] if before == after else [Unequal(prefix, before, after)]


def unequal_machines(first: Environment, second: Environment) -> list[Unequal]:
    """What tells the machines of two environments apart; nothing where it is one machine. What a run does not say (a
    host's name may be taken out before sharing) does not count."""
    found = []
    for name in HARDWARE:
        before, after = getattr(first, name), getattr(second, name)
        if before is not None and after is not None and before != after:
            found.append(Unequal(name, before, after))
    sizes = first.memory_bytes, second.memory_bytes
    if sizes[0] and sizes[1] and abs(sizes[1] / sizes[0] - 1) > SAME_SIZE:
        found.append(Unequal("memory_bytes", *sizes))
    gpus = [[gpu.name for gpu in each.gpu] for each in (first, second)]
    if gpus[0] != gpus[1]:
        found.append(Unequal("gpu", *gpus))
    return found


def find_differences(first: Results, second: Results, variants: list[tuple[str, str]]) -> list[Difference]:
    """Everything that may be a reason for other figures, the weightiest first."""
    one, two = first.environment, second.environment
    found = [_difference("machine", each) for each in unequal_machines(one, two)]
    for mine, theirs in variants:
        name = mine if mine == theirs else f"{mine} and {theirs}"
        threads = Unequal(name, first.threads(mine), second.threads(theirs))
        found += [_difference("threads", threads)] if threads.before != threads.after else []
        found += [_difference("weights", each) for each in _models(name, first.model(mine), second.model(theirs))]
    if first is second:
        return found
    recipes = unequal_keys(_with_defaults(first), _with_defaults(second))
    found += [_difference("recipe", each) for each in recipes]
    found += [_difference("versions", each) for each in _versions(one, two)]
    found += [_difference("code", each) for each in _code(one, two)]
    return found + [_difference("machine", each) for each in _unequal(vars(one), vars(two), ("governor",))]


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


def _difference(kind: Any, unequal: Unequal) -> Difference:
    return Difference(kind=kind, name=unequal.name, before=unequal.before, after=unequal.after)


def _unequal(first: Mapping[str, Any], second: Mapping[str, Any], names: tuple[str, ...]) -> list[Unequal]:
    return [Unequal(name, first.get(name), second.get(name)) for name in names if first.get(name) != second.get(name)]


def _with_defaults(results: Results) -> dict[str, Any]:
    """The recipe as this version reads it: a key that an earlier one did not know yet has its default."""
    from profiler.recipe.schema import Recipe

    try:
        return Recipe.model_validate(results.run.resolved).model_dump(mode="json")
    except ValidationError:
        return results.run.resolved


def _models(name: str, first: Model | None, second: Model | None) -> list[Unequal]:
    if first is None or second is None:
        return []
    pairs = {about: (getattr(first, about), getattr(second, about)) for about in ABOUT_MODELS}
    pairs["parameters"] = first.parameters.total, second.parameters.total
    return [Unequal(f"{about} of {name}", *values) for about, values in pairs.items() if values[0] != values[1]]


def _versions(first: Environment, second: Environment) -> list[Unequal]:
    """Of what matters for speed first, then of all other packages."""
    one, two = first.packages, second.packages
    others = sorted({*one, *two} - set(PACKAGES_THAT_MATTER), key=str.lower)
    return _unequal(vars(first), vars(second), ("python", "os")) + _unequal(one, two, (*PACKAGES_THAT_MATTER, *others))


def _code(first: Environment, second: Environment) -> list[Unequal]:
    """Commits of the profiler and of the repository that the recipe lies in."""
    pairs = [
        ("the profiler's commit", _commit(first.profiler), _commit(second.profiler)),
        ("commit", _commit(first.repository), _commit(second.repository)),
    ]
    return [Unequal(*each) for each in pairs if each[1] != each[2]]


def _commit(about: Commit | None) -> str | None:
    commit = about.commit if about else None
    return f"{commit[:10]}{' with changes' if about and about.modified else ''}" if commit else None
