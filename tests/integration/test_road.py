"""The whole road, as a user goes it: a recipe in, tables, results and traces out. Real program, tiny real models."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests import program, tiny
from tests.conftest import TinyModel

QUICK = ("measure.rounds=1", "measure.budget=0.1", "measure.warmup=1")


class Done(NamedTuple):
    """A run that came to its end."""

    stdout: str
    stderr: str
    logdir: Path

    @property
    def folder(self) -> Path:
        return program.run_folder(self.logdir)

    @property
    def results(self) -> dict[str, Any]:
        return program.results_in(self.logdir)

    @property
    def tables(self) -> str:
        return (self.folder / "tables.md").read_text()

    def traces(self, cell: dict[str, Any]) -> list[Path]:
        return sorted((self.folder / cell["trace"]).parent.glob("*.pt.trace.json.gz"))


def go(recipe: str | Path, logdir: Path, *arguments: str) -> Done:
    done = program.run(recipe, *arguments, "--logdir", logdir)
    assert done.returncode == 0, done.stdout + done.stderr
    return Done(done.stdout, done.stderr, logdir)


def read_trace(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt") as file:
        events: list[dict[str, Any]] = json.load(file)["traceEvents"]
    return events


# -- the shipped recipes, shrunk


SHRUNK = {
    "wav2vec2": ("text", {"aten::conv1d", "aten::linear", "aten::scaled_dot_product_attention"}),
    "hubert": ("hidden states", {"aten::conv1d", "aten::linear", "aten::scaled_dot_product_attention"}),
    "crdnn": ("text", {"aten::conv2d", "aten::lstm", "aten::gru_cell", "aten::linear"}),
    "wav2vec2-commonvoice-fr": ("text", {"aten::conv1d", "aten::linear", "aten::batch_norm"}),
}


@pytest.fixture(scope="module", params=SHRUNK)
def shrunk(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Done]:
    """Each shipped recipe, with its model made tiny and its grid small; everything else is as it ships."""
    name: str = request.param
    return name, go(
        f"recipes/{name}.yaml",
        tmp_path_factory.mktemp("logs"),
        "pretrained_model.weights=random",
        f"pretrained_model.overrides={json.dumps(tiny.SHRUNK_RECIPES[name])}",
        "profiling_dimensions.audio_mockup_secs=[0.5, 1]",
        "profiling_dimensions.batch_sizes=[2]",
        *QUICK,
        "--quiet",
    )


@pytest.mark.slow
def test_results_have_the_documented_shape(shrunk: tuple[str, Done]) -> None:
    name, done = shrunk
    results = done.results
    assert results["schema"] == 1
    run = results["run"]
    assert run["id"] == done.folder.name
    assert run["recipe"].endswith(f"{name}.yaml")
    assert re.fullmatch(r"[0-9a-f]{64}", run["recipe_sha256"])
    assert run["command"].startswith(f"profile.py recipes/{name}.yaml pretrained_model.weights=random")
    assert run["started"] <= run["finished"]
    assert run["status"] == "complete"

    environment = results["environment"]
    for key in ("host", "cpu", "cores", "threads", "memory_bytes", "os", "python", "load"):
        assert environment[key], key
    assert {"gpu", "governor"} <= set(environment)
    assert {"torch", "torchaudio", "transformers", "speechbrain"} <= set(environment["packages"])
    assert environment["reference"]["gflops"] > 0
    assert environment["reference"]["gb_per_s"] > 0

    (model,) = results["models"]
    assert model["variant"] == "float32"
    assert model["source"].count("/") == 1
    assert model["type"]
    assert model["weights"] == "random"
    assert 0 < model["parameters"]["total"] < 50_000
    assert model["parameters"]["trainable"] == model["parameters"]["total"]
    assert sum(model["parameters"]["components"].values()) == model["parameters"]["total"]
    assert model["size_bytes"]["total"] >= 4 * model["parameters"]["total"]


@pytest.mark.slow
def test_every_cell_is_measured(shrunk: tuple[str, Done]) -> None:
    name, done = shrunk
    cells = done.results["cells"]
    assert [(cell["variant"], cell["seconds"], cell["batch_size"]) for cell in cells] == [
        ("float32", 0.5, 2),
        ("float32", 1, 2),
    ]
    for cell in cells:
        assert cell["status"] == "ok"
        assert cell["reason"] is None
        assert cell["timed_region"] == f"waveforms in memory to {SHRUNK[name][0]}"
        assert cell["input"]["audio"] == "speech.flac"

        latency = cell["latency_s"]
        assert latency["n"] == len(latency["samples"]) >= 5
        assert latency["min"] == min(latency["samples"]) > 0
        assert latency["ci95"][0] <= latency["median"] <= latency["ci95"][1]
        assert latency["min"] <= latency["mean"] <= max(latency["samples"])
        assert latency["std"] >= 0
        assert latency["stopped_by"] in ("width", "budget", "max_calls")

        assert cell["rtf"] == pytest.approx(latency["median"] / (cell["batch_size"] * cell["seconds"]))
        assert cell["rtfx"] == pytest.approx(1 / cell["rtf"])
        assert cell["verdict"] in ("stable", "noisy")

        memory = cell["peak_memory_bytes"]
        assert memory["tensors"] > cell["seconds"] * cell["batch_size"] * 1000
        assert memory["process"] > 100e6, "a process with torch in it"
        assert 0 <= memory["above_baseline"] < memory["process"]


@pytest.mark.slow
def test_tables_are_printed_and_written_and_say_random_weights(shrunk: tuple[str, Done]) -> None:
    _, done = shrunk
    assert done.tables.strip() in done.stdout
    assert done.stderr == ""
    titles = re.findall(r"(?m)^\*\*(.+)\*\*$", done.tables)
    assert any(title.startswith("Real-time factor") for title in titles)
    assert any(title.startswith("Peak memory") for title in titles)
    assert all(title.endswith("random weights") for title in titles), titles
    assert "Audio: speech.flac" in done.tables


@pytest.mark.slow
def test_each_cell_has_one_small_trace_with_the_models_operators(shrunk: tuple[str, Done]) -> None:
    name, done = shrunk
    for cell in done.results["cells"]:
        (trace,) = done.traces(cell)
        assert trace == done.folder / cell["trace"]
        assert trace.parent == done.folder / "float32" / f"{cell['seconds']:g}s_x2"
        assert trace.stat().st_size < 2e6
        names = {event.get("name") for event in read_trace(trace)}
        assert SHRUNK[name][1] <= names


@pytest.mark.slow
def test_report_prints_the_same_tables_without_torch(shrunk: tuple[str, Done]) -> None:
    _, done = shrunk
    script = f"""
