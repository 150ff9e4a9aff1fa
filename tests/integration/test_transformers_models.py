"""Every kind of speech model that transformers has goes through one path; the docs say which were tried."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from profiler.audio import Speech
from profiler.errors import ModelError
from profiler.measure.parameters import count_parameters
from profiler.models.load import build_for_counting
from profiler.models.model import Model, ModelRequest
from tests.helpers import program, tiny, zoo

ROWS = 2


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kinds")


def folder_of(kind: zoo.Kind, folders: Path) -> Path:
    folder = folders / f"{kind.name}-{kind.type}"
    if not folder.exists():
        kind.save(folder)
    return folder


def named(name: str, kind: str) -> zoo.Kind:
    return next(each for each in zoo.KINDS if (each.name, each.type) == (name, kind))


def load(kind: zoo.Kind, folders: Path, **more: Any) -> Model:
    return zoo.load(kind, folders / f"{kind.name}-{kind.type}", **more)


def call(model: Model, seconds: float = 1.0, rows: int = ROWS) -> Any:
    import torch

    with torch.no_grad():
        return model.run(model.prepare(Speech(tiny.SPEECH, model.rate).batch(seconds, rows, seed=0)))


def check(output: str, found: Any) -> None:
    """What comes out is what the output's name says."""
    if output == "text":
        assert len(found) == ROWS
        assert all(isinstance(text, str) for text in found)
    elif output == "codes and audio":
        assert len(found.audio_values) == ROWS
        assert not found.audio_codes.is_floating_point()
    elif output == "audio embeddings":
        assert getattr(found, "pooler_output", found).shape == (ROWS, 16)
    else:
        assert len(found) == ROWS
        dimensions = {"class scores": 2, "speaker embeddings": 2, "speech": 2}
        assert found.dim() == dimensions.get(output, 3), output


@pytest.mark.slow
def test_every_kind_runs_as_it_is_counted_and_the_table_in_the_docs_is_current(folders: Path) -> None:
    assert len(zoo.KINDS) >= 30
    rows = []
    for kind in zoo.KINDS:
        model = load(kind, folders)
        assert model.weights == "pretrained", kind.name
        folder = folder_of(kind, folders)
        counted = build_for_counting(ModelRequest(source=str(folder), type=kind.type, folder=folder))
        assert count_parameters(counted) == count_parameters(model), f"{kind.name}: what show says, and the run"
        check(model.output, call(model))
        rows.append(zoo.row(kind, model.output))
    assert zoo.table(rows) == zoo.documented(), "run: python -m tests.helpers.zoo"


def test_a_kind_that_an_interface_does_not_serve_is_refused_with_those_that_do(folders: Path, tmp_path: Path) -> None:
    wav2vec2 = folder_of(named("wav2vec2", "AutoModelForCTC"), folders)
    text = tmp_path / "text"
    text.mkdir()
    (text / "config.json").write_text(json.dumps({"model_type": "bert"}))
    said = {}
    for number, (folder, kind) in enumerate(
        ((wav2vec2, "AutoModelForSpeechSeq2Seq"), (text, "AutoModelForCTC"), (text, "AutoModel"))
    ):
        recipe = tmp_path / f"{number}.yaml"
        recipe.write_text(tiny.recipe_text(str(folder), kind))
        done = program.run(recipe, "--logdir", tmp_path / "logs", "--quiet")
        assert done.returncode == 2
        assert "Traceback" not in done.stderr
        said[number] = done.stderr
    assert "is a `wav2vec2` by its config.json, for which transformers has no AutoModelForSpeechSeq2Seq" in said[0]
    assert "set type: AutoModelForCTC or" in said[0]
    assert "is a `bert` by its config.json, for which transformers has no AutoModelForCTC" in said[1]
    assert "is a BertModel, which takes input_ids and not audio" in said[2]


@pytest.mark.slow
def test_a_run_has_the_figures_of_decoding_and_of_speech_that_was_made(folders: Path, tmp_path: Path) -> None:
    listens = folder_of(named("qwen2_audio", "AutoModelForMultimodalLM"), folders)
    speaks = folder_of(named("speecht5", "AutoModelForTextToSpectrogram"), folders)
    recipe = tmp_path / "both.yaml"
    other = {"pretrained_model.source": str(speaks), "pretrained_model.type": "AutoModelForTextToSpectrogram"}
    variants = f"variants: [{{name: listens}}, {{name: speaks, set: {json.dumps(other)}}}]"
    recipe.write_text(
        tiny.recipe_text(
            str(listens),
            "AutoModelForMultimodalLM",
            "[2]",
            "[2]",
            model="prompt: What is said?\nnew_tokens: 5",
            grid=f"example_audio: {tiny.SPEECH}",
            more=f"{variants}\ntrace: {{breakdown: false}}\n{program.QUICK}",
        )
    )
    done = program.run(recipe, "--logdir", tmp_path / "logs", "--quiet", "--json")
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    heard, made = results["cells"]
    figures = heard["figures"]["decoding"]
    assert figures["tokens"] == 5
    assert 0 < figures["first_token_s"] < 60
    assert figures["tokens_per_second"] > 0
    # Keys and values of one layer, two rows, 16 numbers each of 4 bytes, for every token of prompt, audio and answer.
    assert figures["cache_bytes"] % (2 * 2 * 16 * 4) == 0
    assert figures["cache_bytes"] > 2 * 2 * 16 * 4 * 5
    assert any("What is said?" in note for note in results["run"]["notes"])
    assert "decoding" not in made["figures"]
    assert made["timed_region"] == "text in memory to mel spectrogram"
    assert made["input"]["seconds_of_audio"] not in (2, 4), "of the speech that was made, not of the cell"
    assert made["rtf"] == pytest.approx(made["latency_s"]["median"] / made["input"]["seconds_of_audio"])


