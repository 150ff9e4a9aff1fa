"""A process that was killed leaves its temporary folder behind; the next one removes it, and no other."""

from __future__ import annotations

import os
import signal
import tempfile
from pathlib import Path

import pytest

from profiler.temporary import PREFIX, TemporaryFolder


def test_folders_of_dead_processes_are_removed_by_the_next_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    child = os.fork()
    if child == 0:
        (TemporaryFolder().path / "weights.bin").write_text("large")
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    (abandoned,) = tmp_path.iterdir()
    held, others = TemporaryFolder(), tmp_path / "other-program"
    others.mkdir()
    (tmp_path / f"{PREFIX}link").symlink_to(others)
    assert abandoned.exists()  # it may be so young that its owner has not locked it yet
    for folder in (abandoned, held.path, others):
        os.utime(folder, (1, 1))
    os.utime(tmp_path / f"{PREFIX}link", (1, 1), follow_symlinks=False)
    with TemporaryFolder() as made:
        assert set(tmp_path.iterdir()) == {held.path, made, others, tmp_path / f"{PREFIX}link"}
    held.remove()
    assert not held.path.exists()
    assert others.exists()
