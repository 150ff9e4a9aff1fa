"""Adapter for icefall's conformer transducer: a conformer, a decoder without state, a joiner. Built here, not loaded.

    pretrained_model: {source: icefall/conformer-transducer, type: ConformerTransducer, overrides: {layers: 6}}

`source` is a label, for the tables. It is there to be trained (mode: training); in inference it is the encoder that
runs, because icefall's search is no part of it.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profiler.errors import ModelError
from profiler.models.formats import Format
from profiler.models.model import Model, ModelRequest, refuse_unknown, waveforms_and_lengths
from profiler.training import tasks

if TYPE_CHECKING:
    from profiler.models.icefall.conformer import ConformerSizes
    from profiler.recipe.schema import Training

LIBRARY = "conformer_transducer"
INTERFACES = ("ConformerTransducer",)
FORMAT = Format()
TRAINS = {"ConformerTransducer": ("pruned_transducer", "transducer", "ctc")}
RATE = 16000
BLANK = 0
LEAST = {"mels": 7, "dropout": 0.0}  # two convolutions of stride 2 need so many

REBUILT = (
    "Rebuilt in plain torch after the published sizes of icefall's conformer transducer; its own code, optimizer and "
    "learning-rate schedule are not used."
)
ENCODER_ALONE = "Without a search the decoder and the joiner are not called: what runs is the encoder."
PRUNED = (
    "The pruned loss keeps 5 tokens of each frame, chosen by a simple loss that is half of the sum. The joiner runs on "
    "these alone, so it is in the phase of the loss."
)


def load_pretrained(request: ModelRequest, source: str) -> Model:
    raise ModelError("There are no weights of this model to load: it is built with random ones.")


def build_random(request: ModelRequest, folder: Path | None) -> Model:
    from profiler.models.features.filterbank import Filterbank
    from profiler.models.icefall.conformer import ConformerTransducer, subsampled

    sizes = _sizes(request.overrides)
    module = ConformerTransducer(sizes).to(request.device)
    features = Filterbank(mels=sizes.mels, rate=RATE).to(request.device)

    def encode(value: tuple[Any, Any]) -> tuple[Any, Any]:
        waveforms, lengths = value
        padded = bool((lengths < waveforms.shape[1]).any())
        inputs = features(waveforms.to(request.device), lengths if padded else None)
        if inputs.shape[1] < 7:
            raise ModelError("the encoder subsamples by 4 and needs 85 ms of audio at least")
        used = features.used_frames(lengths)
        return module.encoder(inputs, used if padded else None), subsampled(used).clamp(min=1)

    return Model(
        module,
        waveforms_and_lengths,
        lambda value: encode(value)[0],
        "hidden states of the encoder",
        RATE,
        dict(module.named_children()),
        [REBUILT, ENCODER_ALONE],
        beside={"features": features},
        trained_by={
            "pruned_transducer": lambda settings: _pruned(module, encode, sizes),
            "transducer": lambda settings: _whole(module, encode, sizes, settings, request.device),
            "ctc": lambda settings: _ctc(encode, sizes, settings, request.device),
        },
    )


def _sizes(overrides: dict[str, Any]) -> ConformerSizes:
    from profiler.models.icefall.conformer import ConformerSizes

    known = {each.name: each.default for each in dataclasses.fields(ConformerSizes)}
    refuse_unknown(overrides, known, "ConformerTransducer")
    for name, value in overrides.items():
        least = LEAST.get(name, 1)
        number = isinstance(value, type(known[name])) or (isinstance(value, int) and name == "dropout")
        if isinstance(value, bool) or not number or value < least or (name == "dropout" and value >= 1):
            raise ModelError(f"pretrained_model.overrides.{name}: expected a number from {least:g}, not {value!r}")
    sizes = ConformerSizes(**overrides)
    if sizes.width % sizes.heads or sizes.width % 2:
        raise ModelError(f"width {sizes.width} cannot be divided among heads {sizes.heads} and into pairs")
    if sizes.kernel % 2 == 0:
        raise ModelError(f"kernel {sizes.kernel} has no middle; expected an odd number")
    if sizes.vocabulary < 3:
        raise ModelError(f"vocabulary {sizes.vocabulary} is too small: a blank and two tokens at least")
    return sizes


def _pruned(module: Any, encode: Any, sizes: ConformerSizes) -> tasks.Task:
    from profiler.training import losses

    def forward(value: Any, targets: tasks.Targets) -> tasks.Outputs:
        states, frames = encode(value)
        return tasks.Outputs((states, module.decoder(losses.with_start(targets, BLANK))), frames)

    loss = losses.PrunedTransducer((module.simple_am_proj, module.simple_lm_proj), module.joiner, BLANK)
    name = f"{losses.SIMPLE_SCALE:g} simple + pruned transducer"
    return tasks.Task(name, losses.OWN, forward, loss, range(BLANK + 1, sizes.vocabulary), notes=[REBUILT, PRUNED])


def _whole(module: Any, encode: Any, sizes: ConformerSizes, settings: Training, device: str) -> tasks.Task:
    def join(value: Any, tokens: Any, lengths: Any) -> tuple[Any, Any]:
        states, frames = encode(value)
        return module.joiner(states[:, :, None], module.decoder(tokens)[:, None]), frames

    task = tasks.transducer(join, sizes.vocabulary, BLANK, settings, device)
    task.notes.append(REBUILT)
    return task


def _ctc(encode: Any, sizes: ConformerSizes, settings: Training, device: str) -> tasks.Task:
    task = tasks.ctc_with_head(encode, sizes.joiner_width, settings, device)
    task.notes.append(REBUILT)
    return task
