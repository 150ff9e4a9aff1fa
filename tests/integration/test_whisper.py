"""Whisper takes 30 s at a time: what is shorter is padded, what is longer goes window by window, to its end."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from profiler.audio import Batch, Speech
from profiler.errors import ModelError
from profiler.models.load import load_model
from profiler.models.model import Model, ModelRequest
from profiler.models.torchaudio.on_cpu import ensure_torchaudio
from tests.conftest import TinyModel
from tests.helpers import tiny

GetTiny = Callable[[str], TinyModel]
FRAMES = 3000  # of a window, one each 10 ms
SHIPPED = tiny.ARCHITECTURES / "whisper-tiny"


def load(folder: Path, weights: Any = "random", kind: str = "AutoModelForSpeechSeq2Seq", **more: Any) -> Model:
    return load_model(ModelRequest(source=str(folder), type=kind, weights=weights, folder=folder, **more))


def speech(seconds: float, rows: int = 1) -> Batch:
    return Speech(tiny.SPEECH, 16000).batch(seconds, rows, seed=3)


def with_lengths(*seconds: float) -> Batch:
    """A batch whose rows are of these lengths, the first one the longest."""
    whole = speech(seconds[0], len(seconds))
    lengths = np.array([round(16000 * length) for length in seconds])
    for row, length in zip(whole.waveforms, lengths, strict=True):
        row[length:] = 0
    return Batch(whole.waveforms, lengths, 16000)


def features(folder: Path, batch: Batch, **more: Any) -> Any:
    """What the library's own feature extractor makes of a batch."""
    ensure_torchaudio()
    from transformers import WhisperFeatureExtractor

    extractor = WhisperFeatureExtractor.from_pretrained(folder)
    return extractor(list(batch.waveforms), sampling_rate=16000, return_tensors="pt", **more).input_features


class Heard:
    """Runs a model, and keeps what its encoder was given and how often its decoder was called."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.windows: list[Any] = []
        self.steps = 0
        inner = getattr(model.module, "model", model.module)
        inner.encoder.register_forward_pre_hook(self._window, with_kwargs=True)
        inner.decoder.register_forward_hook(self._step)

    def _window(self, _: Any, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        self.windows.append(given[0] if given else named["input_features"])

    def _step(self, *_: Any) -> None:
        self.steps += 1

    @property
    def rows(self) -> list[int]:
        """How many recordings were in each window."""
        assert all(window.shape[-1] == FRAMES for window in self.windows)
        return [len(window) for window in self.windows]

    def run(self, batch: Batch) -> Any:
        import torch

        self.windows.clear()
        self.steps = 0
        with torch.no_grad():
            return self.model.run(self.model.prepare(batch))


def talkative(model: Model, letters: float = 50) -> Model:
    """Makes a saved model write one letter again and again, so that what it writes tells how much it heard.

    In a window it writes the time 0.00 where it is asked for times, then the letter as often as it may; with a smaller
    weight on the letter it writes times between.
    """
    import torch

    decoder = model.module.get_decoder()
    with torch.no_grad():
        decoder.layer_norm.weight.zero_()
        decoder.layer_norm.bias.zero_()
        decoder.layer_norm.bias[0] = 1
        decoder.embed_tokens.weight[:, 0] = 0
        decoder.embed_tokens.weight[50, 0] = letters
    return model


# -- with its weights


def test_up_to_30_s_is_one_window(tiny_model: GetTiny) -> None:
    heard = Heard(talkative(load(tiny_model("whisper").folder, "pretrained")))
    texts = [heard.run(speech(seconds, 2)) for seconds in (0.5, 10, 30)]
    assert texts[0] == texts[1] == texts[2]
    assert heard.rows == [2]


def test_short_audio_is_padded_as_the_model_expects_it(tiny_model: GetTiny) -> None:
    import torch

    folder = tiny_model("whisper").folder
    heard = Heard(talkative(load(folder, "pretrained")))
    batch = speech(2)
    heard.run(batch)
    (window,) = heard.windows
    assert torch.equal(window, features(folder, batch))


@pytest.mark.parametrize("rows", [1, 2])
def test_longer_audio_is_heard_to_its_end(rows: int, tiny_model: GetTiny) -> None:
    import torch

    folder = tiny_model("whisper").folder
    heard = Heard(talkative(load(folder, "pretrained")))
    short = heard.run(speech(30, rows))
    batch = speech(35, rows)
    texts = heard.run(batch)
    assert heard.rows == [rows, rows]
    for text, before in zip(texts, short, strict=True):
        assert set(text) == set(before), "the times that it wrote are no text"
        assert len(text) > 1.5 * len(before)

    whole = features(folder, batch, truncation=False, padding="longest")
    first, last = heard.windows
    assert torch.equal(first, whole[..., :FRAMES])
    assert torch.equal(last[..., :500], whole[..., FRAMES:]), "the last 5 s"
    assert not last[..., 500:].any()


def test_a_row_that_has_ended_takes_no_further_window(tiny_model: GetTiny) -> None:
    heard = Heard(talkative(load(tiny_model("whisper").folder, "pretrained")))
    texts = heard.run(with_lengths(61, 10, 35))
    assert heard.rows == [3, 2, 1]
    assert len(texts[0]) > len(texts[2]) > len(texts[1]) > 0


def test_times_that_the_model_writes_move_it_on(tiny_model: GetTiny) -> None:
    """The library's own walk: a window that is said to end earlier is followed by one that begins there."""
    import torch

    folder = tiny_model("whisper").folder
    heard = Heard(talkative(load(folder, "pretrained"), letters=5))
    batch = speech(35)
    heard.run(batch)
    assert len(heard.windows) > 2
    whole = features(folder, batch, truncation=False)
    last = heard.windows[-1]
    frames = int(last.any(dim=1).sum())
    assert torch.equal(last[..., :frames], whole[..., -frames:])


