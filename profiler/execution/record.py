"""What is written of a run before anything is measured, what to beware of, and whether a run may be taken up again."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from profiler import __version__, messages, sandbox
from profiler.conditions.differences import PACKAGES_THAT_MATTER, SAME_MACHINE, Pair, unequal_keys
from profiler.conditions.floor import record_floor
from profiler.conditions.gpu import nvml, with_slowdown
from profiler.conditions.gpu_settings import remarks_on_gpu, remarks_on_torch, used_gpus
from profiler.environment import WAIT_POLICY, read_environment, read_repository, recorded_settings
from profiler.errors import UserError
from profiler.measure.verdict import from_gpu
from profiler.recipe.load import LoadedRecipe
from profiler.recipe.schema import Recipe
from profiler.results.metric import follow
from profiler.results.runs import now
from profiler.results.store import read_results
from profiler.results.types import Condition, DeviceFacts, Environment, Gpu, ModelResult, Results, Run

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
        environment=(here := read_environment()).model_copy(
            update={
                "gpu": with_slowdown(here.gpu),
                "repository": read_repository(loaded.path.resolve().parent),
                "threads": threads[recipe.variants[0].name],
                "device": device,
                "sandbox": sandbox.state(loaded.trust),
                "settings": {name: recorded_settings(count, recipe.has_engines) for name, count in threads.items()},
                "noise_floor": record_floor(threads[recipe.variants[0].name]),
            }
        ),
    )


def warnings_at_start(
    environment: Environment, device: str, recipe: Recipe, devices: Iterable[DeviceFacts | None] = ()
) -> list[str]:
    """What will make figures unstable, as far as it shows already. `devices`: those that the run is made on."""
    found = []
    load, cores = environment.load, environment.cores
    if load and cores and load[0] > BUSY * cores:
        found.append(messages.busy_at_start(load[0], cores, environment.threads))
    if environment.governor not in (None, "performance"):
        found.append(messages.governor(environment.governor))
    if device.startswith("cuda"):
        for gpu in used_gpus(environment, [facts.uuid for facts in devices if facts is not None]):
            found += [messages.gpu_state(gpu.name or "GPU", remark.text) for remark in remarks_on_gpu(gpu)]
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


def warnings_on_settings(model: ModelResult, recipe: Recipe, environment: Mapping[str, str]) -> list[str]:
    """What torch is set to on the device, by the flags that the worker which loaded the model has."""
    if model.device is None:
        return []
    precision = next(each.precision for each in recipe.variants if each.name == model.variant)
    float32, new_shapes = precision in (None, "float32"), recipe.dataset is not None
    remarks = remarks_on_torch(model.flags, model.device.compute, environment, float32, new_shapes)
    return [messages.gpu_state(model.device.name or model.device.place, remark.text) for remark in remarks]


def warnings_at_end(stable: Iterable[Sequence[Condition]]) -> list[str]:
    """What a GPU went through in the rounds of cells whose figures are stable: unstable ones have it as a reason."""
    found = messages.worst([from_gpu(conditions) for conditions in stable])
    return [messages.stable_on_gpu(count, kind, value) for kind, (count, value) in found.items()]


def hold(folder: Path, what: str = "run") -> int:
    """Keep others from taking up a run (or a fleet) for as long as this process lives, or until the descriptor is
    closed."""
    place = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(place)
        raise UserError(
            f"The {what} {folder.name} is still going on in another process; wait for its end, or interrupt it first."
        ) from None
    except OSError:  # a file system without locks
        pass
    return place


def gpu_identities(gpus: list[Gpu]) -> list[str]:
    """What does not change while a GPU works, as its clock does."""
    return [", ".join(filter(None, (gpu.name, gpu.driver, gpu.memory, gpu.uuid))) for gpu in gpus]


def check_resumable(folder: Path, loaded: LoadedRecipe, threads: dict[str, int]) -> Results:
    """The earlier results; raises UserError that names every difference."""
    earlier = read_results(folder)
    recipes = earlier.run.resolved, loaded.recipe.model_dump(mode="json")
    now, settings = read_environment(), earlier.environment.settings
    then_packages, now_packages = earlier.environment.packages, now.packages
    pairs: list[Pair] = [
        *((f"recipe, {key}", then, new) for key, then, new in unequal_keys(*recipes)),
        *((name, getattr(earlier.environment, name), getattr(now, name)) for name in SAME_MACHINE),
        ("gpu", gpu_identities(earlier.environment.gpu), gpu_identities(now.gpu)),
        *((name, then_packages.get(name), now_packages.get(name)) for name in PACKAGES_THAT_MATTER),
        *((f"threads of {name}", follow(settings, name, "threads"), count) for name, count in threads.items()),
    ]
    differences = [f"{name}: {then} then, {new} now" for name, then, new in pairs if then != new]
    if differences:
        listed = "\n".join(f"  {difference}" for difference in differences)
        raise UserError(f"The run {folder.name} cannot be resumed; this differs:\n{listed}\nStart a new run instead.")
    return earlier
