"""A model in an environment of its own, by an adapter file: a second, empty environment, and the real program."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import program, tiny

LOUDNESS = """
PACKAGES = ["loudness-kit"]
OUTPUT = "text"
SAMPLE_RATE = 8000


def load(source, device, words=("alarm", "stop")):
    try:
        import pydantic
    except ImportError:
        pydantic = None
    print("of ours:", pydantic)
    return {"name": source, "words": words}


def prepare(model, waveforms, lengths, rate):
    assert rate == 8000
    return [row[:length] for row, length in zip(waveforms, lengths)]


def run(model, rows):
    loud = [sum(sample * sample for sample in row) / len(row) > 1e-9 for row in rows]
    return [model["words"][0] if each else "" for each in loud]


def parameters(model):
    return {"encoder": 30, "decoder": 12}


def size_bytes(model):
    return 168
"""
FUNCTIONS = """
def load(source, device):
    {load}


def prepare(model, waveforms, lengths, rate):
    return len(waveforms)


def run(model, rows):
    {run}
"""


@pytest.fixture(scope="module")
def other_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with no package at all."""
    folder = tmp_path_factory.mktemp("other") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    return folder / "bin" / "python"


def write(
    folder: Path, adapter: str, python: Path | None = None, more: str = program.QUICK, name: str = "own.py"
) -> Path:
    (folder / name).write_text(adapter)
    there = f"variants:\n- {{name: here}}\n- {{name: there, python: {python}}}\n" if python else ""
    recipe = folder / "own.yaml"
    grid = f"example_audio: {tiny.SPEECH}"
    recipe.write_text(tiny.recipe_text("some/model", name, seconds="[0.1]", grid=grid, more=there + more))
    return recipe


def run(recipe: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return program.run(recipe, "--logdir", recipe.parent / "logs", "--trust", *arguments)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, other_python: Path) -> dict[str, Any]:
    """A run of two variants, one here and one in the empty environment, on a grid and on a data set."""
    folder = tmp_path_factory.mktemp("finished")
    audio = tiny.SPEECH.parent / "commands" / "audio" / "commands-test-0000.flac"
    (folder / "set.csv").write_text(f"ID,wav,wrd\nfirst,{audio},alarm\nsecond,{audio},alarm stop\n")
    data = "dataset: {source: set.csv, batch_size: 2, rounds: 1}\n"
    recipe = write(folder, LOUDNESS, other_python, program.QUICK + data)
    done = run(recipe)
    assert done.returncode == 0, done.stderr + done.stdout
    return program.results_in(folder / "logs") | {
        "folder": program.run_folder(folder / "logs"),
        "printed": done.stdout + done.stderr,
    }


@pytest.mark.slow
def test_an_environment_without_any_package_is_measured(finished: dict[str, Any]) -> None:
    there = [cell for cell in finished["cells"] if cell["variant"] == "there"]
    assert [cell["status"] for cell in there] == ["ok", "ok"]
    for cell in there:
        assert len(cell["latency_s"]["rounds"]) == 2
        assert 0 < cell["latency_s"]["median"] < 1
        assert cell["rtf"] == pytest.approx(cell["latency_s"]["median"] / (0.1 * cell["batch_size"]))
        assert sum(cell["latency_s"]["cpu"]) > 0
        assert 2e6 < cell["peak_memory_bytes"]["process"] < 100e6, "without torch a process is small"
        assert cell["peak_memory_bytes"]["tensors"] is None
    log = (finished["folder"] / "there" / "worker.log").read_text()
    assert "of ours: None" in log
    assert "of ours: <module" in (finished["folder"] / "here" / "worker.log").read_text()


@pytest.mark.slow
def test_what_the_file_says_of_the_model_is_in_the_results(finished: dict[str, Any]) -> None:
    for model in finished["models"]:
        assert (model["weights"], model["output"], model["sample_rate"]) == ("pretrained", "text", 8000)
        assert model["parameters"]["total"] == 42
        assert model["parameters"]["components"] == {"encoder": 30, "decoder": 12}
        assert model["size_bytes"]["total"] == 168
        assert model["versions"]["python"] == ".".join(map(str, sys.version_info[:3]))


@pytest.mark.slow
def test_what_needs_the_profiler_there_has_a_reason(finished: dict[str, Any]) -> None:
    for cell in finished["cells"]:
        assert cell["operations"] is None
        assert cell["breakdown"] is None
        assert "adapter file" in cell["operations_reason"]
        assert "adapter file" in cell["breakdown_reason"]
    assert "by an adapter file" in finished["printed"]