def test_notes_say_how_longer_audio_is_decoded(tiny_model: GetTiny) -> None:
    note, decoding = load(tiny_model("whisper").folder, "pretrained").notes
    assert note.startswith("The model takes 30 s at a time: shorter audio is padded to 30 s and costs its encoder as ")
    assert "long-form decoding" in note
    assert "random weights" not in note
    assert decoding == "Decoding: greedy."


def test_a_model_that_cannot_write_times_is_refused_longer_audio(tiny_model: GetTiny, tmp_path: Path) -> None:
    folder = tmp_path / "no-times"
    shutil.copytree(tiny_model("whisper").folder, folder)
    file = folder / "generation_config.json"
    settings = json.loads(file.read_text())
    del settings["no_timestamps_token_id"]
    file.write_text(json.dumps(settings))
    model = load(folder, "pretrained")
    model.prepare(speech(30))
    with pytest.raises(ModelError, match=r"takes 30 s at a time.*no_timestamps_token_id"):
        model.prepare(speech(30.5))
    load(folder, "random").prepare(speech(30.5))


# -- with random weights


@pytest.mark.parametrize(("seconds", "windows"), [(1, [1]), (30, [30]), (35, [30, 5]), (61.5, [30, 30, 1.5])])
def test_random_weights_take_the_steps_of_each_window(
    seconds: float, windows: list[float], tiny_model: GetTiny
) -> None:
    heard = Heard(load(tiny_model("whisper").folder, tokens_per_second=0.9))
    texts = heard.run(speech(seconds, 2))
    assert len(texts) == 2
    assert heard.rows == [2] * len(windows)
    assert heard.steps == sum(math.ceil(0.9 * window) for window in windows)


@pytest.mark.parametrize("seed", range(3))
def test_the_windows_do_not_depend_on_the_weights_that_were_drawn(seed: int, tiny_model: GetTiny) -> None:
    heard = Heard(load(tiny_model("whisper").folder, seed=seed, tokens_per_second=0.9))
    heard.run(with_lengths(35, 29))
    assert heard.rows == [2, 1]
    assert heard.steps == 27 + 5


def test_random_weights_write_no_more_than_there_is_room_for(tiny_model: GetTiny) -> None:
    model = load(tiny_model("whisper").folder, tokens_per_second=100, overrides={"max_target_positions": 40})
    heard = Heard(model)
    heard.run(speech(1))
    assert heard.steps == 36
    assert "at most the 36 that it has room for in a window" in model.notes[1]


