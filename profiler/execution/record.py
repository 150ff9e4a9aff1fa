"""What is written of a run before anything is measured: who, where, with what; and what to beware of."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from profiler import __version__, messages
from profiler.comparison.floor import record_floor
from profiler.environment import read_environment, read_repository, recorded_settings
from profiler.recipe.load import LoadedRecipe
from profiler.recipe.schema import Recipe
from profiler.results.runs import now
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
                "settings": {name: recorded_settings(count) for name, count in threads.items()},
                "noise_floor": record_floor(threads[recipe.variants[0].name]),
            }
        ),
    )


def warnings_at_start(environment: Environment, device: str, recipe: Recipe) -> list[str]:
    """What will make figures doubtful, as far as it shows already."""
    found = []
    load, cores = environment.load, environment.cores
    if load and cores and load[0] > BUSY * cores:
        found.append(messages.busy_at_start(load[0], cores))
    if environment.governor not in (None, "performance"):
        found.append(messages.governor(environment.governor))
    others = sum(gpu.processes for gpu in environment.gpu)
    if others and device.startswith("cuda"):
        found.append(messages.gpu_shared(others))
    if recipe.profiling_dimensions.example_audio is None:
        found.append(messages.RANDOM_DATA)
    return found
