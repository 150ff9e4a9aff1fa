"""What is written of a run before anything is measured, what to beware of, and whether a run may be taken up again."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from profiler import __version__, messages, sandbox
from profiler.conditions.differences import PACKAGES_THAT_MATTER, SAME_MACHINE, Pair, unequal_keys
from profiler.conditions.floor import record_floor
from profiler.conditions.gpu import nvml
from profiler.environment import WAIT_POLICY, read_environment, read_repository, recorded_settings
from profiler.errors import UserError
from profiler.recipe.load import LoadedRecipe
from profiler.recipe.schema import Recipe
from profiler.results.metric import follow
from profiler.results.runs import now
from profiler.results.store import read_results
from profiler.results.types import Environment, Results, Run

BUSY = 0.5  # of the cores


def new_results(loaded: LoadedRecipe, identity: str, command: str, device: str, threads: Mapping[str, int]) -> Results:
    """The results of a run that has none yet. `threads`: of each variant."""
    recipe = loaded.recipe
    return Results(
        run=Run(
            id=identity,
            recipe=str(loaded.path),
            recipe_sha256=hashlib.sha256(loaded.text.encode()).hexdigest(),
            command=command,
            started=now(),
            profiler_version=__version__,
            resolved=recipe.model_dump(mode="json"),
        ),
        environment=read_environment().model_copy(
            update={
                "repository": read_repository(loaded.path.resolve().parent),
                "threads": threads[recipe.variants[0].name],
                "device": device,
                "sandbox": sandbox.state(loaded.trust),
                "settings": {name: recorded_settings(count, recipe.has_engines) for name, count in threads.items()},
                "noise_floor": record_floor(threads[recipe.variants[0].name]),
            }
        ),
    )


def warnings_at_start(environment: Environment, device: str, recipe: Recipe) -> list[str]:
    """What will make figures unstable, as far as it shows already."""
    found = []
    load, cores = environment.load, environment.cores
    if load and cores and load[0] > BUSY * cores:
        found.append(messages.busy_at_start(load[0], cores, environment.threads))
    if environment.governor not in (None, "performance"):
        found.append(messages.governor(environment.governor))
    others = sum(gpu.processes for gpu in environment.gpu)
    if others and device.startswith("cuda"):
        found.append(messages.gpu_shared(others))
    if device.startswith("cuda") and isinstance(why := nvml(), str):
        found.append(messages.gpu_unwatched(why))
    if recipe.has_engines and any(each.threads > 1 for each in environment.settings.values()):
        found.append(messages.WAITING_THREADS.format(os.environ.get(WAIT_POLICY, "passive")))
    if recipe.profiling_dimensions.example_audio is None:
        found.append(messages.RANDOM_DATA)
    protection = environment.sandbox
    if protection is not None and not protection.in_force and protection.reason != sandbox.TRUST:
        found.append(messages.NO_SANDBOX.format(protection.reason))
    return found


def hold(folder: Path) -> int:
    """Keep others from taking up a run for as long as this process lives, or until the descriptor is closed."""
    place = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(place)
        raise UserError(
            f"The run {folder.name} is still going on in another process; wait for its end, or interrupt it first."
        ) from None
    except OSError:  # a file system without locks
        pass
    return place


def check_resumable(folder: Path, loaded: LoadedRecipe, threads: dict[str, int]) -> Results:
    """The earlier results; raises UserError that names every difference."""
    earlier = read_results(folder)
    recipes = earlier.run.resolved, loaded.recipe.model_dump(mode="json")
    now, settings = read_environment(), earlier.environment.settings
    then_packages, now_packages = earlier.environment.packages, now.packages
    pairs: list[Pair] = [
        *((f"recipe, {key}", then, new) for key, then, new in unequal_keys(*recipes)),
        *((name, getattr(earlier.environment, name), getattr(now, name)) for name in SAME_MACHINE),
        *((name, then_packages.get(name), now_packages.get(name)) for name in PACKAGES_THAT_MATTER),
        *((f"threads of {name}", follow(settings, name, "threads"), count) for name, count in threads.items()),
    ]
    differences = [f"{name}: {then} then, {new} now" for name, then, new in pairs if then != new]
    if differences:
        listed = "\n".join(f"  {difference}" for difference in differences)
        raise UserError(f"The run {folder.name} cannot be resumed; this differs:\n{listed}\nStart a new run instead.")
    return earlier