@pytest.mark.slow
def test_texts_of_a_data_set_are_scored(finished: dict[str, Any]) -> None:
    """`alarm` for `alarm`, and for `alarm stop`: one of three words is missing."""
    assert {record["variant"] for record in finished["accuracy"]} == {"here", "there"}
    for record in finished["accuracy"]:
        assert record["wer"]["value"] == pytest.approx(1 / 3)


@pytest.mark.slow
def test_two_environments_take_turns(tmp_path: Path, other_python: Path) -> None:
    recipe = write(tmp_path, LOUDNESS)
    done = program.run(
        "ab", recipe, "--python", other_python, "--trust", "--seconds", "1", "--logdir", tmp_path / "logs", "--json"
    )
    assert done.returncode in (0, 3), done.stderr
    found = json.loads(done.stdout)
    assert found["others"][0]["cells"][0]["speed"]["ratio"] > 0


TORCH = """
import numpy
import torch

def load(source, device, parallel=False):
    if parallel:
        torch.set_num_threads(2)
        torch.randn(500, 500) @ torch.randn(500, 500)
    return torch.nn.Conv1d(1, 8, 400, 160)

def prepare(model, waveforms, lengths, rate):
    array = numpy.array(waveforms)
    assert array.shape == (len(lengths), 1600)
    assert array.dtype == numpy.float32
    return torch.from_numpy(array)[:, None]

def run(model, waveforms):
    with torch.no_grad():
        return model(waveforms)
"""


@pytest.mark.slow
def test_a_loaded_model_is_forked_where_that_is_safe(tmp_path: Path) -> None:
    """Threads that a library started while it loaded the model are gone in a fork, which would wait for them."""
    (tmp_path / "own.py").write_text(TORCH)
    recipe = tmp_path / "own.yaml"
    variants = "[{name: quiet}, {name: parallel, set: {pretrained_model.overrides: {parallel: true}}}]"
    recipe.write_text(
        tiny.recipe_text("m", "own.py", seconds="[0.1]", batches="[1]", more=f"variants: {variants}\n{program.QUICK}")
    )
    done = run(recipe, "--threads", "2")
    assert done.returncode == 0, done.stdout
    loaded = [line.split(":")[0] for line in done.stderr.splitlines() if "(own.py)" in line]
    assert loaded.count("quiet") == 1
    assert loaded.count("parallel") == 2, "a process of its own for each round"


@pytest.mark.parametrize(
    ("adapter", "said"),
    [
        ("PACKAGES = ['kit[asr]>=2']\nimport missing_kit\n", ["own.py, line 2", "No module named 'missing_kit'"]),
        ("PACKAGES = ['kit[asr]>=2']\nimport missing_kit\n", ["-m pip install 'kit[asr]>=2'"]),
        (FUNCTIONS.format(load="import missing_kit", run="pass"), ["own.py, line 3", "-m pip install missing_kit"]),
        (FUNCTIONS.format(load="pass", run="pass").replace("def run", "def walk"), ["no function run(model, inputs)"]),
        (FUNCTIONS.format(load="return {}['x']", run="pass"), ["own.py, line 3: KeyError: 'x'"]),
        ("def load(source, device)\n", ["own.py, line 1: SyntaxError"]),
        ("SAMPLE_RATE = 'fast'\n" + FUNCTIONS.format(load="pass", run="pass"), ["SAMPLE_RATE is 'fast'"]),
    ],
    ids=["import", "how to install", "import in load", "function", "load", "syntax", "rate"],
)
def test_mistakes_end_the_run_before_anything_is_measured(tmp_path: Path, adapter: str, said: list[str]) -> None:
    done = run(write(tmp_path, adapter))
    assert done.returncode == 2
    assert all(part in done.stderr for part in said), done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.glob("logs/*/*")), "nothing was measured, and no empty run stays"


