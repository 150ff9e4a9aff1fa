"""Where the time goes, on the whole road: labels of a recipe, results, tables, `report`, spans in traces."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from profiler.audio import Speech
from profiler.device import Device
from profiler.measure.breakdown import find_parts, measure_breakdown
from profiler.measure.breakdown.labels import LabelledCall
from profiler.models.load import load_model
from profiler.models.model import Model, ModelRequest, model_request
from profiler.recipe.load import load_recipe
from tests.conftest import TinyModel
from tests.helpers import program, tiny
from tests.helpers.road import Done, read_trace
from tests.helpers.shipped import ROWS

LABELS = 'trace: {labels: {encoder: "encoder.*", layers: "encoder.?", head: head}}\n'
GRID = "  export_logs: true\n"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Done:
    """Two cells of a model whose parts take known times, and which notes who watches it."""
    folder = tmp_path_factory.mktemp("parts")
    recipe = program.module_recipe(
        folder,
        "Parts",
        f"{{seconds: 0.02, notes: {folder}/notes}}",
        batches="[1]",
        more=program.QUICK + LABELS,
        grid=GRID,
    )
    done = program.run(recipe, "--trust", "--logdir", folder / "logs", "measure.rounds=1")
    assert done.returncode == 0, done.stderr
    return Done(done.stdout, done.stderr, folder / "logs")


def labels(cell: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in cell["breakdown"]["labels"]}


def report(run: Done, *arguments: str) -> str:
    done = program.run("report", run.folder, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def names(text: str) -> list[str]:
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [line.strip("|").split("|")[0].strip() for line in lines[2:]]


@pytest.mark.slow
def test_each_cell_has_its_labels(run: Done) -> None:
    assert len(run.results["cells"]) == 2
    for cell in run.results["cells"]:
        row = labels(cell)
        assert list(row) == ["encoder", "layers", "head", "(rest)", "(whole call)"]
        assert [row[name]["calls"] for name in ("encoder", "layers", "head")] == [1, 2, 1]
        assert 3 < row["layers"]["total_s"] / row["head"]["total_s"] < 9, "two layers, each three times as long"
        assert row["encoder"]["own_s"] < 0.3 * row["encoder"]["total_s"]
        assert row["encoder"]["macs"] == 0, "there is nothing in it that multiplies"
        assert not cell["breakdown"]["automatic"]
        details = json.loads((run.folder / cell["breakdown"]["file"]).read_text())
        assert {"encoder.*", "head"} <= {row["name"] for row in details["modules"]}


@pytest.mark.slow
def test_the_timing_pass_has_no_labels_and_what_they_cost_is_told(run: Done) -> None:
    calls: dict[str, list[str]] = {}  # in each process: a cell has one of its own, the smaller one the first
    for line in (run.logdir.parent / "notes").read_text().splitlines():
        process, called = line.split()
        calls.setdefault(process, []).append(called)
    for cell, how in zip(run.results["cells"], calls.values(), strict=True):
        timed = cell["latency_s"]["n"] + len(cell["latency_s"]["warmup"])
        assert set(how[:timed]) == {"bare"}
        assert "watched" in how[timed:]
        overhead = cell["breakdown"]["overhead"]
        assert overhead["module_calls"] == 5
        assert 0 < overhead["known"] < 0.05
    assert "The labels cost" in run.tables


@pytest.mark.slow
def test_labels_are_spans_in_the_trace(run: Done) -> None:
    assert len(run.results["cells"]) == 2
    for cell in run.results["cells"]:
        (trace,) = run.traces(cell)
        spans = [event for event in read_trace(trace) if event.get("cat") == "user_annotation"]
        found = {name: [span for span in spans if span["name"] == name] for name in ("encoder", "layers", "head")}
        assert {name: len(each) for name, each in found.items()} == {"encoder": 1, "layers": 2, "head": 1}
        (encoder,) = found["encoder"]
        for layer in found["layers"]:
            assert encoder["ts"] <= layer["ts"]
            assert layer["ts"] + layer["dur"] <= encoder["ts"] + encoder["dur"]


@pytest.mark.slow
def test_the_tables_show_the_largest_cell_and_report_what_is_asked(run: Done) -> None:
    assert run.tables.count("**Where the time goes") == 1
    assert "Of 0.2 s x 1" in run.tables
    assert names(report(run, "--labels", "*e*", "--sort", "calls"))[0] == "layers"
    assert names(report(run, "--labels", "enc*")) == ["encoder"]
    by_module = report(run, "--by", "module", "--sort", "self", "--cell", "0.1s_x1")
    assert "0.1 s x 1" in by_module
    assert names(by_module)[:2] == ["encoder.*", "head"]
    assert {"encoder.0", "encoder.1"} <= set(names(report(run, "--unfolded")))
    assert "under torch's profiler" in report(run, "--by", "operator")
    (found,) = json.loads(report(run, "--labels", "head", "--json"))
    assert [row["name"] for row in found["rows"]] == ["head"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--labels", "encodr*"), "--labels encodr*: nothing matches. Did you mean `encoder`?"),
        (("--cell", "9s_x1"), "--cell 9s_x1: there is no such cell with a breakdown."),
    ],
)
def test_asking_for_what_is_not_there(run: Done, arguments: tuple[str, ...], sentence: str) -> None:
    done = program.run("report", run.folder, *arguments)
    assert done.returncode == 2
    assert sentence in done.stderr


@pytest.mark.slow
def test_a_label_that_matches_nothing_ends_the_run_before_it_starts(tmp_path: Path) -> None:
    more = program.QUICK + "trace: {labels: {body: encodr.*}}\n"
    recipe = program.module_recipe(tmp_path, "Parts", more=more)
    done = program.run(recipe, "--trust", "--logdir", tmp_path / "logs")
    assert done.returncode == 2
    assert "trace.labels.body: no module of the model matches `encodr.*`. Did you mean `encoder`" in done.stderr
    assert "Traceback" not in done.stderr
    assert list((tmp_path / "logs").rglob("results.json")) == []


@pytest.mark.slow
def test_it_can_be_switched_off(tmp_path: Path) -> None:
    recipe = program.module_recipe(tmp_path, "Parts", seconds="[0.1]", batches="[1]", grid=GRID)
    logs = tmp_path / "logs"
    done = program.run(recipe, "--trust", "--logdir", logs, "measure.rounds=1", "trace.breakdown=false")
    assert done.returncode == 0
    (cell,) = program.results_in(logs)["cells"]
    assert cell["breakdown"] is None
    (trace,) = Done("", "", logs).traces(cell)
    assert "encoder" not in {event.get("name") for event in read_trace(trace)}
    done = program.run("report", program.run_folder(logs), "--by", "label")
    assert done.returncode == 2
    assert "This run has no breakdown: it was made with trace.breakdown: false." in done.stderr


# -- labels that models have by themselves


def automatic(model: Model, folder: Path) -> dict[str, dict[str, Any]]:
    parts = find_parts(model, {})
    assert parts is not None
    batch = Speech(tiny.SPEECH, model.rate).batch(0.5, 1, seed=0)
    call = LabelledCall(model.run, model.prepare(batch), Device("cpu"), parts)
    with torch.no_grad():
        found = measure_breakdown(call, batch.seconds_of_audio, folder)
    row = {row["name"]: row for row in found.model_dump()["labels"]}
    assert row["(whole call)"]["macs"] == sum(one["own_macs"] for name, one in row.items() if name != "(whole call)")
    assert row["(rest)"]["share"] < 0.6
    return row


@pytest.mark.slow
def test_a_wav2vec2_recogniser(tiny_model: Callable[[str], TinyModel], tmp_path: Path) -> None:
    made = tiny_model("ctc")
    row = automatic(load_model(ModelRequest(source=str(made.folder), folder=made.folder, type=made.type)), tmp_path)
    assert {"front end", "feature_projection", "encoder", "lm_head"} <= set(row)
    assert row["encoder"]["calls"] == 1


@pytest.mark.slow
def test_a_crdnn_with_search_and_language_model(tiny_model: Callable[[str], TinyModel], tmp_path: Path) -> None:
    made = tiny_model("crdnn")
    row = automatic(load_model(ModelRequest(source=str(made.folder), folder=made.folder, type=made.type)), tmp_path)
    assert {"front end", "encoder", "search", "decoder", "language model"} <= set(row)
    assert row["search"]["calls"] == row["encoder"]["calls"] == 1
    assert row["language model"]["calls"] >= 1
    assert row["search"]["total_s"] >= row["decoder"]["total_s"] + row["language model"]["total_s"]
    assert row["encoder"]["total_s"] >= row["front end"]["total_s"]
    assert row["search"]["own_macs"] == 0, "it multiplies nothing itself"


@pytest.mark.slow
def test_an_espnet_recogniser_whose_search_calls_steps_of_its_decoder(tmp_path: Path) -> None:
    settings = {"pretrained_model.weights": "random"}
    settings |= {f"pretrained_model.overrides.{key}": value for key, value in ROWS["conformer"].overrides.items()}
    loaded = load_recipe(tiny.RECIPES / "conformer.yaml", settings)
    row = automatic(load_model(model_request(loaded.recipe, loaded.path.parent)), tmp_path)
    assert {"front end", "encoder", "decoder", "search", "ctc"} <= set(row)
    steps = 3  # half a second at 5.3 tokens a second
    assert row["decoder"]["calls"] == steps, "batch_score, which is no forward"
    assert row["search"]["calls"] == 1
    assert row["search"]["total_s"] >= row["decoder"]["total_s"] + row["ctc"]["total_s"]
