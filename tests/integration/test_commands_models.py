"""The ASR models for commands and their test speech: SpeechBrain itself and the profiler load the trained weights."""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import jiwer
import pytest
import soundfile

from profiler.audio import Batch, pad
from profiler.models.load import load_model
from profiler.models.model import Model, ModelRequest
from profiler.models.torchaudio.on_cpu import ensure_torchaudio

REPOSITORY = Path(__file__).resolve().parents[2]
MODELS = REPOSITORY / "recipes" / "models"
SPEECH = REPOSITORY / "samples" / "commands"
NAMES = ("lstm-commands", "conformer-commands")
RATE = 16_000
CLEAN = "30"  # dB over the noise
WORDS_RIGHT = 0.8  # far below what the models reach on clean speech, so that another machine's rounding is no failure


@pytest.fixture(scope="module")
def scripts() -> Any:
    """The scripts that make the speech, as they import each other."""
    sys.path[:0] = [str(SPEECH), str(MODELS)]
    try:
        import commands_corpus

        yield commands_corpus
    finally:
        del sys.path[:2]


@cache
def rows() -> list[dict[str, str]]:
    with (SPEECH / "test.csv").open(encoding="ascii", newline="") as file:
        return list(csv.DictReader(file))


def batch(chosen: list[dict[str, str]]) -> Batch:
    return pad([soundfile.read(SPEECH / row["audio"], dtype="float32")[0] for row in chosen], RATE)


@cache
def load(name: str, ctc_weight: float) -> Model:
    folder = MODELS / name
    overrides = {"ctc_weight": ctc_weight}
    return load_model(ModelRequest(str(folder), "EncoderDecoderASR", "pretrained", folder, overrides=overrides))


def clean_rows(count: int = 10) -> list[dict[str, str]]:
    """Clean utterances, each in a voice of its own."""
    by_voice = {row["voice"]: row for row in rows() if row["snr_db"] == CLEAN}
    return list(by_voice.values())[:count]


def right(chosen: list[dict[str, str]], texts: list[str]) -> float:
    return 1 - float(jiwer.wer([row["text"] for row in chosen], texts))


@pytest.mark.parametrize("name", NAMES)
def test_speechbrain_loads_the_folder_and_knows_clean_words(name: str) -> None:
    ensure_torchaudio()
    import torch
    from speechbrain.inference.ASR import EncoderDecoderASR
    from speechbrain.utils.fetching import LocalStrategy

    model = EncoderDecoderASR.from_hparams(
        source=str(MODELS / name), savedir=None, local_strategy=LocalStrategy.NO_LINK
    )
    chosen = clean_rows()
    made = batch(chosen)
    lengths = torch.from_numpy(made.lengths / made.waveforms.shape[1]).float()
    texts, _ = model.transcribe_batch(torch.from_numpy(made.waveforms), lengths)
    assert right(chosen, texts) >= WORDS_RIGHT


@pytest.mark.parametrize("ctc_weight", [0, 0.3, 1])
@pytest.mark.parametrize("name", NAMES)
def test_every_ctc_weight_recognises_through_the_profiler(name: str, ctc_weight: float) -> None:
    model = load(name, ctc_weight)
    chosen = clean_rows()
    texts = model.run(model.prepare(batch(chosen)))
    assert right(chosen, texts) >= WORDS_RIGHT


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("ctc_weight", "ctc_runs", "decoder_runs"), [(0, 0, 1), (0.3, 1, 1), (1, 1, 0)])
def test_the_ctc_weight_decides_which_half_of_the_model_runs(
    name: str, ctc_weight: float, ctc_runs: int, decoder_runs: int
) -> None:
    model = load(name, ctc_weight)
    calls = {"ctc": 0, "decoder": 0}
    searcher = model.module.mods["decoder"]

    def count(part: str) -> Callable[..., None]:
        return lambda *_: calls.update({part: 1})

    hooks = [
        model.module.mods["ctc"].register_forward_hook(count("ctc")),
        searcher.fc.register_forward_hook(count("decoder")),
    ]
    try:
        model.run(model.prepare(batch(clean_rows(1))))
    finally:
        for hook in hooks:
            hook.remove()
    assert calls == {"ctc": ctc_runs, "decoder": decoder_runs}


