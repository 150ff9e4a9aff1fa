"""Whisper on engines, with its search: an engine runs the encoder and steps of the decoder, CTranslate2 the search too;
and folders that others exported are models."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from profiler import load_run
from tests.conftest import TinyModel
from tests.helpers import program, warm
from tests.helpers.program import ROOT
from tests.helpers.tiny import recipe_text

pytestmark = pytest.mark.slow

KIND = "AutoModelForSpeechSeq2Seq"
VARIANTS = """
variants:
- {name: torch}
- {name: onnx, runtime: onnxruntime}
- {name: openvino, runtime: openvino, precision: float32}
- {name: ct2, runtime: ctranslate2}
- {name: ct2-int8, runtime: ctranslate2, quantize: dynamic}
measure: {warmup: 1, budget: 0.05, rounds: 1, operations: false}
trace: {breakdown: false}
"""
MODEL = """weights: random
tokens_per_second: 6
overrides: {num_beams: 2}"""
SAME = ("onnx", "openvino", "ct2")
SMALL = ["batch_sizes=[1]", "audio_mockup_secs=[1]", "rounds=1", "measure.budget=0.2", "--quiet"]


class Run(NamedTuple):
    said: str
    results: dict[str, Any]

    def conversion(self, variant: str) -> dict[str, Any]:
        return next(dict(model["conversion"]) for model in self.results["models"] if model["variant"] == variant)


@pytest.fixture(scope="module")
def whisper(tiny_model: Callable[[str], TinyModel]) -> Path:
    return tiny_model("whisper").folder


@pytest.fixture(scope="module")
def found(whisper: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Two beams, between which the search moves the cache; untrained, so that all of them end after the same steps."""
    folder = tmp_path_factory.mktemp("search")
    recipe = folder / "recipe.yaml"
    recipe.write_text(recipe_text(str(whisper), KIND, "[0.5]", model=MODEL, more=VARIANTS))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        done = program.run(recipe, "--threads", "1", "--full", "--logdir", folder / "logs", timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    return Run(done.stdout, program.results_in(folder / "logs"))


@pytest.mark.parametrize("variant", SAME)
def test_the_tokens_are_those_of_torch(found: Run, variant: str) -> None:
    difference = found.conversion(variant)["difference"]
    assert difference["texts"] == 2
    assert difference["texts_changed"] == 0
    assert difference["max"] < 1e-4
    cells = [cell for cell in found.results["cells"] if cell["variant"] == variant]
    assert {cell["status"] for cell in cells} == {"ok"}, cells
    assert {cell["batch_size"] for cell in cells} == {1, 2}


@pytest.mark.parametrize("variant", ["onnx", "openvino"])
def test_a_step_of_the_decoder_runs_on_the_engine_and_the_search_in_torch(found: Run, variant: str) -> None:
    use = found.conversion(variant)["runtime"]
    assert use["parts"] == ["model.encoder", "model.decoder", "proj_out"]
    assert use["in_torch"] == []
    assert use["files"] == 4, "of the decoder one for the first step and one for all others"
    notes = " ".join(found.conversion(variant)["notes"])
    assert "Each step of the search is a call of model.decoder with its cache" in notes
    assert "The search itself runs in torch" in notes


def test_ctranslate2_runs_the_search_too(found: Run) -> None:
    use = found.conversion("ct2")["runtime"]
    assert use["parts"] == ["encoder, decoder and search"]
    assert use["in_torch"] == []
    assert use["precision"] == "float32"
    assert use["threads"] is None, "it does not tell"
    assert use["export_s"] > 0 < use["load_s"]
    assert found.conversion("ct2-int8")["runtime"]["file_bytes"] < use["file_bytes"]


# -- folders of the user's own

FOLDERS = {"onnx": "ONNX", "ct2": "CTranslate2"}


@pytest.fixture(scope="module")
def folders(whisper: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("folders")
    made = warm.run(["-m", "tests.helpers.exported", str(whisper), str(folder)], ROOT, timeout=300, kind="models")
    assert made.returncode == 0, made.stderr
    return folder


@pytest.mark.parametrize(("name", "kind"), FOLDERS.items())
def test_init_knows_a_folder_that_others_exported_and_its_recipe_runs(
    folders: Path, tmp_path: Path, name: str, kind: str
) -> None:
    recipe = tmp_path / "model.yaml"
    written = program.run("init", folders / name, recipe)
    assert written.returncode == 0, written.stderr
    assert f"as {kind}," in written.stdout
    done = program.run(recipe, *SMALL, "--logdir", tmp_path / "logs")
    assert done.returncode == 0, done.stdout + done.stderr
    run = load_run("latest", tmp_path / "logs")
    (model,), (cell,) = run.results.models, run.cells
    assert model.output == "text"
    assert model.size_bytes.total
    assert model.parameters.total is None, "not a silent zero: the files do not tell"
    assert cell.latency_s
    assert any(" runs " in note for note in model.notes)
