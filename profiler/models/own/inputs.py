"""What a user's own model takes: waveforms or log-mel features, alone or with lengths. Shared by its adapters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from profiler.errors import ModelError
from profiler.models.model import Model, ModelRequest

if TYPE_CHECKING:
    from profiler.audio import Batch
    from profiler.recipe.schema import Training
    from profiler.training.tasks import Task

RATE = 16000
OUTPUT = "the module's output"


def wrap(module: Any, request: ModelRequest) -> Model:
    """A module as a Model. Features are computed in the timed region: it begins with waveforms for every model."""
    import torch

    rate = request.sample_rate or int(getattr(module, "sample_rate", RATE))
    features = None
    if request.input.startswith("features"):
        from profiler.models.features.adapter import make_filterbank

        with torch.device(request.device):  # also while the model is only counted, on the meta device
            features = make_filterbank(mels=request.mels, rate=rate)
    with_lengths = request.input.endswith("_and_lengths")

    def prepare(batch: Batch) -> tuple[Any, Any]:
        return torch.from_numpy(batch.waveforms), torch.from_numpy(batch.lengths)

    def run(value: tuple[Any, Any]) -> Any:
        waveforms, lengths = (part.to(request.device) for part in value)
        inputs = waveforms if features is None else features(waveforms)
        if not with_lengths:
            return module(inputs)
        # The fraction of a row that is audio, rounded to whole frames where the rows are frames.
        fractions = lengths / waveforms.shape[1]
        if request.lengths == "counts":
            return module(inputs, torch.round(fractions * inputs.shape[1]).long())
        return module(inputs, fractions.float())

    notes = []
    if features is not None:
        notes.append(
            f"The module's input, {request.mels} log-mel features at 100 frames/s, is computed in the timed region."
        )
    beside = {} if features is None else {"features": features}
    model = Model(module, prepare, run, OUTPUT, rate, dict(module.named_children()), notes, beside=beside)
    model.trained_by = {"ctc": lambda settings: _ctc(model, settings, request.device)}
    return model


def _ctc(model: Model, settings: Training, device: str) -> Task:
    """CTC on whatever frames the module gives: with an output layer of ours, unless the recipe says it has its own."""
    from profiler.training.tasks import ctc, ctc_with_head, frames_by_share, frames_of_output, output_width

    def encode(value: tuple[Any, Any]) -> tuple[Any, Any]:
        states = frames_of_output(model.run(value))
        return states, frames_by_share(value[1], value[0].shape[1], states.shape[1])

    width = output_width(model)
    return ctc(encode, width) if settings.head is False else ctc_with_head(encode, width, settings, device)


def load_state(module: Any, request: ModelRequest, path: str) -> None:
    """Put the weights of a state dict file into a module; every name must fit."""
    import torch

    from profiler.models.reasons import reason

    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise ModelError(f"The checkpoint {path} cannot be read: {reason(error)}. Save it as a state dict.") from error
    wanted = module.state_dict()
    found = best_fit(state, set(wanted))
    try:
        module.load_state_dict(found)
    except (RuntimeError, TypeError, AttributeError) as error:
        raise ModelError(
            f"The checkpoint {path} does not fit {request.source}: {reason(error)} {_held(state, found, wanted)}"
        ) from error


NESTED = ("model", "model_state", "model_state_dict", "state_dict", "module", "net", "weights")
PREFIXES = ("module.", "_orig_mod.", "model.")  # of DistributedDataParallel, torch.compile, Lightning


def best_fit(state: Any, wanted: set[str]) -> Any:
    """The part of a checkpoint whose names fit a model best: itself or under a usual key, with or without a prefix."""
    parts = [state]
    for part in parts:  # grows while it is walked; a checkpoint is not deep
        if isinstance(part, dict) and len(parts) < 50:
            parts += [part[name] for name in NESTED if isinstance(part.get(name), dict)]
            names = [name for name in part if isinstance(name, str)]
            parts += [
                {name.removeprefix(prefix): value for name, value in part.items()}
                for prefix in PREFIXES
                if names and all(name.startswith(prefix) for name in names)
            ]
    return max(parts, key=lambda part: len(wanted & set(part)) if isinstance(part, dict) else -1)


def _held(state: Any, found: Any, wanted: dict[str, Any]) -> str:
    """What the file has, and what the class wants, by their first names."""
    if not isinstance(state, dict):
        return f"The file holds a {type(state).__name__}, and no state dict."
    outer = "" if found is state else f" under {', '.join(map(str, list(state)[:5]))}"
    return (
        f"The file holds {len(found)} entries{outer}, such as {', '.join(map(str, list(found)[:3]))}; the class has "
        f"{len(wanted)}, such as {', '.join(list(wanted)[:3])}."
    )