def test_a_batch_is_transcribed_as_its_utterances_are() -> None:
    """Padding is not speech: in a batch of clean utterances no more than a word or so changes."""
    model, chosen = load("lstm-commands", 0.3), clean_rows(4)
    together = model.run(model.prepare(batch(chosen)))
    alone = [model.run(model.prepare(batch([row])))[0] for row in chosen]
    assert jiwer.wer(alone, together) <= 1 - WORDS_RIGHT


def test_with_random_weights_tokens_are_numbered_and_no_word_comes_out() -> None:
    """The tokenizer comes with the weights: without them the output cannot be mistaken for a transcript."""
    folder = MODELS / "lstm-commands"
    model = load_model(ModelRequest(str(folder), "EncoderDecoderASR", "random", folder))
    (text,) = model.run(model.prepare(batch(clean_rows(1))))
    assert model.weights == "random"
    assert re.fullmatch(r"t\d+( t\d+)*", text)


@pytest.mark.parametrize("name", NAMES)
def test_the_weights_are_plain_tensors_and_small(name: str) -> None:
    import torch

    file = MODELS / name / "asr.ckpt"
    weights = torch.load(file, weights_only=True)
    assert all(isinstance(value, torch.Tensor) for value in weights.values())
    assert file.stat().st_size < 8_000_000


def test_the_models_are_of_similar_size() -> None:
    lstm, conformer = ((MODELS / name / "asr.ckpt").stat().st_size for name in NAMES)
    assert 0.8 < lstm / conformer < 1.25


def test_the_manifest_agrees_with_the_audio() -> None:
    for row in rows():
        info = soundfile.info(SPEECH / row["audio"])
        assert (info.samplerate, info.channels) == (RATE, 1), row["id"]
        assert info.duration == pytest.approx(float(row["seconds"]), abs=1e-4), row["id"]
    on_disk = {path.relative_to(SPEECH).as_posix() for path in SPEECH.rglob("*.flac")}
    assert on_disk == {row["audio"] for row in rows()}
    assert len({row["id"] for row in rows()}) == len(rows()) >= 120


def test_the_librispeech_transcripts_are_those_of_the_manifest() -> None:
    (file,) = SPEECH.rglob("*.trans.txt")
    lines = [line.split(" ", 1) for line in file.read_text(encoding="ascii").splitlines()]
    assert lines == [[row["id"], row["text"]] for row in rows()]
    assert all((file.parent / f"{name}.flac").is_file() for name, _ in lines)


def test_the_vocabulary_is_closed_and_the_tokenizer_knows_it(scripts: Any) -> None:
    import sentencepiece

    words = {word for row in rows() for word in row["text"].split()}
    assert words <= set(scripts.sentences.VOCABULARY)
    for name in NAMES:
        tokenizer = sentencepiece.SentencePieceProcessor(model_file=str(MODELS / name / "tokenizer.ckpt"))
        ids = [tokenizer.encode_as_ids(word) for word in scripts.sentences.VOCABULARY]
        assert sorted(number for one in ids for number in one) == list(range(4, tokenizer.get_piece_size()))


def test_no_test_sentence_and_no_test_voice_was_trained_on(scripts: Any) -> None:
    training = scripts.training_list()
    assert not {row["text"] for row in rows()} & {said.text for said in training}

    def variants(voices: set[str]) -> set[str]:
        return {voice.split("+")[1] for voice in voices}

    assert not variants({row["voice"] for row in rows()}) & variants({said.voice for said in training})


def test_the_lists_depend_on_their_seeds_alone(scripts: Any) -> None:
    assert scripts.training_list(50) == scripts.training_list(50) == scripts.training_list(60)[:50]
    made = [(name, said.text, said.voice, str(snr)) for name, said, snr in scripts.make.test_list()]
    assert made == [(row["id"], row["text"], row["voice"], row["snr_db"]) for row in rows()]
