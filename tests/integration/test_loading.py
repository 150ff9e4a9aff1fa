"""Models are loaded from folders by the libraries' own code, with their weights or with random ones."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from profiler.audio import Batch, Speech
from profiler.errors import ModelError
from profiler.models.load import load_model
from profiler.models.model import Model, ModelRequest
from tests.conftest import MAKERS, TinyModel
from tests.helpers import tiny

GetTiny = Callable[[str], TinyModel]


def request(model: TinyModel, weights: Any = "auto", folder: Path | None = None, **more: Any) -> ModelRequest:
    folder = folder or model.folder
    return ModelRequest(source=str(folder), type=more.pop("type", model.type), weights=weights, folder=folder, **more)


def batch(seconds: float = 1.0, rows: int = 2) -> Batch:
    return Speech(tiny.SPEECH, 16000).batch(seconds, rows, seed=0)


def run(model: Model, rows: int = 2) -> Any:
    import torch

    with torch.no_grad():
        return model.run(model.prepare(batch(rows=rows)))


def loaded_state(model: Model) -> dict[str, Any]:
    """What tiny's makers gave back: a state dict, or one for each checkpoint of a SpeechBrain model."""
    hparams = getattr(model.module, "hparams", None)
    if hparams is None:
        return dict(model.module.state_dict())
    parts = hparams.pretrainer.loadables
    return {
        name: part._statistics_dict() if hasattr(part, "_statistics_dict") else part.state_dict()
        for name, part in parts.items()
    }


def same(left: Any, right: Any) -> bool:
    import torch

    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    return torch.equal(left, right) if isinstance(left, torch.Tensor) else bool(left == right)


def content(folder: Path) -> dict[str, tuple[bool, str]]:
    """Every file of a folder: is it a link, and what is in it."""
    return {
        str(path.relative_to(folder)): (path.is_symlink(), hashlib.sha256(path.read_bytes()).hexdigest())
        for path in folder.rglob("*")
        if path.is_file() or path.is_symlink()
    }


# -- a folder on disk


@pytest.mark.parametrize("name", MAKERS)
def test_a_folder_is_loaded_with_the_weights_that_were_saved_in_it(
    name: str, tiny_model: GetTiny, network: list[Any]
) -> None:
    made = tiny_model(name)
    before = content(made.folder)

    model = load_model(request(made))

    assert model.weights == "pretrained"
    assert not any("random weights" in note for note in model.notes)
    assert same(loaded_state(model), made.saved)
    assert not model.module.training
    assert network == []
    run(model)
    assert content(made.folder) == before


@pytest.mark.parametrize("name", [name for name in MAKERS if name not in ("encoder", "classifier")])
@pytest.mark.parametrize("rows", [1, 3])
def test_a_recogniser_gives_a_text_for_each_recording(name: str, rows: int, tiny_model: GetTiny) -> None:
    model = load_model(request(tiny_model(name)))
    texts = run(model, rows)
    assert model.output == "text"
    assert len(texts) == rows
    assert all(isinstance(text, str) and text for text in texts)


def test_an_encoder_gives_hidden_states_fifty_a_second(tiny_model: GetTiny) -> None:
    model = load_model(request(tiny_model("encoder")))
    assert model.output == "hidden states"
    assert run(model).shape == (2, 49, tiny.WAV2VEC2["hidden_size"])


def test_a_classifier_gives_scores_for_its_classes(tiny_model: GetTiny) -> None:
    model = load_model(request(tiny_model("classifier")))
    assert model.output == "class scores"
    assert run(model).shape == (2, 3)


@pytest.mark.parametrize("name", MAKERS)
def test_random_weights_of_the_same_folder_are_others_and_need_no_network(
    name: str, tiny_model: GetTiny, network: list[Any]
) -> None:
    made = tiny_model(name)
    model = load_model(request(made, "random"))
    assert model.weights == "random"
    # What is saved with the weights but computed, not drawn (positions, filters, a norm's start), may be alike.
    random, saved = flat(loaded_state(model)), flat(made.saved)
    assert {key: value.shape for key, value in random.items()} == {key: value.shape for key, value in saved.items()}
    drawn = [key for key in saved if saved[key].is_floating_point() and saved[key].float().std() > 0]
    assert len(drawn) > 4
    fixed = [key for key in drawn if same(random[key], saved[key])]
    computed = ("position", "mel_filters", "running_")
    assert [key for key in fixed if not any(part in key for part in computed)] == []
    run(model)
    assert network == []


