"""The whole road, as a user goes it: a recipe in, tables, results and traces out. Real program, tiny real models."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import TinyModel
from tests.helpers import program, tiny
from tests.helpers.road import QUICK, Done, go, read_trace

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
    return go(folder / "my-model.yaml", folder / "logs", fresh=True)


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
            r"float32 0\.[36] s x [12]: RTF [0-9.]+.*, [0-9.,]+ ms.* per call \(\d+ calls\), [0-9.,]+ MB", line
        )


@pytest.mark.slow
def test_traces_hold_what_the_recipe_asks_for(own: Done) -> None:
    measured = [cell for cell in own.results["cells"] if cell["status"] == "ok"]
    assert len(measured) == 3
    for cell in measured:
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
