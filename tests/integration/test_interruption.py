"""Ctrl-C, kill, and taking a run up again. Real signals to a real process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.helpers import program

pytestmark = pytest.mark.slow

SLOW = "measure: {warmup: 1, budget: 0.5, rounds: 2, operations: false}\ntrace: {breakdown: false}\n"


def start_run(folder: Path) -> subprocess.Popen[str]:
    """A run of some seconds, in which the first cell is done after a few."""
    recipe = program.module_recipe(folder, "Sleeper", "{per_second: 0.5}", "[0.1, 0.2, 0.3]", "[1, 2]", SLOW)
    environment = {**os.environ, "PROFILER_TEST": str(folder)}
    return program.start(recipe, "--trust", "--logdir", folder / "logs", env=environment)


def wait_for_cells(folder: Path, count: int) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        for file in folder.glob("logs/*/*/results.json"):
            cells = json.loads(file.read_text())["cells"]  # always a whole file, whenever it is read
            if sum(cell["status"] == "ok" for cell in cells) >= count:
                return
        time.sleep(0.05)
    raise AssertionError("no cell was finished")


def assert_nothing_left(folder: Path) -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if not program.processes_mentioning(f"PROFILER_TEST={folder}"):
            return
        time.sleep(0.1)
    raise AssertionError("processes were left behind")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_run_is_whole_and_can_be_resumed(tmp_path: Path, number: signal.Signals) -> None:
    process = start_run(tmp_path)
    wait_for_cells(tmp_path, 2)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    shown = errors.split("go on with: python ")[1].split()
    assert shown[0] == "profile.py", "it says how to go on"
    assert {"--trust", "--logdir", "--resume"} <= set(shown), "with all that was given"
    assert_nothing_left(tmp_path)
    before = program.results_in(tmp_path / "logs")
    assert before["run"]["status"] == "interrupted"
    finished = [cell for cell in before["cells"] if cell["status"] == "ok"]
    assert len(finished) >= 2
    folder = program.run_folder(tmp_path / "logs")
    assert (folder / "tables.md").exists()

    done = program.run(tmp_path / "recipe.yaml", "--trust", "--logdir", tmp_path / "logs", "--resume", folder.name)
    after = program.results_in(tmp_path / "logs")
    assert done.returncode == 0
    assert after["run"]["status"] == "complete"
    assert after["run"]["id"] == before["run"]["id"]
    assert len([cell for cell in after["cells"] if cell["status"] == "ok"]) == 6
    for cell in finished:
        samples = program.cell(after, cell["seconds"], cell["batch_size"])["latency_s"]["samples"]
        assert samples[: cell["latency_s"]["n"]] == cell["latency_s"]["samples"], "measured samples are kept"


def test_a_run_that_goes_on_is_not_resumed_at_the_same_time(tmp_path: Path) -> None:
    """Neither while its first process lives; nor by two at once, for a run that is taken up is locked as well."""
    process = start_run(tmp_path)
    wait_for_cells(tmp_path, 1)
    again = [tmp_path / "recipe.yaml", "--trust", "--logdir", tmp_path / "logs", "--resume", "latest", "--quiet"]
    refused = program.run(*again)
    assert refused.returncode == 2
    assert "still going on in another process" in refused.stderr
    process.kill()
    process.communicate(timeout=20)
    resumed = program.run(*again)
    assert resumed.returncode == 0, resumed.stderr


def test_a_call_during_which_the_process_was_stopped_is_left_out_and_the_result_says_so(tmp_path: Path) -> None:
    lines = "".join(f"utterance-{number}\t0.1\n" for number in range(4))
    (tmp_path / "lengths.shapes.tsv").write_text(f"id\tseconds\n{lines}")
    more = f"{program.QUICK}dataset: {{source: lengths.shapes.tsv, batch_size: 1}}\n"
    recipe = program.module_recipe(tmp_path, "Trouble", "{what: stop, at: 0.1}", "[0.1, 0.2]", "[1]", more)
    done = program.run(recipe, "--trust", "--logdir", tmp_path / "logs", "--quiet")
    assert done.returncode == 0, done.stderr
    results = program.results_in(tmp_path / "logs")
    stopped, other = program.cell(results, 0.1, 1), program.cell(results, 0.2, 1)
    assert stopped["latency_s"]["left_out"] >= 1
    assert max(stopped["latency_s"]["samples"]) < 0.9
    assert any("the process was stopped" in reason for reason in stopped["verdict_reasons"])
    assert "the process was stopped" in done.stdout
    assert other["latency_s"]["left_out"] == 0
    (dataset,) = results["datasets"]
    assert dataset["left_out"] >= 1
    assert dataset["batches"] == 4
    assert dataset["latency_s"]["max"] < 0.9
    assert any("the process was stopped" in note for note in dataset["notes"])


def test_a_second_ctrl_c_stops_at_once(tmp_path: Path) -> None:
    process = start_run(tmp_path)
    wait_for_cells(tmp_path, 1)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    assert process.returncode == 130
    assert_nothing_left(tmp_path)
    assert program.results_in(tmp_path / "logs")["cells"]


def test_a_killed_program_leaves_whole_results_and_no_worker(tmp_path: Path) -> None:
    process = start_run(tmp_path)
    wait_for_cells(tmp_path, 1)
    process.kill()
    process.communicate(timeout=20)
    assert_nothing_left(tmp_path)
    results = program.results_in(tmp_path / "logs")
    assert [cell for cell in results["cells"] if cell["status"] == "ok"]
    shown = program.run("report", program.run_folder(tmp_path / "logs"))
    assert shown.returncode == 0
    assert "not complete (running)" in shown.stderr


def test_a_run_is_not_resumed_when_something_differs(tmp_path: Path) -> None:
    recipe = program.module_recipe(tmp_path, "Nothing", seconds="[0.1]", batches="[1]")
    program.run(recipe, "--trust", "--logdir", tmp_path / "logs", "--quiet")
    file = program.run_folder(tmp_path / "logs") / "results.json"
    results = json.loads(file.read_text())
    results["environment"]["packages"]["torch"] = "1.0"
    results["environment"]["cpu"] = "another one"
    file.write_text(json.dumps(results))
    done = program.run(
        recipe, "measure.seed=7", "--trust", "--logdir", tmp_path / "logs", "--resume", "latest", "--threads", "1"
    )
    assert done.returncode == 2
    for difference in ("measure.seed: 0 then, 7 now", "torch: 1.0 then", "cpu: another one then", "threads of float32"):
        assert difference in done.stderr
    assert json.loads(file.read_text()) == results, "the earlier run is untouched"


def test_a_complete_run_has_nothing_to_resume(tmp_path: Path) -> None:
    recipe = program.module_recipe(tmp_path, "Nothing", seconds="[0.1]", batches="[1]")
    program.run(recipe, "--trust", "--logdir", tmp_path / "logs", "--quiet")
    before = program.results_in(tmp_path / "logs")
    again = program.run(recipe, "--trust", "--logdir", tmp_path / "logs", "--resume", "latest")
    assert again.returncode == 0
    assert "nothing is left to measure" in again.stderr
    assert program.results_in(tmp_path / "logs") == before, "no cell, no reference workload, no date"