import runpy, sys
sys.argv = ["profile.py", "report", "latest", "--logdir", {str(done.logdir)!r}]
try:
    runpy.run_path("profile.py", run_name="__main__")
finally:
    print("torch" in sys.modules, "transformers" in sys.modules, file=sys.stderr)
"""
    before = done.tables
    again = subprocess.run([sys.executable, "-c", script], cwd=program.ROOT, capture_output=True, text=True, timeout=60)
    assert again.returncode == 0, again.stderr
    assert before.strip() in again.stdout
    assert again.stderr.splitlines()[-1] == "False False"
    assert done.tables == before


# -- a model of one's own: a folder in transformers' format


RECIPE = tiny.recipe_text(
    "./tiny-ctc",
    "AutoModelForCTC",
    seconds="[0.3, 0.6]",
    batches="[1, 2]",
    grid="triangle_only: true\nexport_logs: true",
    more="""
measure: {rounds: 1, budget: 0.1}
trace:
  shapes: true
  stacks: true
  schedule: {wait: 1, warmup: 1, active: 2, repeat: 2}
""",
)


@pytest.fixture(scope="module")
def own(tiny_model: Callable[[str], TinyModel], tmp_path_factory: pytest.TempPathFactory) -> Done:
    """A local folder, random data, the heavy corner left out, and a recipe that asks much of its traces."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "tiny-ctc").symlink_to(tiny_model("ctc").folder)
    (folder / "my-model.yaml").write_text(RECIPE)
    return go(folder / "my-model.yaml", folder / "logs")