def flat(state: dict[str, Any]) -> dict[str, Any]:
    import torch

    found = {}
    for key, value in state.items():
        if isinstance(value, dict):
            found.update({f"{key}.{inner}": tensor for inner, tensor in flat(value).items()})
        elif isinstance(value, torch.Tensor):
            found[key] = value
    return found


def test_random_weights_are_the_same_for_the_same_seed(tiny_model: GetTiny) -> None:
    made = tiny_model("ctc")
    one, again, other = (load_model(request(made, "random", seed=seed)) for seed in (1, 1, 2))
    assert same(loaded_state(one), loaded_state(again))
    assert not same(loaded_state(one), loaded_state(other))


def test_random_weights_replace_those_of_a_backbone_too(tiny_model: GetTiny, tmp_path: Path) -> None:
    made = tiny_model("speechbrain-whisper")
    folder = tmp_path / "model"
    shutil.copytree(made.folder, folder)
    shutil.copy(tiny_model("whisper").folder / "model.safetensors", folder / "whisper")
    model = load_model(request(made, "random", folder))
    name = "model.decoder.embed_tokens.weight"
    assert not same(loaded_state(model)["whisper"][name], made.saved["whisper"][name])


def test_a_folder_without_weights_is_built_with_random_ones_and_says_so(tiny_model: GetTiny, tmp_path: Path) -> None:
    made = tiny_model("ctc")
    folder = tmp_path / "described"
    shutil.copytree(made.folder, folder, ignore=shutil.ignore_patterns("*.safetensors"))

    model = load_model(request(made, folder=folder))

    assert model.weights == "random"
    (note,) = model.notes
    assert "holds no weights" in note
    assert "random weights" in note
    assert all(isinstance(text, str) for text in run(model))
    with pytest.raises(ModelError, match="holds no weights"):
        load_model(request(made, "pretrained", folder))


def test_without_a_tokenizer_the_output_is_token_ids_and_says_so(tiny_model: GetTiny, tmp_path: Path) -> None:
    made = tiny_model("ctc")
    folder = tmp_path / "no-vocabulary"
    shutil.copytree(made.folder, folder, ignore=shutil.ignore_patterns("vocab.json", "tokenizer*"))
    model = load_model(request(made, folder=folder))
    assert model.notes == ["There is no tokenizer beside the model: its final output is token ids, not text."]
    assert model.output == "token ids"
    assert run(model).shape == (2, 49)


def test_weights_saved_in_half_precision_run_in_float32(tiny_model: GetTiny, tmp_path: Path) -> None:
    import torch
    from transformers import AutoModelForCTC

    made = tiny_model("ctc")
    folder = tmp_path / "half"
    shutil.copytree(made.folder, folder)
    AutoModelForCTC.from_pretrained(folder).half().save_pretrained(folder)
    for weights in ("pretrained", "random"):
        model = load_model(request(made, weights, folder))
        assert {parameter.dtype for parameter in model.module.parameters()} == {torch.float32}
        run(model)


# -- overrides


def test_overrides_change_a_transformers_model(tiny_model: GetTiny) -> None:
    made = tiny_model("ctc")
    random = load_model(request(made, "random", overrides={"num_hidden_layers": 3}))
    assert len(random.module.wav2vec2.encoder.layers) == 3
    pretrained = load_model(request(made, overrides={"hidden_dropout": 0.25}))
    assert pretrained.module.config.hidden_dropout == 0.25
    assert same(loaded_state(pretrained), made.saved)


def test_overrides_change_a_speechbrain_model(tiny_model: GetTiny) -> None:
    made = tiny_model("crdnn")
    random = load_model(request(made, "random", overrides={"rnn_neurons": 6, "beam_size": 2}))
    assert random.module.mods.decoder.beam_size == 2
    assert flat(loaded_state(random))["asr.0.RNN.rnn.weight_hh_l0"].shape == (4 * 6, 6)
    pretrained = load_model(request(made, overrides={"beam_size": 3}))
    assert pretrained.module.mods.decoder.beam_size == 3
    assert same(loaded_state(pretrained), made.saved)


