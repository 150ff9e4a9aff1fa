"""Traces for tests, in the form in which torch.profiler writes them, with times that are easy to add up."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

Events = list[dict[str, Any]]


def span(name: str, ts: float, dur: float, tid: int = 1, cat: str = "cpu_op", **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": 7, "tid": tid, "ts": 1000 + ts, "dur": dur, "args": args}


def held(ts: float, total: int, size: int) -> dict[str, Any]:
    args = {"Total Allocated": total, "Bytes": size, "Device Type": 0, "Device Id": -1, "Addr": 1}
    return {"ph": "i", "s": "t", "name": "[memory]", "pid": 7, "tid": 1, "ts": 1000 + ts, "args": args}


CALL: Events = [
    {"ph": "M", "name": "process_name", "pid": 7, "tid": 0, "args": {"name": "python"}},
    {"ph": "M", "name": "process_labels", "pid": 7, "tid": 0, "args": {"labels": "CPU"}},
    {"ph": "M", "name": "thread_name", "pid": 7, "tid": 1, "args": {"name": "main"}},
    {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans", "tid": "x", "ts": 1000, "dur": 100},
    span("call", 0, 100, cat="user_annotation"),
    span("encoder", 10, 60, cat="user_annotation"),
    span("aten::linear", 10, 30, **{"Input Dims": [[1, 2], [3]]}),
    span("aten::addmm", 15, 20),
    span("aten::gelu", 40, 10),
    span("aten::linear", 80, 10),
    span("aten::gelu", 30, 5, tid=2),
    held(12, 100, 100),
    held(45, 350, 250),
    held(90, 0, -350),
]


def repeated(events: Events, times: int, every: float = 110) -> Events:
    """The same call again and again."""
    later = (dict(event, ts=event["ts"] + every * turn) for turn in range(times) for event in events if "ts" in event)
    return [event for event in events if "ts" not in event] + list(later)


def write(path: Path, events: Events = CALL, **more: Any) -> Path:
    """A trace file, gzipped if its name says so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"schemaVersion": 1, "traceEvents": events, "traceName": "x", **more}, indent=1)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path
