"""The commands beside running: each answers at once, without a model and without torch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from profiler import __version__
from profiler.report.markdown import render
from profiler.report.plots import PLOTS
from profiler.report.plots.style import SUFFIXES
from profiler.results.store import ResultsFile
from tests.helpers.program import ROOT, command, run
from tests.helpers.synthetic import latency
from tests.helpers.tiny import RECIPES, SPEECH, recipe_text
from tests.integration.test_bad_input import SHOUT, path_without_torch
from tests.unit.report.runs import full
from tests.unit.report.test_tables import absent, ok, results, unstable

WAV2VEC2 = "facebook/wav2vec2-base-960h"
HEAVY = ("torch", "torchaudio", "speechbrain", "transformers", "scipy", "matplotlib", "tensorboard", "pandas", "numpy")
# `report` tells what a call costs over its length, `compare` asks scipy for its distributions.
NEEDED = {"report": {"numpy"}, "compare": {"numpy", "scipy"}}
NAMES = sorted(path.stem for path in RECIPES.glob("*.yaml"))


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "recipe.yaml"
    grid = f"triangle_only: true\nexample_audio: {SPEECH}"
    path.write_text(
        recipe_text("facebook/wav2vec2-base-960h", "AutoModelForCTC", "[0.5, 1, 2]", "[1, 2, 4]", grid=grid)
    )
    return path


@pytest.fixture
def logdir(tmp_path: Path) -> Path:
    """A log folder with one run in it."""
    folder = tmp_path / "logs" / "r" / "20260101-120000-aaaa"
    folder.mkdir(parents=True)
    made = results(ok(1, 1, 0.1), unstable(2, 1, 0.2, 0.18, other_processes=1.5), absent(2, 2, "skipped", "too long"))
    ResultsFile(folder, made).write()
    (tmp_path / "other").mkdir()
    made.run.id, made.cells[0].latency_s = "another", latency([[0.2], [0.21], [0.2], [0.22], [0.2], [0.21]])
    ResultsFile(tmp_path / "other", made).write()
    return tmp_path / "logs"


def output(*arguments: str | Path) -> str:
    done = run(*arguments)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


# --- help ---


def test_help_shows_how_to_run_and_every_command() -> None:
    text = output("--help")
    assert "profile.py RECIPE [key=value ...] [options]" in text
    for word in ("ls", "cp", "show", "report", "tensorboard", "Exit status"):
        assert word in text


@pytest.mark.parametrize("name", ["ls", "cp", "show", "report", "tensorboard"])
def test_every_command_has_help(name: str) -> None:
    assert f"usage: profile.py {name}" in output(name, "--help")


def test_the_options_of_a_run_are_listed() -> None:
    text = output("recipes/wav2vec2.yaml", "--help")
    for option in ("--logdir", "--device", "--threads", "--resume", "--json", "--quiet", "--trust"):
        assert option in text


def test_the_version() -> None:
    assert output("--version").strip() == f"speech-profiler {__version__}"


def test_without_arguments_the_help_is_shown_as_a_mistake() -> None:
    done = run()
    assert done.returncode == 2
    assert "profile.py RECIPE" in done.stdout + done.stderr


def test_the_module_and_the_script_are_the_same_program() -> None:
    module = subprocess.run(
        [sys.executable, "-m", "profiler", "ls"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert module.stdout == output("ls")


def test_the_program_runs_from_any_folder(tmp_path: Path) -> None:
    done = subprocess.run(command("ls"), cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == output("ls")


def test_a_reader_that_goes_away_is_no_error() -> None:
    script = f"'{sys.executable}' profile.py ls | head -n 0; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


# --- ls ---


def test_ls_lists_every_shipped_recipe_with_its_purpose() -> None:
    lines = output("ls", "-l").splitlines()
    for name in NAMES:
        (line,) = [line for line in lines if line.split()[:1] == [name]]
        assert len(line.split()) > 4


def test_ls_as_json() -> None:
    rows = json.loads(output("ls", "--json"))
    assert sorted(row["name"] for row in rows) == NAMES
    assert all(Path(row["file"]).is_file() and row["purpose"] for row in rows)


# --- cp ---


@pytest.mark.parametrize("name", NAMES)
def test_a_copy_runs_from_where_it_lies(tmp_path: Path, name: str) -> None:
    copy = tmp_path / "my folder" / "mine.yaml"
    assert f"python profile.py {copy}" in output("cp", name, copy)
    shown = output("show", copy, "--json", "--no-counts")
    grid = json.loads(shown)["recipe"]["profiling_dimensions"]
    assert (copy.parent / grid["example_audio"]).resolve() == SPEECH
    original = json.loads(output("show", f"recipes/{name}.yaml", "--json", "--no-counts"))
    assert json.loads(shown)["cells"] == original["cells"]
    assert f"profile.py {copy}" in copy.read_text()


def test_a_copy_into_a_folder_keeps_its_name(tmp_path: Path) -> None:
    output("cp", "wav2vec2", tmp_path)
    assert (tmp_path / "wav2vec2.yaml").is_file()


@pytest.mark.parametrize("name", ["wav2vec2.yaml", "recipes/wav2vec2.yaml"])
def test_a_recipe_may_be_named_by_its_file(tmp_path: Path, name: str) -> None:
    output("cp", name, tmp_path / "mine.yaml")
    assert (tmp_path / "mine.yaml").is_file()


def test_force_replaces_a_file(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("old")
    output("cp", "wav2vec2", tmp_path / "mine.yaml", "--force")
    assert "pretrained_model:" in (tmp_path / "mine.yaml").read_text()


# --- show ---


def test_show_prints_the_resolved_recipe_and_the_plan(recipe: Path) -> None:
    text = output("show", recipe, "--all")
    assert f"{recipe}: no mistakes." in text
    assert "profiling_dimensions.batch_sizes: [1, 2, 4]" in text
    assert "measure.rounds: 10" in text  # a default that the file does not name
    assert "6 cells to measure" in text
    assert "skipped: triangle_only leaves out the heavy corner" in text


def test_a_shipped_recipe_may_be_named_without_its_folder() -> None:
    assert "no mistakes" in output("show", "wav2vec2")


def test_show_as_json_has_the_shapes_of_the_results(recipe: Path) -> None:
    shown = json.loads(output("show", recipe, "--json", "--no-counts"))
    assert set(shown) == {"recipe", "cells", "models"}
    assert shown["recipe"]["pretrained_model"]["type"] == "AutoModelForCTC"
    assert len(shown["cells"]) == 9
    assert shown["cells"][0] == {"variant": "float32", "seconds": 0.5, "batch_size": 1}
    skipped = [(cell["seconds"], cell["batch_size"]) for cell in shown["cells"] if cell.get("status") == "skipped"]
    assert skipped == [(1, 4), (2, 2), (2, 4)]
    (model,) = shown["models"]
    assert (model["variant"], model["source"], model["type"]) == ("float32", WAV2VEC2, "AutoModelForCTC")
    assert model["parameters"]["total"] == 94_396_320  # known without building it


def test_overrides_are_typed_as_yaml(recipe: Path) -> None:
    shown = json.loads(
        output(
            "show",
            recipe,
            "profiling_dimensions.batch_sizes=[16, 32]",
            "profiling_dimensions.triangle_only=false",
            "profiling_dimensions.example_audio=null",
            "measure.width=0.1",
            "pretrained_model.overrides={hidden_size: 16}",
            "pretrained_model.weights=random",
            "--json",
            "--no-counts",
        )
    )
    grid = shown["recipe"]["profiling_dimensions"]
    assert (grid["batch_sizes"], grid["triangle_only"], grid["example_audio"]) == ([16, 32], False, None)
    assert shown["recipe"]["measure"]["width"] == 0.1
    assert shown["recipe"]["pretrained_model"]["overrides"] == {"hidden_size": 16}
    assert shown["recipe"]["pretrained_model"]["weights"] == "random"
    assert {cell["batch_size"] for cell in shown["cells"]} == {16, 32}
    assert all("status" not in cell for cell in shown["cells"])


def test_options_and_overrides_may_be_mixed(recipe: Path) -> None:
    shown = json.loads(output("show", "--json", recipe, "--no-counts", "measure.warmup=5", "--trust", "measure.seed=1"))
    assert (shown["recipe"]["measure"]["warmup"], shown["recipe"]["measure"]["seed"]) == (5, 1)


def test_show_writes_nothing(recipe: Path) -> None:
    output("show", recipe, "--logdir", recipe.parent / "logs")
    assert [path.name for path in recipe.parent.iterdir()] == ["recipe.yaml"]


# --- report ---


@pytest.mark.parametrize("name", ["latest", "20260101-120000-aaaa", "r/20260101-120000-aaaa"])
def test_report_prints_the_tables_and_rebuilds_the_files(logdir: Path, name: str) -> None:
    folder = logdir / "r" / "20260101-120000-aaaa"
    text = output("report", name, "--logdir", logdir)
    assert "random weights" in text
    assert "0.20 ~18%" in text
    assert text.startswith((folder / "tables.md").read_text())
    assert f"Report:  {folder / 'report.html'}" in text
    assert "0.20 ~18%" in (folder / "report.html").read_text()
    assert (folder / "results.csv").read_text().count("random weights") == 3
    for plot in ("rtfx", "latency", "memory"):
        assert all((folder / f"{plot}{suffix}").is_file() for suffix in SUFFIXES)
    assert list(folder.glob("events.out.tfevents.*"))


def test_report_without_a_name_is_the_latest(logdir: Path) -> None:
    assert output("report", "--logdir", logdir) == output("report", "latest", "--logdir", logdir)


def test_report_as_json_gives_the_results(logdir: Path) -> None:
    data = json.loads(output("report", "--logdir", logdir, "--json"))
    assert data["schema"] == 2
    assert [cell["status"] for cell in data["cells"]] == ["ok", "ok", "skipped"]


def test_a_report_can_be_made_from_a_copy_on_another_machine(tmp_path: Path) -> None:
    made = results(ok(1, 1, 0.1))
    ResultsFile(tmp_path, made).write()
    assert output("report", tmp_path).startswith(render(made))


def test_a_run_that_was_stopped_is_reported_as_such(tmp_path: Path) -> None:
    made = results(ok(1, 1, 0.1))
    made.run.status = "interrupted"
    ResultsFile(tmp_path, made).write()
    done = run("report", tmp_path)
    assert done.returncode == 0
    assert "not complete (interrupted)" in done.stderr
    assert "0.100" in done.stdout


# --- at once, and without torch ---

LIGHT = [
    ["--help"],
    ["--version"],
    ["ls"],
    ["runs", "--logdir", "{folder}/logs"],
    ["cp", "wav2vec2", "{folder}/mine.yaml", "--force"],
    ["show", "recipes/wav2vec2.yaml", "--logdir", "{folder}/logs"],
    ["show", "recipes/crdnn.yaml", "--json", "--no-counts"],
    ["report", "latest", "--logdir", "{folder}/logs"],
    ["history", "r", "--logdir", "{folder}/logs", "--output", "{folder}/history"],
    ["machines", "latest", "--logdir", "{folder}/logs"],
    ["compare", "{folder}/logs/r/20260101-120000-aaaa", "{folder}/other"],
    ["history", "r", "--logdir", "{folder}/logs"],
]


@pytest.mark.parametrize("arguments", LIGHT, ids=lambda arguments: " ".join(arguments[:2]))
def test_no_torch_is_imported(arguments: list[str], logdir: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = path_without_torch(tmp_path_factory.mktemp("path"))
    done = run(*(argument.format(folder=logdir.parent) for argument in arguments), path=path)
    assert done.returncode == 0, done.stderr
    assert SHOUT not in done.stderr


# benchmarks/report_time.py has the seconds; what is imported makes most of them.
@pytest.mark.parametrize(
    "arguments", [each for each in LIGHT if "--output" not in each], ids=lambda arguments: " ".join(arguments[:2])
)
def test_nothing_heavy_is_imported_for_an_answer_in_text(arguments: list[str], logdir: Path) -> None:
    """By Python's own account of what it imports. Files that are up to date are not drawn again."""
    if arguments[0] in ("report", "history"):
        assert run(*(argument.format(folder=logdir.parent) for argument in arguments)).returncode == 0
    environment = {**os.environ, "PYTHONPROFILEIMPORTTIME": "1"}
    done = run(*(argument.format(folder=logdir.parent) for argument in arguments), env=environment)
    assert done.returncode == 0, done.stderr
    imported = {line.rsplit("|", 1)[-1].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert "profiler.cli" in imported
    needed = NEEDED.get(arguments[0], set())
    assert not {name for name in imported if name.split(".")[0] in set(HEAVY) - needed}


def test_a_report_has_all_plots(tmp_path: Path) -> None:
    ResultsFile(tmp_path, full("float32", "int8")).write()
    assert run("report", tmp_path).returncode == 0
    assert len(list(tmp_path.glob("*.svg"))) == len(PLOTS) - 3, "all but those of accuracy, training and load"
