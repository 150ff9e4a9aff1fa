"""Trace files are read in pieces, whatever their form, and what is no trace is named as such."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from profiler.tensorboard_plugin.trace import events as reading
from profiler.tensorboard_plugin.trace.events import Event, TraceError, read_events
from tests.unit.tensorboard_plugin.traces import CALL, repeated, span, write

NESTED = span("deep", 3, 4, stack=[{"a": "}, {"}, {"b": '\\"}, {'}], text="},{ , ] }")


def read(path: Path) -> list[Event]:
    return [event for piece in read_events(path) for event in piece]


def names(path: Path) -> list[str]:
    return [event.name for event in read(path)]


@pytest.mark.parametrize("piece", [16, 100, 1000, 10**6])
@pytest.mark.parametrize("name", ["a.pt.trace.json", "a.pt.trace.json.gz"])
def test_the_size_of_pieces_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: int, name: str
) -> None:
    """Also where texts and nested lists look like the end of an event."""
    monkeypatch.setattr(reading, "PIECE", max(piece, 40))
    events = [NESTED, *repeated(CALL, 5), NESTED]
    path = write(tmp_path / name, events)
    assert names(path) == [event["name"] for event in events]
    assert [event.ts for event in read(path)] == [event.get("ts") for event in events]


def test_other_forms_of_the_same(tmp_path: Path) -> None:
    """A bare list, no line breaks, other lists after the events, the wrong ending of the name."""
    bare = tmp_path / "bare.pt.trace.json"
    bare.write_text(json.dumps(CALL, separators=(",", ":")))
    after = write(tmp_path / "after.pt.trace.json", other=[{"a": 1}, {"b": [{"c": 2}, {"d": 3}]}])
    packed = tmp_path / "packed.pt.trace.json"
    packed.write_bytes(gzip.compress(after.read_bytes()))
    wanted = [event["name"] for event in CALL]
    assert names(bare) == names(after) == names(packed) == wanted


def test_large_files_take_the_memory_of_a_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "PIECE", 10_000)
    path = write(tmp_path / "large.pt.trace.json.gz", repeated(CALL, 500))
    pieces = [len(piece) for piece in read_events(path)]
    assert sum(pieces) == len(repeated(CALL, 500))
    assert max(pieces) < 200


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"  \n ", "is empty"),
        (b"hello, this is a letter", "not a trace of torch.profiler"),
        (b'{"cells": []}', "not a trace of torch.profiler"),
        (b'{"traceEvents": {"a": 1}}', "not a trace of torch.profiler"),
        (b'{"traceEvents": [1, 2, 3]}', "not a trace of torch.profiler"),
        (b'{"traceEvents": [{"ph": "X", "name": 7}]}', "not a trace of torch.profiler"),
        (b'{"traceEvents": [{"ph": "X", "name": "a", "ts": 1', "ends too early or is damaged"),
        (b'{"traceEvents": [{"ph": "X", "name": "a"}, {"ph": "X", "name": "b"}', "ends too early or is damaged"),
        (b"\x1f\x8b\x08rubbish that is no gzip", "cannot be unpacked"),
        (b"\x00\xff\xfe\x80" * 40, "not a trace of torch.profiler"),
    ],
)
def test_what_is_no_trace_is_named(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "strange.pt.trace.json"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=said) as error:
        read(path)
    assert "strange.pt.trace.json" in str(error.value)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_truncated_archives_are_named(tmp_path: Path, share: float) -> None:
    path = write(tmp_path / "a.pt.trace.json.gz", repeated(CALL, 300))
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(TraceError, match="ends too early"):
        read(path)


def test_an_archive_that_unpacks_without_end_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "LARGEST", 1_000_000)
    monkeypatch.setattr(reading, "PIECE", 100_000)
    path = tmp_path / "bomb.pt.trace.json.gz"
    path.write_bytes(gzip.compress(b'{"traceEvents": [' + b" " * 10_000_000))
    with pytest.raises(TraceError, match="larger than"):
        read(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"Cannot read none\.pt\.trace\.json"):
        read(tmp_path / "none.pt.trace.json")
