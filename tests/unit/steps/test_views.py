"""Runs of one's own code in every view: the commands, and the TensorBoard tab."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from profiler.decorators import profile
from tests.helpers import program
from tests.unit.tensorboard_plugin.test_plugin import Asker


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of a loop that says no length of audio."""
    folder = tmp_path_factory.mktemp("logs")
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
    for _ in range(2):
        for _ in profile("loop", model=model, logdir=folder, quiet=True).steps(range(18)):
            model(torch.ones(4, 8))
    return folder


def test_the_commands(logs: Path, tmp_path: Path) -> None:
    shown = program.run("report", "loop", "--full", "--logdir", logs)
    assert shown.returncode == 0, shown.stderr
    assert "| data |" in " ".join(shown.stdout.split())
    assert "Real-time factor" not in shown.stdout
    assert (max((logs / "loop").iterdir()) / "report.html").is_file()
    assert program.run("runs", "--logdir", logs).stdout.count("loop") >= 2
    compared = program.run("compare", "latest", "--logdir", logs)
    assert "| call |" in " ".join(compared.stdout.split()), compared.stdout + compared.stderr
    packed = program.run("export", "loop", tmp_path / "loop.zip", "--logdir", logs)
    assert packed.returncode == 0, packed.stderr
    assert program.run("report", tmp_path / "loop.zip", "--json").returncode == 0


def test_the_tab(logs: Path, tmp_path: Path) -> None:
    tab = Asker(logs, tmp_path / "cache")
    names = [run["name"] for run in tab.get("/runs")["runs"]]
    assert len(names) == 2
    cell: dict[str, Any] = {"variant": "loop", "cell": "0s_x1", "by": "label"}
    rows = tab.get("/table", run=names[0], **cell)["rows"]
    assert [row["name"] for row in rows][-2:] == ["(rest)", "(whole call)"]
    assert tab.get("/table", run=names[0], **cell | {"by": "operator"})["rows"]
    sides = {f"{side}_{key}": value for side in ("left", "right") for key, value in cell.items() if key != "by"}
    sides |= {"left_run": names[0], "right_run": names[1], "by": "label"}
    assert tab.get("/side_by_side_table", **sides)["rows"]
    assert json.dumps(tab.get("/run", run=names[0]))