@pytest.mark.parametrize("weights", ["pretrained", "random"])
@pytest.mark.parametrize(
    ("name", "overrides", "says"),
    [
        ("ctc", {"hiden_size": 32}, "no `hiden_size`. Did you mean `hidden_size`?"),
        ("crdnn", {"beem_size": 2}, "beem_size"),
        ("french", {"wav2vec2": {"hiden_size": 32}}, "no `hiden_size`"),
    ],
)
def test_an_unknown_override_is_refused(
    name: str, overrides: dict[str, Any], says: str, weights: str, tiny_model: GetTiny
) -> None:
    with pytest.raises(ModelError, match=says.replace("?", r"\?")):
        load_model(request(tiny_model(name), weights, overrides=overrides))


@pytest.mark.parametrize(
    ("name", "overrides", "says"),
    [("ctc", {"hidden_size": 32}, "weights: random"), ("crdnn", {"rnn_neurons": 6}, "size mismatch")],
)
def test_saved_weights_cannot_be_given_other_sizes(
    name: str, overrides: dict[str, Any], says: str, tiny_model: GetTiny
) -> None:
    with pytest.raises(ModelError, match=says):
        load_model(request(tiny_model(name), overrides=overrides))


# -- what does not fit, or is damaged


@pytest.mark.parametrize(
    ("name", "kind", "says"),
    [
        ("encoder", "AutoModelForCTC", "hold nothing for `lm_head`"),
        ("encoder", "AutoModelForAudioClassification", "right type"),
        ("encoder", "AutoModelForSpeechSeq2Seq", "is a `hubert`.*set type: AutoModel or"),
        ("crdnn", "EncoderASR", "decoding_function"),
        ("french", "EncoderDecoderASR", "no module `decoder`"),
        ("french", "WhisperASR", "language"),
    ],
)
def test_the_wrong_interface_for_a_folder_is_named(name: str, kind: str, says: str, tiny_model: GetTiny) -> None:
    with pytest.raises(ModelError, match=says) as caught:
        load_model(request(tiny_model(name), type=kind))
    assert kind in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "file", "says"),
    [
        ("ctc", "model.safetensors", "damaged"),
        ("ctc", "config.json", "config.json"),
        ("crdnn", "asr.ckpt", "damaged"),
        ("crdnn", "hyperparams.yaml", "cannot load"),
    ],
)
@pytest.mark.parametrize("damage", [b"", b"{[ nonsense"])
def test_a_damaged_file_is_an_error_in_a_sentence(
    name: str, file: str, says: str, damage: bytes, tiny_model: GetTiny, tmp_path: Path
) -> None:
    made = tiny_model(name)
    folder = tmp_path / "damaged"
    shutil.copytree(made.folder, folder)
    (folder / file).write_bytes(damage)
    with pytest.raises(ModelError, match=says) as caught:
        load_model(request(made, folder=folder))
    assert str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_checkpoint_is_named(tiny_model: GetTiny, tmp_path: Path) -> None:
    made = tiny_model("crdnn")
    folder = tmp_path / "incomplete"
    shutil.copytree(made.folder, folder, ignore=shutil.ignore_patterns("lm.ckpt"))
    with pytest.raises(ModelError, match=r"lm\.ckpt"):
        load_model(request(made, folder=folder))


# -- what a model can hear


def test_speechbrains_whisper_is_not_measured_on_more_audio_than_it_hears(tiny_model: GetTiny) -> None:
    model = load_model(request(tiny_model("speechbrain-whisper")))
    model.prepare(batch(30.0))
    with pytest.raises(ModelError, match="takes 30 s at a time"):
        model.prepare(batch(30.5))


def test_other_models_hear_everything(tiny_model: GetTiny) -> None:
    import torch

    model = load_model(request(tiny_model("encoder")))
    with torch.no_grad():
        assert model.run(model.prepare(batch(40.0, 1))).shape[1] == 1999
