"""Recipe -> what a worker is asked to load. Looks at folders only."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from profiler.hyperyaml.values import contains_call, packed
from profiler.models.formats import architecture_folder, local_file, local_folder
from profiler.models.model import ModelRequest
from profiler.user_path import user_path

if TYPE_CHECKING:
    from profiler.recipe.schema import Recipe


def may_download(request: ModelRequest) -> bool:
    """Whether loading may need the network: hub models, bundles, SpeechBrain folders with a backbone from the hub."""
    if request.weights == "random" or request.file is not None or request.type == "Module":
        return False
    return request.folder is None or (request.folder / "hyperparams.yaml").is_file()


def model_request(recipe: Recipe, base: Path, device: str = "cpu", trust: bool = False) -> ModelRequest:
    """The model of a recipe; `base` is the recipe's folder."""
    wanted = recipe.pretrained_model
    calls = {name: packed(value) for name, value in wanted.overrides.items() if contains_call(value)}
    return ModelRequest(
        source=wanted.source,
        type=wanted.type,
        weights=wanted.weights,
        folder=local_folder(wanted.source, base),
        file=local_file(wanted.source, base),
        architecture=architecture_folder(wanted.architecture, wanted.source, base),
        overrides={name: value for name, value in wanted.overrides.items() if name not in calls},
        calls=calls,
        input=wanted.input,
        lengths=wanted.lengths,
        mels=wanted.mels,
        sample_rate=wanted.sample_rate,
        checkpoint=user_path(wanted.checkpoint, base).resolve() if wanted.checkpoint else None,
        base=base.resolve(),
        trust=trust,
        tokens_per_second=wanted.tokens_per_second,
        prompt=wanted.prompt,
        new_tokens=wanted.new_tokens,
        seed=recipe.measure.seed,
        device=device,
    )