def test_notes_say_what_is_done_with_the_window(tiny_model: GetTiny) -> None:
    window, steps, _ = load(tiny_model("whisper").folder).notes
    assert "takes 30 s at a time: shorter audio is padded to 30 s and costs its encoder as much" in window
    assert "longer audio is cut into windows of 30 s, each decoded by itself" in window
    assert "5.3 steps per second of audio" in steps


# -- the shipped description


def test_without_a_vocabulary_the_output_is_token_ids() -> None:
    model = load(SHIPPED, overrides=tiny.SHIPPED_WHISPER | {"language": "en"}, tokens_per_second=0.5)
    ids = Heard(model).run(with_lengths(33, 10))
    assert model.output == "token ids"
    assert [len(row) for row in ids] == [15 + 2, 15]
    assert any("no tokenizer" in note for note in model.notes)


def test_a_language_that_is_not_given_is_detected_and_costs_a_pass() -> None:
    given = load(SHIPPED, overrides=tiny.SHIPPED_WHISPER | {"language": "en"})
    detected = load(SHIPPED, overrides=tiny.SHIPPED_WHISPER)
    for model, passes in ((given, 1), (detected, 2)):
        heard = Heard(model)
        heard.run(speech(1))
        assert heard.rows == [1] * passes
        assert any("detects it first" in note for note in model.notes) == (passes == 2)


def test_overrides_reach_how_the_output_is_generated(tiny_model: GetTiny) -> None:
    folder = tiny_model("whisper").folder
    rows: list[int] = []
    for weights in ("pretrained", "random"):
        heard = Heard(load(folder, weights, overrides={"num_beams": 3}))
        heard.model.module.proj_out.register_forward_hook(lambda _, given, scores: rows.append(len(scores)))
        assert len(heard.run(speech(1))) == 1
        assert set(rows) == {3}, "one row of scores for each beam"
        assert "Decoding: beam search with 3 beams." in heard.model.notes
    with pytest.raises(ModelError, match=r"has no `num_beam`.*num_beams"):
        load(folder, overrides={"num_beam": 3})
    with pytest.raises(ModelError, match="has no `num_beams`"):
        load(folder, kind="AutoModel", overrides={"num_beams": 3})


def test_a_language_is_an_argument_of_generate_and_an_old_folder_says_what_it_lacks(
    tiny_model: GetTiny, tmp_path: Path
) -> None:
    model = load(SHIPPED, overrides=tiny.SHIPPED_WHISPER | {"language": "en", "task": "translate"})
    given: list[dict[str, Any]] = []
    generate = model.module.generate

    def noted(**named: Any) -> Any:
        given.append(named)
        return generate(**named)

    model.module.generate = noted
    Heard(model).run(speech(1))
    assert (given[0]["language"], given[0]["task"]) == ("en", "translate")
    assert "Decoding: greedy, language en." in model.notes
    with pytest.raises(ModelError, match=r"`language` needs `lang_to_id` in the generation_config.json"):
        load(tiny_model("whisper").folder, "pretrained", overrides={"language": "en"})


# -- its encoder alone, and its other head


@pytest.mark.parametrize("weights", ["pretrained", "random"])
def test_automodel_gives_the_hidden_states_of_the_encoder(weights: str, tiny_model: GetTiny) -> None:
    model = load(tiny_model("whisper").folder, weights, "AutoModel")
    heard = Heard(model)
    assert heard.run(speech(1, 2)).shape == (2, 1500, 16)
    assert heard.run(with_lengths(35, 10)).shape == (2, 3000, 16)
    assert heard.rows == [2, 2]
    assert heard.steps == 0
    assert model.output == "hidden states of the encoder"
    assert any("runs the encoder alone" in note for note in model.notes)
    assert any("takes 30 s at a time" in note for note in model.notes)


def test_a_classifier_hears_one_window(tiny_model: GetTiny) -> None:
    import torch

    model = load(tiny_model("whisper").folder, kind="AutoModelForAudioClassification", overrides={"num_labels": 3})
    with torch.no_grad():
        assert model.run(model.prepare(speech(1, 2))).shape == (2, 3)
    with pytest.raises(ModelError, match="takes 30 s at a time"):
        model.prepare(speech(31))
