"""Paths of this machine in texts of a run: shortened, unless they were typed."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest

from profiler.results.local_paths import LocalPaths
from profiler.results.types import Run, Sides


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "work" / "logs" / "r" / "1").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path


def paths(command: str, **more: Any) -> LocalPaths:
    run = Run(id="1", recipe="r.yaml", recipe_sha256="", command=f"profile.py r.yaml {command}", started="", **more)
    return LocalPaths(Path("logs/r/1"), run)


def test_folders_get_short_names(home: Path) -> None:
    short = paths("")
    for given, wanted in (
        (f"no file {home}/models/a.pt.", "no file ~/models/a.pt."),
        (f"in {home}.", "in ~."),
        (f"{home}/temporary/x", "{tmp}/x"),
        (f"{home}less/a.pt", f"{home}less/a.pt"),  # another folder
        (f"/mnt{home}/a.pt", f"/mnt{home}/a.pt"),
        (f"see {home}/work/logs/r/1/float32/worker.log", "see {run}/float32/worker.log"),
        (f"'{home}/work/model.py', line 3", "'{recipe folder}/model.py', line 3"),
        ("/opt/other/lib/python3.12/site-packages/torch/nn/x.py:7", "{site-packages}/torch/nn/x.py:7"),
        ("/opt/other/lib/python3.12/os.py", "{python}/os.py"),
        ("/sys/class/powercap and https://host/a", "/sys/class/powercap and https://host/a"),
    ):
        assert short.text(given) == wanted


def test_a_process_without_a_home_and_a_folder_writes_results_too(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/")
    gone = home / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert paths("").text(f"{home}/a /usr/bin/ffmpeg") == f"{home}/a /usr/bin/ffmpeg"


def test_what_was_typed_stays(home: Path) -> None:
    typed = f"{home}/data/set.csv"
    for short in (
        paths(f"dataset.source={typed}"),
        paths("", resolved={"dataset": {"source": typed}}),
        paths("", sides=Sides(about={"A": f"r.yaml with {typed}"}, pairs=[], threshold=0.02)),
    ):
        assert short.value([f"cannot read {typed}", f"{home}/x"]) == [f"cannot read {typed}", "~/x"]


def test_settings_are_kept_unless_paths_were_put_in(home: Path) -> None:
    """`ab --python .venv/bin/python` looks the interpreter up."""
    found = {"variants": [{"python": f"{home}/work/.venv/bin/python"}]}
    data = {"run": {"command": "", "recipe": "r.yaml", "resolved": found}, "environment": {"note": f"{home}/x"}}
    assert paths("", resolved=found).head(data)["run"]["resolved"] == found
    sides = Sides(about={"A": "r.yaml with .venv/bin/python"}, pairs=[], threshold=0.02)
    written = paths("", sides=sides).head(data)
    assert written["run"]["resolved"] == {"variants": [{"python": "{recipe folder}/.venv/bin/python"}]}
    assert written["environment"] == {"note": "~/x"}
