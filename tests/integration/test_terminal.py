"""The program in a terminal of 80 to 200 columns: what it prints fits, and a mistake gets one clear answer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from profiler.cli import COMMANDS
from profiler.report.closing import MOST_LINES
from profiler.results.store import ResultsFile
from tests.helpers.program import ROOT, run
from tests.helpers.terminal import Screen, screen
from tests.helpers.tiny import RECIPES
from tests.unit.report.runs import full

RUNS = {"wav2vec2": ("20261117-120000-aaaa", "20261118-090000-ab12"), "log-mel": ("20261118-100000-0123",)}


@pytest.fixture(scope="module")
def logdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("logs")
    for recipe, names in RUNS.items():
        for name in names:
            made = full("float32", "int8", source="speechbrain/asr-wav2vec2-commonvoice-fr")
            made.run.id, made.run.recipe, made.run.started = name, f"{recipe}.yaml", "2026-11-18T10:00:00+00:00"
            failed = made.cells[-1]
            failed.status, failed.reason, failed.rtf, failed.latency_s = "failed", "killed by SIGSEGV", None, None
            made.run.status = "finished with failures"
            (root / recipe / name).mkdir(parents=True)
            ResultsFile(root / recipe / name, made).write()
    return root


def fits(shown: Screen, columns: int, status: int = 0) -> Screen:
    assert shown.status == status, shown.text
    assert max(map(len, shown.lines)) <= columns, shown.text
    assert "Traceback" not in shown.text
    return shown


# --- what it prints fits ---


@pytest.mark.parametrize("columns", [80, 120, 200])
def test_a_report_is_the_answer_on_one_screen(logdir: Path, columns: int) -> None:
    shown = screen(columns, "report", "ab12", "--logdir", logdir)
    assert shown.status == 0, shown.text
    answer = [line for line in shown.lines if not line.startswith(("Report ", "Tables "))]  # paths are not cut
    assert max(map(len, answer)) <= columns
    assert len(shown.lines) <= MOST_LINES
    assert shown.lines[0] == "1 of 12 cells failed:"
    assert shown.raw.startswith("\x1b[1;31m")
    assert any(line.startswith("int8 ") and "x0.50" in line for line in shown.lines)
    assert f"Report   {logdir / 'wav2vec2' / '20261118-090000-ab12' / 'report.html'}" in shown.text


@pytest.mark.parametrize("columns", [80, 120])
def test_all_tables_are_printed_when_they_are_asked_for(logdir: Path, columns: int) -> None:
    shown = screen(columns, "report", "ab12", "--full", "--logdir", logdir)
    tables = shown.lines[: next(n for n, line in enumerate(shown.lines) if line.startswith("Report:"))]
    assert max(map(len, tables)) <= columns
    for title in ("Real-time factor", "What fits in memory", "Where the time goes", "Parameters"):
        assert title in shown.text
    assert "**" not in shown.text


def test_a_pipe_gets_markdown_with_or_without_full(logdir: Path) -> None:
    whole = run("report", "ab12", "--logdir", logdir).stdout
    assert whole == run("report", "ab12", "--full", "--logdir", logdir).stdout
    assert whole.startswith("**Real-time factor")


@pytest.mark.parametrize("columns", [80, 100, 120])
def test_runs_are_listed_newest_first(logdir: Path, columns: int) -> None:
    shown = fits(screen(columns, "runs", "--logdir", logdir), columns)
    assert [line.split()[0] for line in shown.lines if line.startswith("2026")] == [
        "20261118-100000-0123",
        "20261118-090000-ab12",
        "20261117-120000-aaaa",
    ]
    words = " ".join(shown.text.split())
    for what in ("wav2vec2", "commonvoice-fr", "cpu", "11/12", "0.050-0.10", "finished", "with failures"):
        assert what in words
    assert fits(screen(columns, "runs", "log-mel", "--logdir", logdir), columns).text.count("2026111") == 1


def test_runs_as_json(logdir: Path) -> None:
    first, *_ = json.loads(run("runs", "--json", "--logdir", logdir).stdout)
    assert (first["id"], first["recipe"], first["device"]) == ("20261118-100000-0123", "log-mel", "cpu")
    assert first["cells"] == {"ok": 11, "skipped": 0, "failed": 1}
    assert first["rtf"] == [0.05, 0.1]
    assert first["status"] == "finished with failures"


def test_a_log_folder_without_runs_says_how_to_make_one(tmp_path: Path) -> None:
    assert "`python profile.py RECIPE` makes one" in screen(80, "runs", "--logdir", tmp_path).text


@pytest.mark.parametrize("columns", [80, 120])
def test_one_run_is_compared_with_the_one_before_it(logdir: Path, columns: int) -> None:
    shown = fits(screen(columns, "compare", "wav2vec2", "--logdir", logdir), columns)
    assert "Baseline: 20261117-120000-aaaa" in shown.text
    assert "This run: 20261118-090000-ab12" in shown.text
    alone = screen(columns, "compare", "latest", "--logdir", logdir)
    assert (alone.status, "There is one run only" in alone.text) == (2, True)


@pytest.mark.parametrize("columns", [80, 100, 200])
def test_ls_fits(columns: int) -> None:
    shown = fits(screen(columns, "ls"), min(columns, 100))
    assert {path.stem for path in RECIPES.glob("*.yaml")} <= {line.split()[0] for line in shown.lines if line}
    assert "Accuracy beside speed" in " ".join(screen(columns, "ls", "-l").text.split())


def test_show_gives_the_plan_and_what_differs_from_the_defaults(tmp_path: Path) -> None:
    shown = fits(screen(80, "show", ROOT / "recipes" / "wav2vec2.yaml", "rounds=5", "--logdir", tmp_path), 80)
    keys = [line.split(":")[0].strip() for line in shown.lines if line.startswith("  ")]
    assert "measure.rounds" in keys
    assert "measure.warmup" not in keys
    assert shown.text.index("9 cells to measure") < shown.text.index("measure.rounds: 5")
    every = screen(80, "show", "wav2vec2", "--all", "--logdir", tmp_path).text
    assert "measure.warmup: 2" in every


@pytest.mark.parametrize("name", ["--help", "wav2vec2", *COMMANDS])
def test_help_wraps_at_80_columns(name: str) -> None:
    shown = fits(screen(80, *([name] if name == "--help" else [name, "--help"])), 80)
    if name == "--help":
        assert [group for group in ("recipes:", "runs:", "comparing:", "the machine:") if group in shown.lines] == [
            "recipes:",
            "runs:",
            "comparing:",
            "the machine:",
        ]


# --- a mistake gets one answer ---

MISTAKES = [
    (("tensorbord",), "Did you mean `tensorboard`?"),
    (("list",), "Did you mean `ls`?"),
    (("lst",), "Did you mean `lstm` or `ls`?"),
    (("benchmark", "recipes/wav2vec2.yaml"), "A recipe is run without a command: python profile.py recipes/wav2vec2.y"),
    (("wav2vec2", "--gpu"), "there is no option --gpu. Did you mean `--device cuda`?"),
    (("wav2vec2", "--treads", "1"), "there is no option --treads. Did you mean `--threads`?"),
    (("--threads", "1"), "the following arguments are required: RECIPE."),
    (("run",), "the following arguments are required: RECIPE."),
    (("show", "wav2vec2", "batchsizes=[1]"), "Did you mean `profiling_dimensions.batch_sizes`?"),
    (("show", "wav2vec2", "batch_size=1"), "Did you mean `profiling_dimensions.batch_sizes`?"),
    (("show", "wav2vec2", "measure.batch_sizes=[1]"), "Did you mean `profiling_dimensions.batch_sizes`?"),
    (("show", "wav2vec2", "mesure.rounds=1"), "Did you mean `measure`?"),
    (
        ("show", "wav2vec2", "memory=8GB"),
        "`memory` is a key of several sections: write measure.memory or trace",
    ),
    (("show", "wav2vec2", "rounds=5", "measure.rounds=6"), "`measure.rounds` is set twice"),
]


@pytest.mark.parametrize(("arguments", "answer"), MISTAKES, ids=lambda value: " ".join(value) if value else "")
def test_what_may_have_been_meant_is_said(arguments: tuple[str, ...], answer: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert answer in done.stderr
    assert done.stdout == ""
    assert done.stderr.count("profile.py: ") == 1
    assert "usage:" not in done.stderr


def test_a_recipe_beside_is_suggested(tmp_path: Path) -> None:
    (tmp_path / "my-model.yaml").write_text((RECIPES / "log-mel.yaml").read_text())
    for wrong in (tmp_path / "my-modle.yaml", "my-modle.yaml"):
        shown = screen(200, "show", wrong, folder=tmp_path)
        assert shown.status == 2
        assert "my-model.yaml`?" in shown.text


def test_run_may_be_written_and_a_key_may_stand_alone_where_one_section_has_it() -> None:
    overrides = ("batch_sizes=[3]", "rounds=5", "weights=random", "active=2")
    recipe = json.loads(run("show", "wav2vec2", *overrides, "--json", "--no-counts").stdout)["recipe"]
    assert recipe["profiling_dimensions"]["batch_sizes"] == [3]
    assert (recipe["measure"]["rounds"], recipe["trace"]["schedule"]["active"]) == (5, 2)
    assert recipe["pretrained_model"]["weights"] == "random"
    assert "has a mistake" in run("run", "recipes/wav2vec2.yaml", "measure.rounds=0").stderr


def test_a_baseline_that_is_not_there_is_a_mistake(tmp_path: Path) -> None:
    text = (RECIPES / "log-mel.yaml").read_text()
    recipe = tmp_path / "recipe.yaml"
    for baseline, answer in (
        ("flaot32", "the baseline of int8, `flaot32`, is not there. Did you mean `float32`?"),
        ("int8", "the baseline of int8, `int8`, is no baseline of itself."),
    ):
        recipe.write_text(f"{text}\nvariants:\n- name: float32\n- {{name: int8, baseline: {baseline}, threads: 1}}\n")
        done = run("show", recipe, "profiling_dimensions.example_audio=null", "--no-counts")
        assert done.returncode == 2
        assert answer in done.stderr
