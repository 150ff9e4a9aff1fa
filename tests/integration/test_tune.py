"""`tune`, through the real program, on a model whose time is known."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from profiler import load_run
from tests.helpers import program
from tests.helpers.program import ROOT

# Seconds of sleep for a second of audio: no machine is so busy that these change places.
TIMES = {"slow": 4.0, "good": 0.05, "better": 0.01, "bad": 1.0, "worse": 2.0}
FEW = (
    "--engines",
    "torch",
    "--precisions",
    "float32",
    "--try-threads",
    "1",
    "--finalists",
    "2",
    "--budget",
    "0.5",
    "--trust",
)


def sleepers(folder: Path, names: Iterable[str] = TIMES) -> Path:
    more = "measure: {warmup: 1, rounds: 6}\n"
    recipe = program.module_recipe(folder, "Sleeper", "{per_second: 4.0}", seconds="[0.01]", batches="[1]", more=more)
    variants = [
        f"- {{name: {name}, threads: 1, set: {{pretrained_model.overrides.per_second: {seconds}}}}}"
        for name, seconds in TIMES.items()
        if name in names
    ]
    recipe.write_text("# What I wrote.\n" + recipe.read_text() + "variants:\n" + "\n".join(variants) + "\n")
    return recipe


def tune(recipe: Path, *more: str | Path) -> subprocess.CompletedProcess[str]:
    return program.run("tune", recipe, *FEW, "--logdir", recipe.parent / "logs", *more)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    folder = tmp_path_factory.mktemp("tuned")
    return folder, tune(sleepers(folder))


@pytest.mark.slow
def test_it_picks_the_fastest_says_why_and_fits_on_a_screen(
    tuned: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    folder, done = tuned
    assert done.returncode == 0, done.stderr
    assert "Pick: better (batch 1): the lowest RTF" in done.stdout
    assert f"Recipe: {folder / 'recipe-tuned.yaml'}" in done.stdout
    assert len(done.stdout.strip().splitlines()) <= 25
    assert "5 variants x 1 batch sizes = 5 candidates" in done.stderr
    (row,) = [line for line in done.stdout.splitlines() if line.endswith("pick |")]
    assert "x0.0" in row, "the ratio to the first variant, with its CI"
    assert "a: better" in row, "its letter in the plot"
    assert "peak memory, MB, over RTF" in done.stdout
    (plot,) = re.findall(r"Plot: (\S+)", done.stdout)
    assert Path(plot).parent == load_run("recipe-finalists", folder / "logs").folder
    assert Path(plot).stat().st_size > 1000


@pytest.mark.slow
def test_the_slow_half_leaves_after_one_round_and_the_finalists_take_turns(
    tuned: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    folder, _ = tuned
    look, final = (load_run(f"recipe-{stage}", folder / "logs").results for stage in ("candidates", "finalists"))
    rounds = {cell.variant: len(cell.latency_s.rounds) for cell in look.cells if cell.latency_s}
    assert rounds["slow"] == rounds["worse"] == 1
    assert rounds["better"] >= 3
    assert final.variants == ["slow", "good", "better"], "the first one, to compare with, and the finalists"
    assert all(cell.latency_s and len(cell.latency_s.rounds) >= 6 for cell in final.cells)
    # Turn by turn: in each round all make as many calls as one another, while the machine is in one condition.
    assert len({tuple(cell.latency_s.rounds) for cell in final.cells if cell.latency_s}) == 1
    conditions = [[each.model_dump(exclude={"handoff_s"}) for each in cell.conditions] for cell in final.cells]
    assert conditions[0] == conditions[1] == conditions[2]
    assert final.run.is_finished
    assert look.run.is_finished


@pytest.mark.slow
def test_the_recipe_that_is_written_explains_itself_and_runs(
    tuned: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    folder, _ = tuned
    text = (folder / "recipe-tuned.yaml").read_text()
    assert text.startswith("# recipe, tuned: better with batches of 1.")
    assert "The pick: better (batch 1)" in text
    done = program.run(
        folder / "recipe-tuned.yaml", "measure.rounds=1", "--trust", "--quiet", "--logdir", folder / "again"
    )
    assert done.returncode == 0, done.stderr
    assert [cell["variant"] for cell in program.results_in(folder / "again")["cells"]] == ["slow", "better"]


@pytest.mark.slow
def test_a_recipe_that_is_there_is_not_replaced(tuned: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    folder, _ = tuned
    before = (folder / "recipe-tuned.yaml").read_bytes()
    done = tune(folder / "recipe.yaml")
    assert done.returncode == 2
    assert "is there already" in done.stderr
    assert (folder / "recipe-tuned.yaml").read_bytes() == before


@pytest.mark.slow
def test_where_no_candidate_keeps_the_limits_there_is_no_recipe(tmp_path: Path) -> None:
    done = tune(sleepers(tmp_path), "--under", "memory 1 MB", "--json", "--quiet")
    assert done.returncode == 1, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["pick"] is None
    assert "over memory 1.00 MB" in found["why"]
    assert not (tmp_path / "recipe-tuned.yaml").exists()
    assert len(found["runs"]) == 1, "nobody was left to be a finalist"


@pytest.mark.slow
def test_an_interrupted_search_goes_on_where_it_was(tmp_path: Path) -> None:
    recipe = sleepers(tmp_path, ("slow", "good", "better"))  # one more than there are finalists
    started = program.start("tune", recipe, *FEW, "--logdir", tmp_path / "logs")
    deadline = time.monotonic() + 120
    while not list((tmp_path / "logs").glob("recipe-finalists/*/results.json")):
        assert time.monotonic() < deadline
        assert started.poll() is None
        time.sleep(0.05)
    started.send_signal(signal.SIGINT)
    _, said = started.communicate(timeout=60)
    assert started.returncode == 130
    assert "--resume" in said
    done = tune(recipe, "--resume")
    assert done.returncode == 0, done.stderr
    assert "Pick: better" in done.stdout
    assert len(list((tmp_path / "logs").glob("*/*/results.json"))) == 2, "both runs were taken up"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--under", "wer +0.5"], "`wer` cannot be limited: the recipe names no data set"),
        (["--under", "memory lots"], "`lots` is no limit for memory"),
        (["--under", "wer"], "--under `wer`: the limit is missing; write wer +0.5"),
        (["--engines", "tensorflow"], "--engines tensorflow: not known"),
        (["--seconds", "0"], "--seconds 0: expected a number greater than 0"),
        (["--output", "/tmp"], "is a folder; name a file"),
        (["mode=training"], "mode: training"),
    ],
)
def test_a_mistake_ends_it_before_anything_is_measured(tmp_path: Path, more: list[str], said: str) -> None:
    done = tune(sleepers(tmp_path), *more)
    assert done.returncode == 2
    assert said in done.stderr
    assert not (tmp_path / "logs").exists() or not list((tmp_path / "logs").iterdir())


@pytest.mark.slow
def test_an_error_rate_decides_where_the_data_set_has_transcripts(tmp_path: Path) -> None:
    """Both searches transcribe the set in the quick look; what is surely over the limit is no finalist."""
    shutil.copytree(ROOT / "recipes" / "models" / "lstm-commands", tmp_path / "model")
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        "pretrained_model: {source: ./model, type: EncoderDecoderASR, overrides: {beam_size: 2, ctc_weight: 0.0}}\n"
        f"dataset: {{source: {ROOT}/samples/commands/test.csv, limit: 12, batch_size: 4, rounds: 1}}\n"
        f"profiling_dimensions:\n  audio_mockup_secs: [0.5]\n  batch_sizes: [1]\n"
        f"  example_audio: {ROOT}/samples/speech.flac\n"
        "measure: {rounds: 1, budget: 0.5, warmup: 1}\n"
        "variants:\n- {name: attention, threads: 1}\n"
        "- {name: broken, threads: 1, set: {pretrained_model.overrides.ctc_weight: 1.0, "
        "pretrained_model.overrides.beam_size: 1}}\n"
    )
    more = ["--finalists", "1", "--under", "wer 0.001", "--json", "--quiet", "--output", str(tmp_path / "o.yaml")]
    done = tune(recipe, *more)
    found = json.loads(done.stdout)
    rates = load_run("recipe-candidates", tmp_path / "logs").results.accuracy
    assert [rate.variant for rate in rates] == ["attention", "broken"]
    assert all(rate.wer is not None for rate in rates)
    over = [rate.variant for rate in rates if rate.wer and rate.wer.ci95 and rate.wer.ci95[0] > 0.00001]
    assert {each["variant"] for each in found["dropped"] if "over WER" in each["reason"]} == set(over)