@pytest.mark.slow
def test_a_call_that_fails_costs_its_cell_alone(tmp_path: Path) -> None:
    """An error is shown with the adapter's own line; a process that dies is named by its signal."""
    code = "import os\n    return 'x' if rows == 1 else os.abort()"
    done = run(write(tmp_path, FUNCTIONS.format(load="return 1", run=code)), "batch_sizes=[1, 2]")
    assert done.returncode == 1
    cells = {cell["batch_size"]: cell for cell in program.results_in(tmp_path / "logs")["cells"]}
    assert cells[1]["status"] == "ok"
    assert cells[2]["reason"] == "killed by SIGABRT"
    write(tmp_path, FUNCTIONS.format(load="return 1", run="return 1 / 0"))
    done = run(tmp_path / "own.yaml", "batch_sizes=[1]")
    assert "own.py, line 11: ZeroDivisionError: division by zero" in done.stdout


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["variants=[{name: a, python: no/python}]"], "there is no interpreter"),
        (["variants=[{name: a, quantize: dynamic}]"], "an adapter file does so itself"),
        (["trace.labels={a: b}"], "not known with an adapter file"),
        (["pretrained_model.prompt=Hello"], "is not for an adapter file"),
        (["mode=training"], "cannot be trained here"),
        (["pretrained_model.type=other.py"], "there is no adapter file"),
    ],
)
def test_what_does_not_go_with_an_adapter_file_is_refused(tmp_path: Path, overrides: list[str], said: str) -> None:
    done = run(write(tmp_path, LOUDNESS), *overrides)
    assert done.returncode == 2
    assert said in done.stderr


def test_it_runs_only_with_trust_and_is_shown_without_being_run(tmp_path: Path) -> None:
    recipe = write(tmp_path, "raise SystemExit('it was run')\n")
    done = program.run(recipe)
    assert done.returncode == 2
    assert "`own.py` would be run; if you trust it, add --trust" in done.stderr
    shown = program.run("show", recipe, "--trust")
    assert shown.returncode == 0, shown.stderr
    assert "0.1 s" in shown.stdout


@pytest.mark.slow
def test_an_environment_without_the_profiler_is_told_what_it_needs(tmp_path: Path, other_python: Path) -> None:
    recipe = tmp_path / "own.yaml"
    text = tiny.recipe_text("log-mel", "LogMel", seconds="[0.1]", batches="[1]", more=program.QUICK)
    recipe.write_text(text + f"variants: [{{name: there, python: {other_python}}}]\n")
    done = run(recipe)
    assert done.returncode == 1
    assert "ModuleNotFoundError" in done.stdout
    assert "-m pip install speech-profiler" in done.stdout
    assert "adapter file" in done.stdout


def test_the_worker_needs_the_standard_library_alone(other_python: Path) -> None:
    """Every module at the top of the two files that run in the other environment."""
    files = [program.ROOT / "profiler" / "execution" / "standalone_worker.py"]
    code = f"import runpy; runpy.run_path({str(files[0])!r}, run_name='not_main')"
    done = subprocess.run([other_python, "-I", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


NEMO = """
class Hypothesis:
    text = "alarm"


class ASRModel:
    @classmethod
    def from_pretrained(cls, name):
        return cls()

    def to(self, device):
        return self

    def eval(self):
        return self

    def transcribe(self, audio, batch_size, verbose):
        assert [each.dtype.name for each in audio] == ["float32"] * batch_size
        return [Hypothesis() for _ in audio]

    def named_children(self):
        return []
"""


@pytest.mark.slow
def test_the_adapter_file_of_the_guide(tmp_path: Path) -> None:
    """NeMo's models cannot be downloaded here: a stand-in has the functions that the file of the guide calls."""
    environment = tmp_path / "nemo-env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    packages = next(environment.glob("lib/python*/site-packages"))
    (packages / "shared.pth").write_text("\n".join(path for path in sys.path if path.endswith("site-packages")))
    (packages / "nemo" / "collections" / "asr").mkdir(parents=True)
    (packages / "nemo" / "collections" / "asr" / "models.py").write_text(NEMO)
    guide = (program.ROOT / "docs" / "add-a-library.md").read_text()
    for name in ("nemo_adapter.py", "nemo.yaml"):
        (tmp_path / name).write_text(guide.split(f'title="{name}"\n')[1].split("```")[0])
    arguments = ["measure.rounds=1", "measure.budget=0.2", "audio_mockup_secs=[0.1]", "batch_sizes=[2]"]
    done = run(tmp_path / "nemo.yaml", *arguments)
    assert done.returncode == 0, done.stderr
    (model,) = program.results_in(tmp_path / "logs")["models"]
    assert (model["output"], model["type"]) == ("text", "nemo_adapter.py")
