"""SpeechBrain beyond recognition: speakers, languages, voice activity, separation, enhancement, by its own classes."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from profiler.audio import Batch, Speech
from profiler.errors import ModelError
from profiler.measure.parameters import count_parameters
from profiler.models.load import load_model
from profiler.models.model import Model, ModelRequest
from tests.conftest import TinyModel
from tests.helpers import tiny
from tests.integration.test_loading import content, flat, same

MAKERS: dict[str, tuple[str, Callable[[Path], dict[str, Any]]]] = {
    "ecapa": ("SpeakerRecognition", tiny.save_ecapa),
    "language-id": ("EncoderClassifier", tiny.save_language_id),
    "vad": ("VAD", tiny.save_vad),
    "sepformer": ("SepformerSeparation", tiny.save_sepformer),
    "spectral-mask": ("SpectralMaskEnhancement", tiny.save_spectral_mask),
    "waveform": ("WaveformEnhancement", tiny.save_waveform_enhancement),
}
GetMade = Callable[[str], TinyModel]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> GetMade:
    """Name -> a tiny model of an interface in a folder. Tests that change the folder work on a copy."""
    there: dict[str, TinyModel] = {}

    def get(name: str) -> TinyModel:
        if name not in there:
            kind, save = MAKERS[name]
            folder = tmp_path_factory.mktemp("models") / f"tiny-{name}"
            there[name] = TinyModel(folder, kind, save(folder))
        return there[name]

    return get


def load(model: TinyModel, weights: Any = "auto", folder: Path | None = None, **more: Any) -> Model:
    folder = folder or model.folder
    kind = more.pop("type", model.type)
    return load_model(ModelRequest(source=str(folder), type=kind, weights=weights, folder=folder, **more))


def speech(model: Model, seconds: float = 1.0, rows: int = 2, padding: float = 0.0) -> Batch:
    return Speech(tiny.SPEECH, model.rate).batch(seconds, rows, seed=0, padding=padding)


def run(model: Model, batch: Batch) -> Any:
    import torch

    with torch.no_grad():
        return model.run(model.prepare(batch))


def loaded_state(model: Model) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, part in model.module.hparams.pretrainer.loadables.items():
        if hasattr(part, "lab2ind"):
            found[name] = part.lab2ind
        else:
            found[name] = part._statistics_dict() if hasattr(part, "_statistics_dict") else part.state_dict()
    return found


# -- weights


@pytest.mark.parametrize("name", MAKERS)
def test_a_folder_is_loaded_with_the_weights_that_were_saved_in_it(
    name: str, made: GetMade, network: list[Any]
) -> None:
    there = made(name)
    before = content(there.folder)

    model = load(there)

    assert model.weights == "pretrained"
    assert model.notes == []
    assert same(loaded_state(model), there.saved)
    assert not model.module.training
    run(model, speech(model))
    assert content(there.folder) == before
    assert network == []


@pytest.mark.parametrize("name", MAKERS)
def test_random_weights_of_the_same_folder_are_others(name: str, made: GetMade, network: list[Any]) -> None:
    there = made(name)
    model = load(there, "random")
    assert model.weights == "random"
    assert model.notes == []
    random, saved = flat(loaded_state(model)), flat(there.saved)
    computed = ("pos_enc", "running_", "glob_")
    drawn = [
        key
        for key, value in saved.items()
        if value.is_floating_point() and len(value.unique()) > 1 and not any(part in key for part in computed)
    ]
    assert len(drawn) > 2
    assert [key for key in drawn if same(random[key], saved[key])] == []
    run(model, speech(model))
    assert network == []


def test_a_copy_of_a_published_model_finds_its_files_beside_it(
    made: GetMade, tmp_path: Path, network: list[Any]
) -> None:
    there = made("ecapa")
    folder = tmp_path / "copied"
    shutil.copytree(there.folder, folder)
    description = folder / "hyperparams.yaml"
    text = description.read_text().replace("<architecture_folder>/label", "<pretrained_path>/label")
    description.write_text(text + "\npretrained_path: speechbrain/spkrec-ecapa-voxceleb  # as on the hub\n")

    model = load(there, folder=folder)

    assert same(loaded_state(model), there.saved)
    assert network == []
    other = tmp_path / "elsewhere"
    other.mkdir()
    (folder / "label_encoder.txt").rename(other / "label_encoder.txt")
    assert same(loaded_state(load(there, folder=folder, overrides={"pretrained_path": str(other)})), there.saved)


def test_the_published_generator_of_metricgan_fits_into_what_ships() -> None:
    import torch

    from profiler.models.torchaudio.on_cpu import ensure_torchaudio

    ensure_torchaudio()
    from speechbrain.lobes.models.MetricGAN import EnhancementGenerator

    folder = tiny.ARCHITECTURES / "metricgan-plus-voicebank"
    shipped = load_model(ModelRequest(source=str(folder), type="SpectralMaskEnhancement", folder=folder)).module
    published = EnhancementGenerator().eval()
    mask = shipped.mods.enhance_model
    mask.load_state_dict(published.state_dict(), strict=True)
    spectrum, lengths = torch.rand(2, 20, 257), torch.tensor([1.0, 0.5])
    with torch.no_grad():
        assert torch.equal(mask(spectrum, lengths=lengths), published(spectrum, lengths=lengths))


# -- what comes out


def test_a_speaker_embedding_is_one_vector_a_recording(made: GetMade) -> None:
    model = load(made("ecapa"))
    assert model.output == "embedding"
    for seconds in (0.5, 2):
        assert run(model, speech(model, seconds, rows=3)).shape == (3, 1, tiny.ECAPA["embedding_size"])


def test_the_same_folder_names_speakers_with_the_other_type(made: GetMade) -> None:
    model = load(made("ecapa"), type="EncoderClassifier")
    assert all(label.startswith("label ") for label in run(model, speech(model))[3])


@pytest.mark.parametrize("rows", [1, 3])
def test_a_language_has_scores_and_the_label_that_was_saved_with_it(rows: int, made: GetMade) -> None:
    there = made("language-id")
    model = load(there)
    assert model.output == "class scores"
    scores, best, index, labels = run(model, speech(model, rows=rows))
    assert scores.shape == (rows, 5)
    assert best.shape == index.shape == (rows,)
    assert labels == [f"label {number}" for number in scores.argmax(1).tolist()]
    assert set(labels) <= set(there.saved["label_encoder"])


def test_without_trained_labels_classes_are_numbered(made: GetMade) -> None:
    model = load(made("language-id"), "random")
    scores, _, _, labels = run(model, speech(model))
    assert labels == [f"class {number}" for number in scores.argmax(1).tolist()]


def test_without_a_file_of_labels_classes_are_numbered_and_that_is_said(made: GetMade, tmp_path: Path) -> None:
    there = made("language-id")
    folder = tmp_path / "nameless"
    shutil.copytree(there.folder, folder, ignore=shutil.ignore_patterns("label_encoder.txt"))
    model = load(there, folder=folder)
    assert model.weights == "pretrained"
    assert model.notes == ["There are no labels beside the model: its classes are numbered, not named."]
    assert all(label.startswith("class ") for label in run(model, speech(model))[3])


def test_voice_activity_is_a_probability_each_ten_milliseconds(made: GetMade) -> None:
    model = load(made("vad"))
    assert model.output == "speech probabilities"
    for seconds in (1, 12):
        found = run(model, speech(model, seconds))
        assert found.shape == (2, 100 * seconds + 1, 1)
        assert 0 <= found.min() < found.max() <= 1


def test_a_model_for_8_khz_gets_8_khz_and_gives_each_speaker_all_seconds(made: GetMade) -> None:
    model = load(made("sepformer"))
    assert model.output == "separated waveforms"
    assert model.rate == 8000
    batch = speech(model, 1.5)
    assert batch.waveforms.shape == (2, 12000)
    assert run(model, batch).shape == (2, 12000, 2)


@pytest.mark.parametrize("name", ["spectral-mask", "waveform"])
def test_enhanced_speech_is_as_long_as_the_noisy_speech(name: str, made: GetMade) -> None:
    model = load(made(name))
    assert model.output == "enhanced waveforms"
    batch = speech(model, 1.5)
    enhanced = run(model, batch)
    missing = batch.waveforms.shape[1] - enhanced.shape[1]
    assert enhanced.shape[0] == 2
    assert 0 <= missing / model.rate < 0.01, "SpeechBrain's ResNet leaves out the last part of a frame"


# -- padding


@pytest.mark.parametrize("name", MAKERS)
def test_padded_batches_run(name: str, made: GetMade) -> None:
    model = load(made(name))
    batch = speech(model, rows=3, padding=0.5)
    assert batch.lengths[1:].max() < batch.lengths[0]
    prepared = model.prepare(batch)
    assert len(prepared) == (1 if name == "sepformer" else 2), "SepFormer has no way to be told of padding"
    run(model, batch)


def test_padding_is_left_out_of_an_embedding(made: GetMade) -> None:
    import torch

    model = load(made("ecapa"))
    waveforms, lengths = model.prepare(speech(model, padding=0.5))
    with torch.no_grad():
        told, untold = model.run((waveforms, lengths)), model.run((waveforms, torch.ones(2)))
    assert torch.equal(told[0], untold[0])
    assert not torch.allclose(told[1], untold[1], atol=1e-3)


def test_a_mask_model_that_takes_no_lengths_is_given_none(made: GetMade, tmp_path: Path) -> None:
    there = made("spectral-mask")
    folder = tmp_path / "plain"
    shutil.copytree(there.folder, folder)
    description = folder / "hyperparams.yaml"
    description.write_text(description.read_text().replace("LengthsCapableSequential", "Sequential"))
    model = load(there, folder=folder)
    batch = speech(model, padding=0.5)
    assert len(model.prepare(batch)) == 1
    assert run(model, batch).shape == batch.waveforms.shape


# -- parts


def test_parts_that_are_also_saved_as_a_list_keep_their_names(made: GetMade, tmp_path: Path) -> None:
    there = made("vad")
    folder = tmp_path / "as-published"
    shutil.copytree(there.folder, folder)
    description = folder / "hyperparams.yaml"
    text = description.read_text().replace("\nmodules:\n", "\nmodules:\n    model: !ref <model>\n")
    description.write_text(text)
    counts = count_parameters(load(there, folder=folder))
    assert list(counts.components) == ["cnn", "rnn", "dnn"]
    assert sum(counts.components.values()) == counts.total


# -- the wrong type


@pytest.mark.parametrize("weights", ["pretrained", "random"])
@pytest.mark.parametrize(
    ("name", "kind", "says"),
    [
        ("language-id", "VAD", "no `time_resolution`"),
        ("sepformer", "VAD", "no `time_resolution`"),
        ("vad", "SpeakerRecognition", "no module `embedding_model`"),
        ("vad", "SepformerSeparation", "no module `encoder`"),
        ("sepformer", "EncoderClassifier", "no module `compute_features`"),
        ("sepformer", "SpectralMaskEnhancement", "no `compute_stft`"),
        ("ecapa", "WaveformEnhancement", "no module `enhance_model`"),
        ("ecapa", "EncoderASR", "no `tokenizer`"),
        ("sepformer", "EncoderDecoderASR", "no `tokenizer`"),
    ],
)
def test_the_wrong_type_is_one_clear_sentence(name: str, kind: str, says: str, weights: str, made: GetMade) -> None:
    there = made(name)
    with pytest.raises(ModelError, match=says) as caught:
        load(there, weights, type=kind)
    message = str(caught.value)
    assert message.startswith(f"{there.folder} is no {kind}: it")
    assert message.endswith(f"Is {kind} the right type for this model?")
    assert "\n" not in message


def test_the_wrong_type_for_a_recogniser_is_named(tiny_model: GetMade) -> None:
    there = tiny_model("crdnn")
    for kind in ("VAD", "EncoderClassifier", "SepformerSeparation", "WaveformEnhancement"):
        with pytest.raises(ModelError, match=f"is no {kind}: "):
            load(there, type=kind)


def test_a_missing_checkpoint_is_named(made: GetMade, tmp_path: Path) -> None:
    there = made("language-id")
    folder = tmp_path / "incomplete"
    shutil.copytree(there.folder, folder, ignore=shutil.ignore_patterns("classifier.ckpt"))
    with pytest.raises(ModelError, match=r"classifier\.ckpt"):
        load(there, folder=folder)