@pytest.mark.slow
def test_a_local_folder_is_measured_with_its_own_weights(own: Done) -> None:
    (model,) = own.results["models"]
    assert model["weights"] == "pretrained"
    assert model["source"] == "./tiny-ctc"
    titles = re.findall(r"(?m)^\*\*(.+)\*\*$", own.tables)
    assert all(title.endswith("./tiny-ctc, float32, pretrained weights") for title in titles)
    assert "random weights" not in own.tables.lower()


@pytest.mark.slow
def test_the_heavy_corner_is_skipped_in_its_place(own: Done) -> None:
    skipped = program.cell(own.results, 0.6, 2)
    assert skipped["status"] == "skipped"
    assert "triangle_only" in skipped["reason"]
    assert skipped["latency_s"] is None
    assert [cell["status"] for cell in own.results["cells"]].count("ok") == 3
    rtf = own.tables.split("**Latency")[0]
    row = next(line for line in rtf.splitlines() if "0.6 s" in line and line.startswith("|"))
    assert [text.strip() for text in row.strip("|").split("|")][2] == "skipped"


@pytest.mark.slow
def test_random_data_is_labelled(own: Done) -> None:
    assert {cell["input"]["audio"] for cell in own.results["cells"] if cell["status"] == "ok"} == {"random data"}
    assert "random data, not speech" in own.tables
    assert "random data, not speech" in own.stderr


@pytest.mark.slow
def test_progress_is_plain_lines_where_there_is_no_terminal(own: Done) -> None:
    assert "\x1b" not in own.stderr
    assert "\r" not in own.stderr
    lines = [line for line in own.stderr.splitlines() if line.startswith("[")]
    assert len(lines) == 3
    for number, line in enumerate(lines, 1):
        assert line.startswith(f"[{number}/3, ")
        assert re.search(
            r"float32 0\.[36] s x [12]: RTF [0-9.]+.*, [0-9.]+ [mu]?s a call \(\d+ calls\), [0-9.]+ GB", line
        )


@pytest.mark.slow
def test_traces_hold_what_the_recipe_asks_for(own: Done) -> None:
    for cell in own.results["cells"]:
        if cell["status"] != "ok":
            continue
        traces = own.traces(cell)
        assert len(traces) == 2, "one for each repetition"
        # Steps count from 0; each repetition is one to wait, one to warm up, two that are written.
        for trace, steps in zip(traces, ({"#2", "#3"}, {"#6", "#7"}), strict=True):
            assert trace.stat().st_size < 2e6
            events = read_trace(trace)
            named = {str(event.get("name")) for event in events}
            assert {name for name in named if name.startswith("ProfilerStep")} == {f"ProfilerStep{n}" for n in steps}
            calls = [event for event in events if event.get("name") == "call" and event.get("cat") == "user_annotation"]
            assert len(calls) == 2, "active: 2"
            convolutions = [event for event in events if event.get("name") == "aten::conv1d"]
            first = convolutions[0]["args"]["Input Dims"][0]
            assert first == [cell["batch_size"], 1, round(cell["seconds"] * 16000)]
            assert any(event.get("cat") == "python_function" for event in events)


@pytest.mark.slow
def test_json_is_what_is_in_the_file(tiny_model: Callable[[str], TinyModel], tmp_path: Path) -> None:
    (tmp_path / "encoder.yaml").write_text(
        tiny.recipe_text(str(tiny_model("encoder").folder), "AutoModel", seconds="[0.2]", batches="[1]")
    )
    done = go(tmp_path / "encoder.yaml", tmp_path / "logs", *QUICK, "--json", "--quiet")
    assert json.loads(done.stdout) == done.results
    (cell,) = done.results["cells"]
    assert cell["trace"] is None, "export_logs is off"
    assert list(done.folder.rglob("*.pt.trace.json*")) == []
