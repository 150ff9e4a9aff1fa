"""Names what differs between two runs: recipe, versions, threads, machine, weights, code."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from profiler.comparison.machine import threads_of, unequal_machines
from profiler.comparison.result import Difference
from profiler.differences import PACKAGES_THAT_MATTER, unequal_keys
from profiler.results import Model, Results

ABOUT_MODELS = ("source", "type", "weights")


def find_differences(first: Results, second: Results, variants: list[tuple[str, str]]) -> list[Difference]:
    """Everything that may be a reason for other figures, the weightiest first."""
    one, two = first.environment, second.environment
    found = [Difference(kind="machine", name=n, before=b, after=a) for n, b, a in unequal_machines(one, two)]
    for mine, theirs in variants:
        name = mine if mine == theirs else f"{mine} and {theirs}"
        threads = threads_of(first, mine), threads_of(second, theirs)
        if threads[0] != threads[1]:
            found.append(Difference(kind="threads", name=name, before=threads[0], after=threads[1]))
        found += _models(name, first.model(mine), second.model(theirs))
    if first is second:
        return found
    found += [
        Difference(kind="recipe", name=name, before=before, after=after)
        for name, before, after in unequal_keys(_with_defaults(first), _with_defaults(second))
    ]
    found += _versions(one, two) + _code(first, second)
    return found + [
        Difference(kind="machine", name=name, before=one.get(name), after=two.get(name))
        for name in ("governor",)
        if one.get(name) != two.get(name)
    ]


def _with_defaults(results: Results) -> dict[str, Any]:
    """The recipe as this version reads it: a key that an earlier one did not know yet has its default."""
    from profiler.recipe.schema import Recipe

    try:
        return Recipe.model_validate(results.run.resolved).model_dump(mode="json")
    except ValidationError:
        return results.run.resolved


def _models(name: str, first: Model | None, second: Model | None) -> list[Difference]:
    if first is None or second is None:
        return []
    pairs = {about: (getattr(first, about), getattr(second, about)) for about in ABOUT_MODELS}
    found = [
        Difference(kind="weights", name=f"{about} of {name}", before=before, after=after)
        for about, (before, after) in pairs.items()
        if before != after
    ]
    totals = first.parameters.get("total"), second.parameters.get("total")
    if totals[0] != totals[1]:
        found.append(Difference(kind="weights", name=f"parameters of {name}", before=totals[0], after=totals[1]))
    return found


def _versions(first: dict[str, Any], second: dict[str, Any]) -> list[Difference]:
    """Of what matters for speed first, then of all other packages."""
    found = [
        Difference(kind="versions", name=name, before=first.get(name), after=second.get(name))
        for name in ("python", "os")
        if first.get(name) != second.get(name)
    ]
    one, two = first.get("packages") or {}, second.get("packages") or {}
    unequal = {name: (one.get(name), two.get(name)) for name in {*one, *two} if one.get(name) != two.get(name)}
    order = [name for name in PACKAGES_THAT_MATTER if name in unequal]
    order += sorted(set(unequal) - set(order), key=str.lower)
    return found + [
        Difference(kind="versions", name=name, before=unequal[name][0], after=unequal[name][1]) for name in order
    ]


def _code(first: Results, second: Results) -> list[Difference]:
    """Commits of the profiler and of the repository that the recipe lies in."""
    found = []
    for name, words in (("profiler", "the profiler's commit"), ("repository", "commit")):
        one, two = first.environment.get(name) or {}, second.environment.get(name) or {}
        commits = [_commit_text(each) for each in (one, two)]
        if commits[0] != commits[1]:
            found.append(Difference(kind="code", name=words, before=commits[0], after=commits[1]))
    return found


def _commit_text(about: dict[str, Any]) -> str | None:
    commit = about.get("commit")
    return f"{commit[:10]}{' with changes' if about.get('modified') else ''}" if commit else None
