"""A full disk, and a log folder that vanishes: a clear message, and what was measured stays whole."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers import program

pytestmark = pytest.mark.slow


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real filesystem of 4 MB: room for a small run with its views, and soon full."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("mounting a filesystem needs root; run the tests as root to include this one")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def test_a_full_disk_loses_nothing_that_was_measured(tmp_path: Path, small_disk: Path) -> None:
    recipe = program.module_recipe(
        tmp_path,
        "Sleeper",
        "{per_second: 0.5}",
        "[0.1, 0.2, 0.3]",
        "[1]",
        "measure: {warmup: 1, budget: 0.5, rounds: 3}\n",
    )
    process = program.start(recipe, "--trust", "--logdir", small_disk / "logs")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not list(small_disk.glob("logs/*/*/results.json")):
        time.sleep(0.02)
    time.sleep(1)
    filler = small_disk / "filler"
    try:
        with filler.open("wb") as file:
            while file.write(b"x" * 1024):
                file.flush()
    except OSError:
        pass  # full now
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "Traceback" not in errors
    assert "No space left on device" in errors
    assert "--resume" in errors
    results = program.results_in(small_disk / "logs")
    assert results["run"]["status"] == "running"
    filler.unlink()
    done = program.run(recipe, "--trust", "--logdir", small_disk / "logs", "--resume", "latest", "--quiet")
    assert done.returncode == 0
    assert [cell["status"] for cell in program.results_in(small_disk / "logs")["cells"]] == ["ok"] * 3


def test_a_log_folder_that_vanishes_ends_with_a_message(tmp_path: Path) -> None:
    recipe = program.module_recipe(
        tmp_path,
        "Sleeper",
        "{per_second: 0.5}",
        "[0.1, 0.2, 0.3]",
        "[1]",
        "measure: {warmup: 1, budget: 0.5, rounds: 3}\n",
    )
    process = program.start(recipe, "--trust", "--logdir", tmp_path / "logs")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        files = list(tmp_path.glob("logs/*/*/results.json"))
        if files and json.loads(files[0].read_text())["cells"]:
            break
        time.sleep(0.02)
    shutil.rmtree(tmp_path / "logs")
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "Traceback" not in errors
    assert "Cannot write" in errors
    assert "No such file or directory" in errors
