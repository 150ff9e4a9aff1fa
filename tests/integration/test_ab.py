"""`ab`: two things measured turn by turn, through the real program."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from profiler import ab, load_run
from profiler.measure.layout import can_own_pages
from tests.helpers import program

FEW = "measure: {rounds: 6}\n"
# Half a millisecond longer, of ten: nothing that a machine does in between can hide so much.
SLOWER = "pretrained_model.overrides.per_second=0.4"


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    return program.module_recipe(tmp_path, "Sleeper", "{per_second: 0.1}", seconds="[0.1]", batches="[1]", more=FEW)


def run(
    *arguments: str | Path, logdir: Path, seconds: int = 60
) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    """It ends once it is decided, whatever time it has; a busy machine needs some of it."""
    limits = ["--seconds", str(seconds), "--logdir", str(logdir)]
    done = program.run("ab", *arguments, "--trust", "--quiet", "--json", *limits)
    return done, json.loads(done.stdout) if done.stdout else {}


@pytest.mark.slow
def test_a_slower_setting_is_called_slower_and_ends_with_status_3(recipe: Path, tmp_path: Path) -> None:
    done, found = run(recipe, "--b", SLOWER, logdir=tmp_path / "logs")
    assert done.returncode == 3, done.stderr
    (cell,) = found["others"][0]["cells"]
    assert cell["speed"]["verdict"] == "slower"
    assert 2 < cell["speed"]["ratio"] < 6, "10 ms of sleep against 40 ms"
    assert found["about"]["B"].endswith(f"with {SLOWER}")


@pytest.mark.slow
def test_the_other_way_round_it_is_faster_and_ends_with_status_0(tmp_path: Path) -> None:
    (tmp_path / "slow").mkdir()
    (tmp_path / "fast").mkdir()
    slow = program.module_recipe(tmp_path / "slow", "Sleeper", "{per_second: 0.4}", "[0.1]", "[1]", FEW)
    fast = program.module_recipe(tmp_path / "fast", "Sleeper", "{per_second: 0.1}", "[0.1]", "[1]", FEW)
    done, found = run(slow, fast, logdir=tmp_path / "logs")
    assert done.returncode == 0, done.stderr
    assert found["others"][0]["geometric_mean"]["verdict"] == "faster"


@pytest.mark.slow
def test_an_ab_run_is_an_ordinary_run_with_two_variants(recipe: Path, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    done = program.run("ab", recipe, "--b", SLOWER, "--trust", "--seconds", "60", "--logdir", logs)
    assert "Of 1 cell: 1 slower." in done.stdout
    assert "every cell is decided" in done.stderr
    results = program.results_in(logs)
    assert [cell["variant"] for cell in results["cells"]] == ["A", "B"]
    assert results["run"]["sides"]["about"]["A"] == str(recipe)
    assert results["run"]["stopped_by"] == "decided"
    calls = [cell["latency_s"]["rounds"] for cell in results["cells"]]
    assert calls[0] == calls[1], "both made the same number of calls in every round"
    assert all(cell["peak_memory_bytes"]["process"] for cell in results["cells"])
    report = program.run("report", "latest", "--logdir", logs)
    assert "**B against A" in report.stdout
    assert "slower" in report.stdout
    packed = program.run("export", "latest", tmp_path / "run.zip", "--logdir", logs)
    assert packed.returncode == 0, packed.stderr
    assert "**B against A" in program.run("report", tmp_path / "run.zip").stdout
    compared = program.run("compare", "latest", "--variants", "A", "B", "--logdir", logs)
    assert "Of 1 cell: 1 slower." in compared.stdout


@pytest.mark.slow
@pytest.mark.skipif(not can_own_pages(), reason="needs Linux 5.14")
def test_each_round_has_a_copy_of_the_weights_and_rounds_of_other_runs_do_not(tmp_path: Path) -> None:
    """Else both sides keep the places of their weights in memory for the whole run, which makes them differ."""
    shared = tmp_path / "shared.txt"
    recipe = program.module_recipe(tmp_path, "Sharing", f"{{file: {shared}}}", "[0.1]", "[1]", FEW)
    ab(recipe, b={"measure.limit": 500}, seconds=0.5, logdir=tmp_path / "logs", trust=True)
    seen = [int(line) for line in shared.read_text().split()]
    assert len(seen) >= 12, "both sides, six rounds"
    assert max(seen) < 8 << 20
    shared.unlink()
    program.run(recipe, "--trust", "--logdir", tmp_path / "logs", "measure.rounds=2", "measure.budget=0.2")
    assert min(int(line) for line in shared.read_text().split()) >= 32 << 20


@pytest.mark.slow
def test_it_stops_when_its_time_is_spent_and_says_what_it_could_have_seen(tmp_path: Path) -> None:
    recipe = program.module_recipe(tmp_path, "Nothing", seconds="[0.1]", batches="[1]", more=FEW)
    same = tmp_path / "same.yaml"
    shutil.copy(recipe, same)
    found = ab(recipe, same, threshold=1e-6, seconds=0.5, logdir=tmp_path / "logs", trust=True)
    assert found.results.run.stopped_by == "budget"
    (cell,) = found.comparison.others[0].cells
    assert cell.speed.verdict in ("unclear", "slower", "faster"), "a threshold of a millionth is met by nothing"
    assert cell.speed.detectable is not None
    assert cell.speed.detectable > 1.0


@pytest.mark.slow
def test_unclear_ends_with_status_4_when_asked(tmp_path: Path) -> None:
    recipe = program.module_recipe(tmp_path, "Chancy", "{}", "[0.1]", "[1]", FEW)
    done, found = run(
        recipe, "--b", "measure.limit=500", "--strict", "--threshold", "0%", logdir=tmp_path / "logs", seconds=2
    )
    assert found["others"][0]["cells"][0]["speed"]["verdict"] == "unclear"
    assert done.returncode == 4, done.stderr


@pytest.mark.slow
def test_each_side_of_a_revision_runs_its_own_code(tmp_path: Path) -> None:
    """The working tree is slower than the last commit; no copy of the commit is left behind."""
    repository = tmp_path / "repository"
    (repository / "model").mkdir(parents=True)
    recipe = program.module_recipe(repository / "model", "Sleeper", "{per_second: 0.1}", "[0.1]", "[1]", FEW)
    git = ["git", "-C", str(repository), "-c", "user.name=x", "-c", "user.email=x@example.org"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *command], check=True)
    hook = repository / ".git" / "hooks" / "post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path / 'hook-ran'}\n")
    hook.chmod(0o755)
    code = recipe.with_name("modules.py")
    code.write_text(code.read_text().replace("time.sleep(self.fixed +", "time.sleep(0.03 + self.fixed +"))
    done, found = run(recipe, "--rev", "HEAD", logdir=tmp_path / "logs")
    assert done.returncode == 3, done.stderr
    assert 2 < found["others"][0]["cells"][0]["speed"]["ratio"] < 6
    assert "code at HEAD" in found["about"]["A"]
    listed = subprocess.run([*git, "worktree", "list"], capture_output=True, text=True, check=True).stdout
    assert len(listed.splitlines()) == 1
    assert not (tmp_path / "hook-ran").exists()


@pytest.mark.slow
def test_a_side_may_run_in_another_environment(recipe: Path, tmp_path: Path) -> None:
    """An environment of its own, in which a library has another version; each side tells what it ran with."""
    other = tmp_path / "other"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(other)], check=True)
    packages = next(other.glob("lib/python*/site-packages"))
    shared = [path for path in sys.path if path.endswith("site-packages")]
    (packages / "shared.pth").write_text("\n".join(shared))
    (packages / "espnet-1.2.3.dist-info").mkdir()
    (packages / "espnet-1.2.3.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: espnet\nVersion: 1.2.3\n"
    )
    found = ab(recipe, python=str(other / "bin" / "python"), seconds=1, logdir=tmp_path / "logs", trust=True)
    versions = {model.variant: model.versions for model in found.results.models}
    assert versions["A"]["espnet"] == "1.2.3"
    assert versions["B"].get("espnet") != "1.2.3"
    assert versions["A"]["torch"] == versions["B"]["torch"]
    assert found.comparison.about["A"].endswith(str(other / "bin" / "python"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Say what B is: another recipe, --b key=value"),
        (["--b", "measure.seed=1", "--rev", "HEAD"], "Only one thing can differ."),
        (["--rev", "no-such-revision"], "is in no git repository"),
        (["--python", "/no/such/python"], "there is no such interpreter"),
        (["--b", "measure.sed=1"], "seed"),
        (["--b", "profiling_dimensions.batch_sizes=[7]"], "A and B have no cell in common"),
        (["--b", "measure.seed=1", "--threads", "0"], "expected a whole number greater than 0"),
        (["--b", "measure.seed=1", "--seconds", "0"], "expected a number greater than 0"),
        (["--b", "measure.seed=1", "--threshold", "lots"], "expected a percentage"),
    ],
)
def test_wrong_input_is_said_in_a_sentence(recipe: Path, tmp_path: Path, arguments: list[str], message: str) -> None:
    done = program.run("ab", recipe, *arguments, "--trust", "--logdir", tmp_path / "logs")
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_an_environment_without_the_profiler_is_refused_with_what_to_install(recipe: Path, tmp_path: Path) -> None:
    other = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(other)], check=True)
    done = program.run("ab", recipe, "--python", other / "bin" / "python", "--trust", "--logdir", tmp_path / "logs")
    assert done.returncode == 2
    assert "pip install speech-profiler" in done.stderr


@pytest.mark.slow
def test_a_side_that_fails_fails_alone_and_the_run_says_so(tmp_path: Path) -> None:
    recipe = program.module_recipe(tmp_path, "Trouble", "{what: raise, at: 9}", "[0.1, 0.2]", "[1]", FEW)
    done, found = run(recipe, "--b", "pretrained_model.overrides.at=0.2", logdir=tmp_path / "logs", seconds=2)
    assert done.returncode == 3, "what worked and fails now is worse than slow"
    cells = {cell["seconds"]: cell for cell in found["others"][0]["cells"]}
    assert cells[0.2]["status"] == ["ok", "failed"]
    assert cells[0.1]["status"] == ["ok", "ok"]


@pytest.mark.slow
def test_an_interrupted_ab_run_keeps_its_rounds_and_leaves_no_process(recipe: Path, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    started = program.start(
        "ab", recipe, "--b", SLOWER, "--trust", "--threshold", "0%", "--seconds", "60", "--logdir", logs
    )
    assert started.stderr is not None
    for line in started.stderr:
        if "0.1 s x 1" in line:
            break
    os.kill(started.pid, 15)
    _, said = started.communicate(timeout=60)
    assert started.returncode == 130, said
    found = load_run("latest", logs)
    assert found.results.run.status == "interrupted"
    assert found.results.cells
