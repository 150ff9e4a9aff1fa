"""What the GitHub Action and the GitLab template run: the same script, on a small repository with `ab`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.helpers.program import ROOT

SCRIPT = ROOT / ".github" / "actions" / "ab" / "ab.sh"
MODEL = """import torch


class Net(torch.nn.Module):
    def forward(self, waveforms):
        for _ in range({loops}):
            waveforms = torch.sin(waveforms)
        return waveforms
"""
RECIPE = """pretrained_model: {source: net.Net, type: Module}
profiling_dimensions: {audio_mockup_secs: [1], batch_sizes: [1], export_logs: false}
measure: {rounds: 6, warmup: 1, budget: 0.2}
trace: {breakdown: false}
"""


def git(folder: Path, *words: str) -> None:
    who = ["-c", "user.name=Someone", "-c", "user.email=someone@example.org"]
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


def run_script(folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PROFILER": f"{sys.executable} {ROOT / 'profile.py'}", "SECONDS_PER_CELL": "6"} | more
    return subprocess.run([str(SCRIPT)], cwd=folder, env=environment, capture_output=True, text=True, timeout=300)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """The head does thirty times the work of the base."""
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-b", "main")
    for name, text in {"net.py": MODEL.format(loops=10), "speed.yaml": RECIPE}.items():
        (folder / name).write_text(text)
    git(folder, "add", ".")
    git(folder, "commit", "-m", "base")
    (folder / "net.py").write_text(MODEL.format(loops=300))
    return folder


@pytest.mark.slow
def test_a_slower_head_ends_with_3_and_the_table_says_so(repository: Path) -> None:
    done = run_script(
        repository, BASE="main", RECIPE="speed.yaml", GITHUB_STEP_SUMMARY="summary.md", GITHUB_OUTPUT="outputs"
    )
    assert done.returncode == 3, done.stdout + done.stderr
    table = (repository / "speed.md").read_text()
    assert table.startswith("<!-- speech-profiler -->\n### Speed against `main`: slower\n")
    assert "slower" in table
    assert (repository / "summary.md").read_text() == table
    assert (repository / "outputs").read_text() == "status=3\nsaid=slower\ntable=speed.md\n"


def test_what_cannot_be_measured_is_said_in_the_table_and_by_the_exit_status(repository: Path) -> None:
    done = run_script(repository, BASE="no-such-branch", RECIPE="speed.yaml")
    assert done.returncode == 2
    assert "no-such-branch" in done.stderr
    assert "was not measured (exit status 2)" in (repository / "speed.md").read_text()
    missing = run_script(repository, BASE="main", RECIPE="")
    assert missing.returncode != 0
    assert "say which recipe" in missing.stderr


def _yaml(path: str) -> Any:
    return YAML(typ="safe").load((ROOT / path).read_text())


def test_the_action_and_the_template_run_the_script() -> None:
    action, template = _yaml(".github/actions/ab/action.yml"), _yaml(".gitlab/ab.yml")
    measured, said = action["runs"]["steps"]
    assert measured["run"] == '"$GITHUB_ACTION_PATH/ab.sh"'
    used = {"BASE", "RECIPE", "THRESHOLD", "SECONDS_PER_CELL", "STRICT", "ARGUMENTS"}
    assert set(measured["env"]) == used
    assert all(f"${{{name}:" in SCRIPT.read_text() for name in used)
    assert "always()" in said["if"]  # the table of a slower head is posted too
    assert any(".github/actions/ab/ab.sh" in line for line in template[".speech-profiler-ab"]["script"])
