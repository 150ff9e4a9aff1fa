"""Traces are read once, until they are written again."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler.tensorboard_plugin.trace import store as storing
from profiler.tensorboard_plugin.trace.store import TraceStore
from tests.unit.tensorboard_plugin.traces import CALL, repeated, write


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that were really read, in order."""
    done: list[str] = []
    original = vars(storing)["read_events"]

    def noting(path: Path) -> object:
        done.append(path.name)
        return original(path)

    monkeypatch.setattr(storing, "read_events", noting)
    monkeypatch.setattr(storing, "WORTH_KEEPING", 10)
    return done


def test_a_trace_is_read_once(tmp_path: Path, read: list[str]) -> None:
    path = write(tmp_path / "logs" / "a.pt.trace.json.gz", repeated(CALL, 3))
    store = TraceStore(tmp_path / "cache")
    assert store.get(path) is store.get(path)
    again = TraceStore(tmp_path / "cache").get(path)  # TensorBoard was started again
    assert read == ["a.pt.trace.json.gz"]
    assert again.names == store.get(path).names
    assert again.start.tolist() == store.get(path).start.tolist()
    assert {device: held.tolist() for device, (_, held) in again.memory.items()} == {"CPU": [100, 350, 0] * 3}
    assert [file.name for file in (tmp_path / "logs").iterdir()] == [
        "a.pt.trace.json.gz"
    ]  # nothing is written beside it


def test_a_trace_that_is_written_again_is_read_again(tmp_path: Path, read: list[str]) -> None:
    path = write(tmp_path / "a.pt.trace.json.gz", repeated(CALL, 3))
    store = TraceStore(tmp_path / "cache")
    assert len(store.get(path).start) == 21
    write(path, repeated(CALL, 4))
    assert len(store.get(path).start) == 28
    assert len(TraceStore(tmp_path / "cache").get(path).start) == 28
    assert len(read) == 2


def test_a_damaged_or_missing_cache_does_no_harm(tmp_path: Path, read: list[str]) -> None:
    path = write(tmp_path / "a.pt.trace.json.gz", repeated(CALL, 3))
    TraceStore(tmp_path / "cache").get(path)
    (file,) = (tmp_path / "cache").iterdir()
    file.write_bytes(file.read_bytes()[:100])
    assert len(TraceStore(tmp_path / "cache").get(path).start) == 21
    (tmp_path / "file").write_text("a file where the folder should be")
    assert len(TraceStore(tmp_path / "file").get(path).start) == 21
    assert len(read) == 3


def test_the_cache_on_disk_stays_small(tmp_path: Path, read: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storing, "ON_DISK", 20_000)
    store = TraceStore(tmp_path / "cache")
    for number in range(12):
        store.get(write(tmp_path / f"{number}.pt.trace.json", repeated(CALL, 3)))
    assert 0 < sum(file.stat().st_size for file in (tmp_path / "cache").iterdir()) <= 20_000
