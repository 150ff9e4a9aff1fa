"""A file of the user's own that was exported for an engine: found by looking, run by the engine, refused when hostile.

Engines have threads of their own, which do not survive a fork: files are made and run in processes of their own.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from profiler import load_run
from profiler.errors import ModelError
from profiler.models.identify import identify
from profiler.models.model import ModelRequest
from profiler.models.own.signature import read_signature
from profiler.runtimes.base import TensorInfo
from tests.helpers import program
from tests.helpers.program import ROOT

MAKE = """
import torch
from pathlib import Path
from tests.helpers import exported as e
torch.manual_seed(0)
folder, waves = Path({folder!r}), e.Waves()
e.save_onnx(waves, folder / "waves.onnx")
e.save_onnx_of_features(folder / "features.onnx")
e.save_openvino(waves, folder / "waves.xml")
e.save_executorch(waves, folder / "waves.pte")
e.save_inductor(waves, folder / "waves.pt2")
"""
TYPES = {"waves.onnx": "ONNX", "waves.xml": "OpenVINO", "waves.pte": "ExecuTorch", "waves.pt2": "AOTInductor"}
SMALL = ["batch_sizes=[1]", "audio_mockup_secs=[1]", "rounds=1", "measure.budget=0.2", "--quiet"]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported")
    made = subprocess.run(
        [sys.executable, "-c", MAKE.format(folder=str(folder))], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert made.returncode == 0, made.stderr
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind"), TYPES.items())
def test_init_knows_the_file_and_its_recipe_runs(files: Path, tmp_path: Path, name: str, kind: str) -> None:
    recipe = tmp_path / "model.yaml"
    written = program.run("init", files / name, recipe)
    assert written.returncode == 0, written.stderr
    assert f"as {kind}," in written.stdout
    trust = ["--trust"] if kind == "AOTInductor" else []
    done = program.run(recipe, *SMALL, *trust, "--logdir", tmp_path / "logs")
    assert done.returncode == 0, done.stdout + done.stderr
    found = load_run("latest", tmp_path / "logs")
    (model,), (cell,) = found.results.models, found.cells
    assert model.size_bytes.total
    assert model.size_bytes.total >= (files / name).stat().st_size
    assert model.parameters.total is None, "not a silent zero: the engine does not tell"
    assert any("takes waveforms" in note for note in model.notes)
    assert cell.latency_s


@pytest.mark.slow
def test_inputs_are_found_by_looking_at_the_file(files: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "model.yaml"
    program.run("init", files / "features.onnx", recipe)
    done = program.run(recipe, *SMALL, "--logdir", tmp_path / "logs")
    assert done.returncode == 0, done.stdout + done.stderr
    (model,) = load_run("latest", tmp_path / "logs").results.models
    assert "features.onnx takes log-mel features [batch, 40, frames] and lengths in counts." in model.notes


@pytest.mark.slow
def test_a_file_of_one_shape_says_so_for_others(files: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "model.yaml"
    program.run("init", files / "waves.pte", recipe)
    done = program.run(recipe, *SMALL, "batch_sizes=[1,2]", *("--logdir", tmp_path / "logs"))
    assert done.returncode == 2, "batch_sizes is given twice"
    grid = ["audio_mockup_secs=[1,2]", "batch_sizes=[1,2]", *SMALL[2:]]
    done = program.run(recipe, *grid, "--logdir", tmp_path / "logs")
    assert done.returncode == 1
    reasons = {cell.place: cell.reason or "" for cell in load_run("latest", tmp_path / "logs").cells}
    assert reasons["1 s x 1"] == ""
    assert "batches of 1 alone; this one has 2" in reasons["1 s x 2"]
    assert "the file takes 16000 samples or frames alone; this audio has 32000" in reasons["2 s x 1"]


@pytest.mark.slow
def test_machine_code_is_run_with_trust_alone(files: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "model.yaml"
    program.run("init", files / "waves.pt2", recipe)
    done = program.run(recipe, *SMALL, "--logdir", tmp_path / "logs")
    assert done.returncode == 2
    assert "holds machine code" in done.stderr


@pytest.mark.slow
def test_libraries_of_operators_and_weights_elsewhere_are_refused(files: Path, tmp_path: Path) -> None:
    code = (
        "import onnx, sys\n"
        "model = onnx.load(sys.argv[1])\n"
        "if sys.argv[3] == 'custom':\n"
        "    model.graph.node[0].domain = 'evil.operators'\n"
        "else:\n"
        "    tensor = model.graph.initializer[0]\n"
        "    tensor.ClearField('raw_data')\n"
        "    tensor.data_location = 1\n"
        "    tensor.external_data.add(key='location', value='../../../etc/passwd')\n"
        "open(sys.argv[2], 'wb').write(model.SerializeToString())\n"
    )
    for how, says in (("custom", "operators of evil.operators"), ("outside", "names weights outside its folder")):
        file, recipe = tmp_path / f"{how}.onnx", tmp_path / f"{how}.yaml"
        subprocess.run([sys.executable, "-c", code, files / "waves.onnx", file, how], check=True, timeout=60)
        program.run("init", file, recipe)
        done = program.run(recipe, *SMALL, "--logdir", tmp_path / "logs")
        assert done.returncode == 2, how
        assert says in done.stderr


# -- by looking alone


def request(**more: object) -> ModelRequest:
    return ModelRequest("model.onnx", "ONNX", **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("inputs", "text"),
    [
        ([("x", "float32", (None, None))], "waveforms [batch, samples]"),
        ([("x", "float32", (1, 16000))], "waveforms [1, 16000]"),
        ([("x", "float32", (None, 1, None))], "waveforms [batch, 1, samples]"),
        ([("x", "float32", (None, None, 80))], "log-mel features [batch, frames, 80]"),
        ([("x", "float32", (None, 128, None))], "log-mel features [batch, 128, frames]"),
        ([("x", "float32", (1, 80, 3000))], "log-mel features [1, 80, 3000]"),
        ([("x", "float32", (None, None)), ("n", "int64", (None,))], "waveforms [batch, samples] and lengths in counts"),
        (
            [("x", "float32", (None, None)), ("n", "float32", (None,))],
            "waveforms [batch, samples] and lengths in fractions",
        ),
        ([("x", "float32", (None, None)), ("mask", "int64", (None, None))], "waveforms [batch, samples] and a mask"),
        ([], "waveforms [batch, samples]"),
    ],
)
def test_shapes_tell_what_a_file_takes(inputs: list[tuple[str, str, tuple[int | None, ...]]], text: str) -> None:
    assert read_signature([TensorInfo(*each) for each in inputs], request()).text == text


def test_where_a_file_does_not_tell_the_recipe_does() -> None:
    found = read_signature([], request(input="features_and_lengths", mels=40, lengths="counts"))
    assert found.text == "log-mel features [batch, frames, 40] and lengths in counts"


@pytest.mark.parametrize(
    "inputs",
    [
        [("state", "float32", (2, 1, 128, 1))],
        [("ids", "int64", (None, None))],
        [("x", "float32", (None, None)), ("state", "float32", (2, None, 128)), ("sr", "int64", ())],
    ],
)
def test_other_inputs_are_refused_with_what_was_seen(inputs: list[tuple[str, str, tuple[int | None, ...]]]) -> None:
    with pytest.raises(ModelError) as error:
        read_signature([TensorInfo(*each) for each in inputs], request())
    assert inputs[0][0] in str(error.value)
    assert "waveforms [batch, samples]" in str(error.value)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("notes.xml", b"<html></html>", "no network of OpenVINO"),
        ("model.pte", b"\x00" * 16, "no program of ExecuTorch"),
        ("model.pt2", b"PK", "exported program"),
    ],
)
def test_a_file_that_only_looks_like_one_is_told(tmp_path: Path, name: str, content: bytes, says: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ModelError, match=says):
        identify(str(tmp_path / name), Path())
