"""What a model is, found by looking: names, files of a folder, a description. Nothing of it is run."""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path

import pytest

from profiler.errors import ModelError
from profiler.models.identify import could_be_model, identify
from profiler.recipe.load import load_recipe
from profiler.shipped import shipped_recipes
from tests.helpers.tiny import recipe_text


def test_the_shipped_recipes_name_what_would_be_found() -> None:
    tried = 0
    for path in shipped_recipes().values():
        model = load_recipe(path, trust=True, read_audio=False).recipe.pretrained_model
        if model.architecture or model.type in ("ConformerTransducer", "Mockingjay", "TERA", "Bundle"):
            continue  # its source is a name that only its recipe explains
        found = identify(model.source, path.parent)
        assert model.type in (found.type, *found.others), path.name
        tried += 1
    assert tried > 15


def test_a_config_without_a_head_of_ours_is_an_encoder(tmp_path: Path) -> None:
    for architectures, first in (
        (["Wav2Vec2ForCTC"], "AutoModelForCTC"),
        (["Wav2Vec2ForXVector"], "AutoModelForAudioXVector"),
        (["Wav2Vec2ForPreTraining"], "AutoModel"),
    ):
        (tmp_path / "config.json").write_text(json.dumps({"model_type": "wav2vec2", "architectures": architectures}))
        found = identify(str(tmp_path), Path())
        assert (found.type, architectures[0] in found.because) == (first, True)
        assert "AutoModelForAudioClassification" in found.others


def test_a_speechbrain_folder_is_told_by_its_modules_without_running_its_tags(tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    (tmp_path / "hyperparams.yaml").write_text(
        f'boom: !apply:os.system ["touch {canary}"]\nmodules: {{encoder: 1, decoder: 2}}\n'
    )
    found = identify(str(tmp_path), Path())
    assert (found.type, found.others) == ("EncoderDecoderASR", ("EncoderASR",))
    assert not canary.exists()


def test_folders_that_were_exported_for_an_engine_are_told_by_their_files(tmp_path: Path) -> None:
    onnx, converted = tmp_path / "onnx-model", tmp_path / "converted"
    (onnx / "onnx").mkdir(parents=True)
    converted.mkdir()
    (onnx / "config.json").write_text(json.dumps({"model_type": "whisper"}))
    for name in ("encoder_model.onnx", "decoder_model_merged.onnx"):
        (onnx / "onnx" / name).write_bytes(b"")
    found = identify(str(onnx), Path())
    assert (found.type, "encoder_model.onnx, decoder_model_merged.onnx" in found.because) == ("ONNX", True)
    (onnx / "model.safetensors").write_bytes(b"")
    found = identify(str(onnx), Path())
    assert (found.type, found.others[-1]) == ("AutoModelForSpeechSeq2Seq", "ONNX")
    for name in ("model.bin", "config.json", "vocabulary.json"):
        (converted / name).write_text("{}")
    assert identify(str(converted), Path()).type == "CTranslate2"
    assert could_be_model(str(converted))


def test_a_folder_of_ctranslate2_that_lacks_files_is_told_which(tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(b"\6\0\0\0\x0c\0WhisperSpec\0")  # as CTranslate2 begins it
    with pytest.raises(ModelError, match=r"without config\.json and vocabulary\.json: copy what is missing"):
        identify(str(tmp_path), Path())
    (tmp_path / "config.json").write_text('{"suppress_ids": []}')
    (tmp_path / "vocabulary.txt").write_text("")
    with pytest.raises(ModelError, match=r"without vocabulary\.json \(vocabulary\.txt of older.*ct2-transformers-conv"):
        identify(str(tmp_path), Path())
    (tmp_path / "vocabulary.json").write_text("[]")
    assert identify(str(tmp_path), Path()).type == "CTranslate2"


def test_a_class_is_told_by_its_name_and_not_imported(tmp_path: Path) -> None:
    (tmp_path / "booby_trap.py").write_text("raise SystemExit(7)\n")
    assert identify("booby_trap.Encoder", tmp_path).type == "Module"
    assert "booby_trap" not in sys.modules
    with pytest.raises(ModelError, match="no package or file `nowhere`"):
        identify("nowhere.Encoder", tmp_path)


def test_files_are_told_by_what_is_in_them(tmp_path: Path) -> None:
    script, weights = tmp_path / "model.pt", tmp_path / "weights.pt"
    with zipfile.ZipFile(script, "w") as file:
        file.writestr("model/code/__torch__.py", "")
    with zipfile.ZipFile(weights, "w") as file:
        file.writestr("weights/data.pkl", "")
    assert identify(str(script), Path()).type == "TorchScript"
    with pytest.raises(ModelError, match=r"is a file of weights.*set its `checkpoint`"):
        identify(str(weights), Path())
    (tmp_path / "model.onnx").write_bytes(b"")
    assert identify(str(tmp_path / "model.onnx"), Path()).type == "ONNX"


def test_what_cannot_be_told_is_said_with_what_was_seen(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(ModelError, match=r"holds none of hyperparams.yaml, config.json.*it holds notes.txt"):
        identify(str(tmp_path), Path())
    (tmp_path / "config.json").write_text('{"model_type": "from_the_future"}')
    with pytest.raises(ModelError, match="`from_the_future`, which the installed transformers does not have"):
        identify(str(tmp_path), Path())


def test_bundles_and_packages_are_known_by_name() -> None:
    assert identify("torchaudio:HUBERT_BASE", Path()).type == "Wav2Vec2Bundle"
    assert identify("HUBERT_BASE", Path()).source == "torchaudio:HUBERT_BASE"
    assert identify("silero_vad", Path()).type == "SileroVAD"


def test_a_recipe_is_no_model_and_a_missing_recipe_neither(tmp_path: Path) -> None:
    assert not could_be_model("recipes/no-such-recipe")
    assert not could_be_model("recipes/wav2vec2.yaml")
    assert not could_be_model("wav2vec")
    assert could_be_model("openai/whisper-tiny")
    assert could_be_model("torch.nn.ReLU")


def test_type_auto_in_a_recipe_is_replaced_by_what_was_found(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(recipe_text("openai/whisper-tiny", "auto"))
    assert load_recipe(recipe).recipe.pretrained_model.type == "AutoModelForSpeechSeq2Seq"
    recipe.write_text(recipe_text("./nothing", "auto"))
    with pytest.raises(Exception, match=r"recipe.yaml:3.*auto: There is no folder or file ./nothing"):
        load_recipe(recipe)