def test_a_model_that_speaks_takes_the_words_of_the_cells_seconds(tmp_path: Path) -> None:
    short, long = (Speech(tiny.SPEECH, 16000).batch(seconds, 2, seed=0) for seconds in (2, 20))
    assert 4 * len(short.texts[0].split()) < len(long.texts[0].split()) < 16 * len(short.texts[0].split())
    said = " ".join(line.split("\t")[-1] for line in tiny.SPEECH.with_suffix(".tsv").read_text().splitlines()[1:])
    assert short.texts[1] in f"{said} {said}"
    beside = tmp_path / "speech.flac"
    beside.write_bytes(tiny.SPEECH.read_bytes())
    assert Speech(beside, 16000).batch(2, 1, seed=0).texts == ()
    beside.with_suffix(".txt").write_text("one two three")
    assert Speech(beside, 16000).batch(60, 1, seed=0).texts[0].split()[:3] != []


def test_without_a_transcript_a_model_that_speaks_is_refused(folders: Path) -> None:
    model = load(named("speecht5", "AutoModelForTextToSpectrogram"), folders)
    with pytest.raises(ModelError, match=r"needs text: name an example_audio whose transcript stands beside it"):
        model.prepare(Speech(None, model.rate).batch(1, 1, seed=0))


def test_a_transducer_takes_its_generation_settings_with_random_weights_too(folders: Path) -> None:
    """Without them a token-and-duration transducer would take the score of a duration for that of a token."""
    kind = named("parakeet_tdt", "AutoModelForTDT")
    check("text", call(load(kind, folders, weights="random")))


@pytest.mark.slow
def test_a_model_that_speaks_says_the_transcripts_of_a_data_set(folders: Path, tmp_path: Path) -> None:
    speaks = folder_of(named("speecht5", "AutoModelForTextToSpectrogram"), folders)
    (tmp_path / "set.csv").write_text(
        "ID,duration,wrd\nfirst,1.0,one two three\nsecond,2.0,one two three four five six\n"
    )
    recipe = tmp_path / "speaks.yaml"
    text = tiny.recipe_text(str(speaks), "AutoModelForTextToSpectrogram", "[1]", "[1]")
    grid = f"  example_audio: {tiny.SPEECH}\ndataset: {{source: set.csv, rounds: 1}}\n"
    recipe.write_text(f"{text.rstrip()}\n{grid}trace: {{breakdown: false}}\n{program.QUICK}")
    done = program.run(recipe, "--logdir", tmp_path / "logs", "--quiet", "--json")
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    (found,) = results["datasets"]
    assert found["audio"] == "speech that the model made of the set's transcripts"
    assert results["accuracy"] == []
    made = [sample["seconds_of_audio"] for sample in found["samples"]]
    assert all(seconds > 0 for seconds in made)
    assert made != [1.0, 2.0], "RTF is over the speech that was made"
    latencies = sum(sample["latency_s"][0] for sample in found["samples"])
    assert found["rtf"] == pytest.approx(latencies / sum(made))

    (tmp_path / "set.csv").write_text("ID,duration,wrd\nfirst,1.0,one two three\nsecond,2.0,\n")
    refused = program.run(recipe, "--logdir", tmp_path / "logs", "--quiet")
    assert refused.returncode == 2
    assert "has no transcript, which is what the model would say" in refused.stderr


def test_with_random_weights_a_language_model_writes_as_many_tokens_as_the_recipe_says(folders: Path) -> None:
    kind = named("granite_speech", "AutoModelForMultimodalLM")
    model = load(kind, folders, weights="random", new_tokens=7)
    steps: list[Any] = []
    model.module.register_forward_hook(lambda *_: steps.append(1))
    call(model, 1.0, 1)
    assert len(steps) == 7
    assert "With random weights the decoder is made to write 7 tokens." in model.notes


def test_a_missing_package_is_named_with_the_extra_that_has_it() -> None:
    from profiler.models.transformers.processing import needed

    theirs = "ParakeetFeatureExtractor requires the librosa library but it was not found. Install them with pip:\n"
    said = needed(ImportError(theirs + "```\npip install librosa\n```\nPlease note ..."))
    assert "(pip install librosa)" in said
    assert 'pip install "speech-profiler[speech-models]"' in said
    assert "over two lines" in needed(ImportError("something\nover two lines"))
