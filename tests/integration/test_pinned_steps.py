"""Untrained decoders are made to take as many steps as speech needs; trained ones are left alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from profiler.audio import Speech
from profiler.errors import ModelError
from profiler.models.load import load_model
from profiler.models.model import Model, ModelRequest
from tests.conftest import TinyModel
from tests.helpers import tiny

GetTiny = Callable[[str], TinyModel]
SPEECH_LIKE = "With random weights the decoder is made to take {:g} steps per second of audio, as it does on speech."


def load(made: TinyModel, weights: Any = "random", rate: float = 5.3, **more: Any) -> Model:
    return load_model(
        ModelRequest(
            source=str(made.folder),
            type=made.type,
            weights=weights,
            folder=made.folder,
            tokens_per_second=rate,
            **more,
        )
    )


@contextmanager
def counting_steps(model: Model) -> Iterator[list[int]]:
    """Counts the calls of a SpeechBrain searcher's `forward_step`, the one that runs the decoder."""
    searcher = model.module.mods.decoder
    original, calls = searcher.forward_step, []

    def forward_step(*arguments: Any, **more: Any) -> Any:
        calls.append(1)
        return original(*arguments, **more)

    searcher.forward_step = forward_step
    try:
        yield calls
    finally:
        searcher.forward_step = original


def run(model: Model, seconds: float, rows: int) -> Any:
    import torch

    with torch.no_grad():
        return model.run(model.prepare(Speech(tiny.SPEECH, model.rate).batch(seconds, rows, seed=3)))


@pytest.mark.parametrize("name", ["crdnn", "speechbrain-whisper"])
@pytest.mark.parametrize("rate", [3, 5.3, 10])
def test_speechbrain_decoders_take_the_steps_of_speech(name: str, rate: float, tiny_model: GetTiny) -> None:
    model = load(tiny_model(name), rate=rate)
    for seconds, rows in ((0.5, 1), (1, 3), (2, 1), (3.7, 2)):
        with counting_steps(model) as calls:
            texts = run(model, seconds, rows)
        assert len(calls) == math.ceil(seconds * rate), (seconds, rows)
        assert len(texts) == rows
    assert model.notes == [SPEECH_LIKE.format(rate)]


@pytest.mark.parametrize("seed", range(4))
def test_steps_do_not_depend_on_the_weights_that_were_drawn(seed: int, tiny_model: GetTiny) -> None:
    model = load(tiny_model("crdnn"), seed=seed, overrides={"beam_size": 2})
    with counting_steps(model) as calls:
        run(model, 2, 2)
    assert len(calls) == math.ceil(2 * 5.3)


@pytest.mark.parametrize("rate", [3, 5.3, 10])
def test_a_search_that_asks_ctc_and_a_transformer_takes_the_steps_of_speech(rate: float) -> None:
    folder = tiny.ARCHITECTURES / "asr-conformer-transformerlm-librispeech"
    model = load(TinyModel(folder, "EncoderDecoderASR", {}), rate=rate, overrides=tiny.CONFORMER)
    asked: list[str] = []
    for name in ("language_model", "ctc"):
        model.module.mods[name].register_forward_hook(lambda *_, name=name: asked.append(name))
    for seconds, rows in ((0.5, 1), (1, 3), (3.7, 2)):
        asked.clear()
        with counting_steps(model) as calls:
            texts = run(model, seconds, rows)
        assert len(calls) == math.ceil(seconds * rate), (seconds, rows)
        assert asked.count("language_model") == len(calls), "at every step"
        assert asked.count("ctc") == 1, "once for the whole recording"
        assert len(texts) == rows
    assert model.notes == [SPEECH_LIKE.format(rate)]


def test_more_steps_than_ctc_has_frames_are_refused() -> None:
    folder = tiny.ARCHITECTURES / "asr-conformer-transformerlm-librispeech"
    model = load(TinyModel(folder, "EncoderDecoderASR", {}), rate=30, overrides=tiny.CONFORMER)
    with pytest.raises(ModelError, match=r"30 steps are more than the 26 frames of 1 s: lower .*tokens_per_second"):
        run(model, 1, 1)


@pytest.mark.parametrize("rate", [3, 5.3, 10])
def test_a_transformers_decoder_takes_the_steps_of_speech(rate: float, tiny_model: GetTiny) -> None:
    model = load(tiny_model("whisper"), rate=rate)
    steps: list[int] = []
    model.module.get_decoder().register_forward_hook(lambda *_: steps.append(1))
    for seconds, rows in ((0.5, 1), (1, 3), (2, 1), (3.7, 2)):
        steps.clear()
        assert len(run(model, seconds, rows)) == rows
        assert len(steps) == math.ceil(seconds * rate)
    assert SPEECH_LIKE.format(rate) in model.notes


@pytest.mark.parametrize("name", ["crdnn", "speechbrain-whisper"])
def test_a_pretrained_decoder_ends_where_it_ends(name: str, tiny_model: GetTiny) -> None:
    model = load(tiny_model(name), "pretrained", rate=1)
    searcher = model.module.mods.decoder
    limits = searcher.min_decode_ratio, searcher.max_decode_ratio
    with counting_steps(model) as calls:
        run(model, 2, 1)
    assert len(calls) > 2, "two steps is what one a second would pin it to"
    assert (searcher.min_decode_ratio, searcher.max_decode_ratio) == limits
    assert model.notes == []


def test_a_pretrained_transformers_decoder_is_given_no_limits(
    tiny_model: GetTiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load(tiny_model("whisper"), "pretrained", rate=1)
    original, given = model.module.generate, []

    def generate(**arguments: Any) -> Any:
        given.append(set(arguments))
        return original(**arguments)

    monkeypatch.setattr(model.module, "generate", generate)
    run(model, 2, 1)
    assert not given[0] & {"min_new_tokens", "max_new_tokens", "max_length", "min_length"}
    assert not any("random weights" in note for note in model.notes)


@pytest.mark.parametrize("name", ["ctc", "encoder", "classifier", "french"])
def test_nothing_is_pinned_where_nothing_is_decoded_step_by_step(name: str, tiny_model: GetTiny) -> None:
    assert load(tiny_model(name)).notes == []
