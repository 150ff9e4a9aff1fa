"""May a run be taken up again? Only when the same thing would be measured: recipe, settings, machine, versions."""

from __future__ import annotations

from pathlib import Path

from profiler.comparison.differences import PACKAGES_THAT_MATTER, SAME_MACHINE, unequal_keys
from profiler.environment import read_environment
from profiler.errors import UserError
from profiler.recipe.load import LoadedRecipe
from profiler.results.store import read_results
from profiler.results.types import Results


def check_resumable(folder: Path, loaded: LoadedRecipe, threads: dict[str, int]) -> Results:
    """The earlier results; raises UserError that names every difference."""
    earlier = read_results(folder)
    recipes = unequal_keys(earlier.run.resolved, loaded.recipe.model_dump(mode="json"))
    differences = [f"recipe, {key}: {then} then, {now} now" for key, then, now in recipes]
    now = read_environment()
    for name in SAME_MACHINE:
        before, after = getattr(earlier.environment, name), getattr(now, name)
        if before != after:
            differences.append(f"{name}: {before} then, {after} now")
    then_packages = earlier.environment.packages
    for name in PACKAGES_THAT_MATTER:
        if then_packages.get(name) != now.packages.get(name):
            differences.append(f"{name}: {then_packages.get(name)} then, {now.packages.get(name)} now")
    for variant, count in threads.items():
        settings = earlier.environment.settings.get(variant)
        then = settings.threads if settings else None
        if then != count:
            differences.append(f"threads of {variant}: {then} then, {count} now")
    if differences:
        listed = "\n".join(f"  {difference}" for difference in differences)
        raise UserError(f"The run {folder.name} cannot be resumed; this differs:\n{listed}\nStart a new run instead.")
    return earlier
