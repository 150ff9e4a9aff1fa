"""What is not the same in two runs: keys of the recipe, versions, threads, machine, models, code. Judges nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from pydantic import BaseModel, ValidationError

from profiler.results.types import Commit, Environment, ModelResult, Results

SAME_MACHINE = ("host", "cpu", "cores", "memory_bytes", "gpu", "os", "python")
PACKAGES_THAT_MATTER = ("torch", "torchaudio", "speechbrain", "transformers", "numpy", "speech-profiler")
HARDWARE = ("host", "cpu", "cores", "device")
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
