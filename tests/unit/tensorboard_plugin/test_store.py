"""Traces are read once, until they are written again."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from profiler.tensorboard_plugin.trace import apart as reader
from profiler.tensorboard_plugin.trace import columns
from profiler.tensorboard_plugin.trace import events as reading
from profiler.tensorboard_plugin.trace import store as storing
from profiler.tensorboard_plugin.trace.apart import Abandoned
from profiler.tensorboard_plugin.trace.events import TraceError
from profiler.tensorboard_plugin.trace.store import TraceStore
from tests.helpers.program import ROOT, processes_mentioning
from tests.unit.tensorboard_plugin.traces import CALL, repeated, span, write


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that were really read, in order."""
    done: list[str] = []
    original = vars(storing)["read_events"]

    def noting(path: Path, most: int) -> object:
        done.append(path.name)
        return original(path, most)

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


def test_a_large_trace_is_read_by_another_process_with_the_same_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "a.pt.trace.json.gz", repeated(CALL, 3))
    here = TraceStore(tmp_path / "one").get(path)
    monkeypatch.setattr(storing, "SMALL_FILE", 0)
    apart = TraceStore(tmp_path / "two").get(path)
    assert (apart.names, apart.details, apart.tracks) == (here.names, here.details, here.tracks)
    assert apart.start.tolist() == here.start.tolist()
    assert apart.own.tolist() == here.own.tolist()


BOMBS = {
    "spaces": (b'{"traceEvents": [' + b" " * 200_000_000, "none of its events ends"),
    "one text": (b'{"traceEvents": [{"ph": "X", "name": "' + b"a" * 200_000_000, "none of its events ends"),
    "deep": (b'{"traceEvents": [{"ph": "X", "args": {"name": ' + b"[" * 1_000_000 + b"]}]}", "nested too deep"),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_small_file_that_unpacks_without_end_is_refused_in_a_sentence(tmp_path: Path, bomb: str) -> None:
    content, said = BOMBS[bomb]
    path = tmp_path / "a.pt.trace.json.gz"
    path.write_bytes(gzip.compress(content, 1))
    store = TraceStore(tmp_path / "cache")
    for _ in range(2):  # the second time from memory
        with pytest.raises(TraceError, match=said):
            store.get(path)


def test_a_trace_of_millions_of_tiny_events_is_refused_before_they_are_interpreted(tmp_path: Path) -> None:
    """By the limit of events, not by that of time; meanwhile another trace is answered."""
    tiny = b'{"ph":"X","name":"a","ts":1,"dur":1},' * 100_000
    path = tmp_path / "tiny.pt.trace.json.gz"
    begin = b'{"traceEvents":[{"ph":5},'  # interpreted, this would be the reason
    path.write_bytes(gzip.compress(begin) + gzip.compress(tiny, 1) * 200 + gzip.compress(b"{}]}"))
    assert path.stat().st_size > storing.SMALL_FILE  # 20 million events
    store = TraceStore(tmp_path / "cache")
    with ThreadPoolExecutor(1) as pool:
        refused = pool.submit(store.get, path)
        assert len(store.get(write(tmp_path / "a.pt.trace.json", repeated(CALL, 3))).start) == 21
        assert not refused.done()
        with pytest.raises(TraceError, match="more than 10,000,000 events"):
            refused.result(50)


def test_what_is_too_large_is_found_without_interpreting_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_interpreting", None)
    event = b'{"ph":"X","name":"' + b"a" * 1_000_000 + b'"},'
    path = tmp_path / "bomb.pt.trace.json.gz"  # 1000 times as large when it is unpacked
    path.write_bytes(gzip.compress(b"[") + gzip.compress(event) * 100 + gzip.compress(b"{}]"))
    reading.check_size(path)
    monkeypatch.setattr(reading, "MOST_EVENTS", 50)
    with pytest.raises(TraceError, match="more than 50 events"):
        reading.check_size(path)
    monkeypatch.setattr(reading, "LARGEST", 30_000_000)
    with pytest.raises(TraceError, match=r"larger than 0\.03 GB unpacked"):
        reading.check_size(path)


def test_too_many_events_or_names_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.pt.trace.json", repeated(CALL, 30))
    monkeypatch.setattr(reading, "MOST_EVENTS", 100)
    with pytest.raises(TraceError, match="more than 100 events"):
        TraceStore(tmp_path / "cache").get(path)
    monkeypatch.undo()
    monkeypatch.setattr(columns, "MOST_NAMES", 2)
    with pytest.raises(TraceError, match="more than 2 different names"):
        TraceStore(tmp_path / "cache").get(path)


def test_a_long_name_is_cut(tmp_path: Path) -> None:
    path = write(tmp_path / "a.pt.trace.json", [span("n" * 5_000_000, 1, 2)])
    assert len(TraceStore(tmp_path / "cache").get(path).names[0]) < 1010


def test_what_nobody_waits_for_is_not_read_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And while one trace is read, another is answered."""
    fifo = tmp_path / "endless.pt.trace.json"
    os.mkfifo(fifo)
    monkeypatch.setattr(storing, "SMALL_FILE", -1)
    store, gone = TraceStore(tmp_path / "cache"), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        endless = pool.submit(store.get, fifo, lambda: not gone.is_set())
        assert len(store.get(write(tmp_path / "a.pt.trace.json", repeated(CALL, 3))).start) == 21
        assert not endless.done()
        gone.set()
        with pytest.raises(Abandoned):
            endless.result(20)
    assert processes_mentioning(str(fifo)) == []


def test_a_trace_that_takes_too_long_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storing, "SMALL_FILE", -1)
    monkeypatch.setattr(reader, "SECONDS", 0.5)
    fifo = tmp_path / "endless.pt.trace.json"
    os.mkfifo(fifo)
    with pytest.raises(TraceError, match=r"not read within 0\.5 s"):
        TraceStore(tmp_path / "cache").get(fifo)


def test_the_reading_process_ends_with_the_server(tmp_path: Path) -> None:
    """Whatever ends the server: its end of a pipe is closed then."""
    fifo = tmp_path / "endless.pt.trace.json"
    os.mkfifo(fifo)
    code = (
        "import sys; from pathlib import Path; from profiler.tensorboard_plugin.trace.apart import read_apart; "
        "read_apart(Path(sys.argv[1]), Path(sys.argv[2]), '', lambda: True)"
    )
    server = subprocess.Popen([sys.executable, "-c", code, str(fifo), str(tmp_path / "made.npz")], cwd=ROOT)
    for _ in range(600):
        if len(processes_mentioning(str(fifo))) == 2:
            break
        time.sleep(0.05)
    assert len(processes_mentioning(str(fifo))) == 2
    server.send_signal(signal.SIGTERM)
    server.wait(20)
    for _ in range(600):
        if not processes_mentioning(str(fifo)):
            break
        time.sleep(0.05)
    assert processes_mentioning(str(fifo)) == []
