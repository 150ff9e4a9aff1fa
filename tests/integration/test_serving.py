"""mode: serving, through the real program: MLPerf's LoadGen, workers that hold the model, live speakers."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from profiler.recipe.load import load_recipe
from tests.helpers import program
from tests.helpers.road import Done, go
from tests.helpers.shipped import EMFORMER, ROWS
from tests.integration.test_interruption import assert_nothing_left

pytestmark = pytest.mark.slow

Turned = tuple[subprocess.CompletedProcess[str], Path]
FIXED = "{per_second: 0.0, fixed: 0.01}"


def recipe(
    folder: Path, serving: str, name: str = "Sleeper", arguments: str = FIXED, seconds: str = "[0.1, 0.2]"
) -> Path:
    shutil.copy(program.MODULES, folder / "modules.py")
    file = folder / "load.yaml"
    file.write_text(
        f"pretrained_model: {{source: modules.{name}, type: Module, overrides: {arguments}}}\n"
        f"mode: serving\nserving: {serving}\n"
        f"profiling_dimensions: {{audio_mockup_secs: [0.1, 0.2], batch_sizes: [1]}}\n"
    )
    return file


def load(folder: Path, *arguments: str, **more: str) -> Done:
    return go(recipe(folder, **more), folder / "logs", "--trust", *arguments)


def steps(done: Done, scenario: str) -> list[dict[str, Any]]:
    (result,) = done.results["serving"]
    return [step for step in result["steps"] if step["scenario"] == scenario]


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Done:
    """A model that takes 10 ms, one request at a time: it cannot do more than 100 requests a second."""
    settings = "{scenarios: [single_stream, offline, server], latency: 0.25, percentile: 80, seconds: 8, "
    settings += "search: {steps: 6, requests: 40}}"
    return load(tmp_path_factory.mktemp("searched"), serving=settings)


def test_the_highest_load_is_searched_for_and_its_steps_are_kept(searched: Done) -> None:
    (result,) = searched.results["serving"]
    tried = steps(searched, "server")
    assert 2 <= len(tried) <= 6
    assert 5 < result["requests_per_second"] < 130
    best = [step for step in tried if step["load"] == result["requests_per_second"] and step["status"] == "holds"]
    assert best, "what is said to be carried was shown"
    for step in tried:
        counts = step["requests"]
        assert counts["sent"] == counts["ok"] + counts["errors"] + counts["timeouts"] + counts["unfinished"]
        assert (step["more_needed"] is None) == (step["status"] != "not proven")


def test_latency_has_its_parts(searched: Done) -> None:
    (alone,) = steps(searched, "single_stream")
    assert alone["loadgen"] == "VALID"
    assert alone["computing_s"]["median"] >= 0.01
    assert alone["latency_s"]["median"] >= alone["computing_s"]["median"]
    assert alone["requests"]["sent"] == 64
    (offline,) = steps(searched, "offline")
    assert max(waiting for _, waiting in offline["queue"]) > 40, "all at once"
    assert 0.5 < offline["utilisation"] <= 1.01
    assert offline["queueing_s"]["max"] > 10 * offline["computing_s"]["median"]


def test_the_answer_is_a_sentence_and_a_table_in_every_view(searched: Done) -> None:
    (result,) = searched.results["serving"]
    sentence = f"requests a second at p80 < {result['limit_s']:g} s"
    assert sentence in searched.stdout
    assert html.escape(sentence) in (searched.folder / "report.html").read_text()
    assert "Latency under load, in ms; limit p80 < 0.25 s" in searched.tables
    again = program.run("report", "latest", "--logdir", searched.logdir)
    assert sentence in again.stdout
    for suffix in ("png", "svg", "pdf"):
        assert (searched.folder / f"serving-server.{suffix}").stat().st_size > 1000
    assert "limit 0.25 s" in (searched.folder / "serving-server.svg").read_text()


def test_a_model_that_dies_under_load_costs_its_requests_and_not_the_run(tmp_path: Path) -> None:
    file = recipe(
        tmp_path,
        "{scenarios: [server], loads: [40], latency: 1.0, percentile: 50, seconds: 5}",
        "Trouble",
        "{what: SIGKILL, at: 0.1}",
    )
    done = program.run(file, "--trust", "--logdir", tmp_path / "logs")
    assert "Traceback" not in done.stderr
    results = program.results_in(tmp_path / "logs")
    (step,) = results["serving"][0]["steps"]
    counts = step["requests"]
    assert counts["errors"] >= 1
    assert "the worker was killed by SIGKILL" in counts["reasons"]
    assert counts["sent"] == counts["ok"] + counts["errors"] + counts["timeouts"] + counts["unfinished"]
    assert "the worker was killed by SIGKILL" in done.stdout


def test_ctrl_c_keeps_the_requests_of_the_step_and_leaves_no_process(tmp_path: Path) -> None:
    file = recipe(tmp_path, "{scenarios: [server], loads: [20, 30], latency: 1.0, seconds: 60}")
    environment = {**os.environ, "PROFILER_TEST": str(tmp_path)}
    process = program.start(file, "--trust", "--logdir", tmp_path / "logs", env=environment)
    deadline = time.monotonic() + 100
    while not list(tmp_path.glob("logs/*/*/float32/loadgen/*/mlperf_log_detail.txt")) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(1.5)  # some requests of the step
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    assert_nothing_left(tmp_path)
    results = program.results_in(tmp_path / "logs")
    assert results["run"]["status"] == "interrupted"
    (result,) = results["serving"]
    (step,) = result["steps"]
    assert (result["status"], step["status"]) == ("interrupted", "interrupted")
    assert step["requests"]["ok"] >= 1
    assert step["latency_s"]["median"] >= 0.01


def streams(folder: Path, serving: str) -> Done:
    return go(
        "recipes/serving-streams.yaml",
        folder / "logs",
        "pretrained_model.weights=random",
        f"pretrained_model.overrides={json.dumps(EMFORMER)}",
        "profiling_dimensions.audio_mockup_secs=[1]",
        f"serving={serving}",
    )


def test_live_speakers_send_at_the_speed_of_speech(tmp_path: Path) -> None:
    done = streams(
        tmp_path, "{scenarios: [streams], streams: [3], latency: 2.0, percentile: 50, workers: 2, most_requests: 60}"
    )
    (result,) = done.results["serving"]
    (step,) = result["steps"]
    assert (result["chunk_s"], result["lookahead_s"]) == (0.16, 0.04)
    sent = step["requests"]["sent"]
    assert step["rtfx"] == pytest.approx(3, rel=0.5), "three speakers say three seconds in a second"
    assert step["seconds"] > 0.16 * (sent / 3 - 1) * 0.9, "and no faster"
    assert step["lateness_s"]["median"] >= 0


def test_speakers_of_a_model_without_chunks_are_cut_by_voice_activity(tmp_path: Path) -> None:
    pytest.importorskip("silero_vad")
    file = recipe(tmp_path, "{scenarios: [streams], streams: [12], latency: 2.0, percentile: 50, seconds: 6}")
    audio = f"profiling_dimensions.example_audio={program.ROOT / 'samples' / 'speech.flac'}"
    done = go(file, tmp_path / "logs", "--trust", audio)
    (result,) = done.results["serving"]
    (step,) = result["steps"]
    assert result["chunk_s"] is None
    assert step["requests"]["ok"] >= 1


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.load])
def test_shipped_recipes_of_load_go_the_road(name: str, tmp_path: Path) -> None:
    row = ROWS[name]
    scenario = "server" if name == "serving" else "streams"
    done = go(
        f"recipes/{name}.yaml",
        tmp_path / "logs",
        "pretrained_model.weights=random",
        f"pretrained_model.overrides={json.dumps(row.overrides)}",
        "profiling_dimensions.audio_mockup_secs=[0.2]",
        "serving.percentile=50",
        "serving.search.steps=2",
        "serving.search.requests=12",
        "serving.seconds=4",
        "--quiet",
    )
    (result,) = done.results["serving"]
    assert result["steps"][-1]["scenario"] == scenario
    assert done.stderr == ""
    assert "random weights" in done.tables
    assert done.results["models"][0]["weights"] == "random"
    assert done.results["cells"] == []


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("profiling_dimensions.batch_sizes=[4]", "requests are batched by serving.batch; set batch_sizes: [1]"),
        ("serving.scenarios=[multi]", "expected 'single_stream', 'offline', 'server' or 'streams', got 'multi'"),
        ("serving.latency=0", "expected a number greater than 0, got 0"),
        ("serving.worker=2", "Did you mean `workers`?"),
    ],
)
def test_mistakes_are_named_before_anything_runs(setting: str, said: str, tmp_path: Path) -> None:
    file = recipe(tmp_path, "{scenarios: [server]}")
    done = program.run(file, setting, "--trust", "--logdir", tmp_path / "logs")
    assert done.returncode == 2
    assert said in done.stderr
    assert not (tmp_path / "logs").exists()


@pytest.fixture(scope="module")
def turned(tmp_path_factory: pytest.TempPathFactory) -> Turned:
    """A model that takes 10 ms against one that takes 20 ms, in turns."""
    folder = tmp_path_factory.mktemp("turned")
    file = recipe(folder, "{scenarios: [single_stream], latency: 0.25, percentile: 80}")
    changed = "pretrained_model.overrides.fixed=0.02"
    done = program.run("ab", file, "--b", changed, "--seconds", "1", "--trust", "--logdir", folder / "logs")
    return done, folder / "logs"


def test_ab_puts_both_under_the_same_load_in_turns(turned: Turned) -> None:
    done, logs = turned
    assert done.returncode == 3, done.stdout + done.stderr
    assert "one by one, p50" in done.stdout
    assert "slower" in done.stdout
    results = program.results_in(logs)
    a, b = results["serving"]
    assert (a["variant"], b["variant"]) == ("A", "B")
    rounds = [step["round"] for step in a["steps"]]
    assert rounds == [step["round"] for step in b["steps"]] == list(range(max(6, len(rounds))))
    shown = program.run("report", "latest", "--logdir", logs)
    assert shown.stdout.count("one by one") == 2 + 2 + 2, "two percentiles; each side one row in each of two tables"
    assert shown.stderr == ""
    assert "slower" in shown.stdout


def test_runs_under_load_are_compared_at_the_same_load(searched: Done, turned: Turned) -> None:
    (other,) = turned[1].glob("*/2*")
    done = program.run("compare", searched.folder, other, "--variants", "float32", "B", "--logdir", searched.logdir)
    assert done.returncode == 0, done.stderr
    (row,) = [line for line in done.stdout.splitlines() if "one by one, p50" in line]
    ratio, low, high = (float(value) for value in re.findall(r"\d+\.\d+", row.split("|")[4]))
    assert ratio == pytest.approx(2.0, rel=0.4)
    assert low < ratio < high
    assert "slower" in row or low < 1.0, "where the machine's speed has changed meanwhile, nothing is certain"
    assert "Run-to-run floor" in done.stdout
    done = program.run("compare", searched.folder, searched.folder, "--logdir", searched.logdir)
    assert done.returncode == 2
    assert "is given twice" in done.stderr


def test_ab_refuses_sides_that_cannot_have_the_same_load(tmp_path: Path) -> None:
    file = recipe(tmp_path, "{scenarios: [server], loads: [2]}")
    for change, said in (("serving.loads=[3]", "give both one"), ("mode=inference", "A is mode: serving")):
        done = program.run("ab", file, "--b", change, "--trust", "--logdir", tmp_path / "logs")
        assert done.returncode == 2
        assert said in done.stderr


def test_show_says_what_load_is_planned() -> None:
    shown = program.run("show", "serving", "--no-counts")
    assert "Plan - load" in shown.stdout
    assert "searched for" in shown.stdout
    assert "all of them 3.7 min at most" in shown.stdout


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.load])
def test_shipped_recipes_of_load_end_within_five_minutes(name: str) -> None:
    """What no machine can exceed: the budget, then a client that waits to the end, and half a minute for all else."""
    settings = load_recipe(program.ROOT / "recipes" / f"{name}.yaml").recipe.serving
    assert settings.most_seconds + settings.timeout < 300 - 30
