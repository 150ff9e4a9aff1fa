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

        features = make_filterbank(mels=request.mels, rate=rate).to(request.device)
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
    if isinstance(state, dict) and isinstance(state.get("state_dict"), dict):
        state = state["state_dict"]
    try:
        module.load_state_dict(state)
    except (RuntimeError, TypeError, AttributeError) as error:
        raise ModelError(f"The checkpoint {path} does not fit {request.source}: {reason(error)}") from error
