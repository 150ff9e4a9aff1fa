"""Events -> columns: a number an event and a property, nested and sorted by the row in which each is drawn.

A row is one depth of one thread (or stream). Within a row nothing overlaps, so that a window is found by bisection.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from profiler.tensorboard_plugin.trace.events import NOTHING, Event, TraceError

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]

MEMORY = "[memory]"
OUTSIDE_OF_THREADS = "Trace"  # a category: the profiler's own span over everything
TOUCHING = 0.002  # microseconds by which rounding lets neighbours overlap
LONGEST_NAME = 1000  # characters; what is longer is cut: it would be sent with every drawing
MOST_NAMES = 500_000  # different ones, and as many details; a trace of millions of events has thousands
DEVICES = {0: "CPU", 1: "CUDA", 13: "MPS"}
Track = tuple[int | str | None, int | str | None]


@dataclass
class Columns:
    """A whole trace. Times are in microseconds from its beginning."""

    start: Floats
    duration: Floats
    own: Floats  # without what is nested in it
    name: Ints
    category: Ints
    detail: Ints
    rows: Ints  # where each row begins in the columns above, and where the last one ends
    row_track: Ints
    row_depth: Ints
    names: list[str]
    categories: list[str]
    details: list[str]
    tracks: list[str]
    memory: dict[str, tuple[Floats, Floats]]  # device -> times, bytes that tensors hold

    @property
    def length(self) -> float:
        ends = [float((self.start + self.duration).max())] if len(self.start) else []
        return max(ends + [float(times[-1]) for times, _ in self.memory.values()], default=0.0)

    @property
    def bytes(self) -> int:
        held = (self.start, self.duration, self.own, self.name, self.category, self.detail)
        return sum(column.nbytes for column in held) + sum(2 * times.nbytes for times, _ in self.memory.values())

    def row(self, number: int) -> slice:
        return slice(int(self.rows[number]), int(self.rows[number + 1]))


class _Numbers(dict[Any, int]):
    """Each distinct value's number, in the order in which they came."""

    def __missing__(self, value: Any) -> int:
        number = self[value] = len(self)
        return number


@dataclass
class _Collected:
    start: array[float] = field(default_factory=lambda: array("d"))
    duration: array[float] = field(default_factory=lambda: array("d"))
    name: array[int] = field(default_factory=lambda: array("i"))
    category: array[int] = field(default_factory=lambda: array("i"))
    detail: array[int] = field(default_factory=lambda: array("i"))
    track: array[int] = field(default_factory=lambda: array("i"))
    names: _Numbers = field(default_factory=_Numbers)
    categories: _Numbers = field(default_factory=_Numbers)
    details: _Numbers = field(default_factory=_Numbers)
    tracks: _Numbers = field(default_factory=_Numbers)
    processes: dict[Any, str] = field(default_factory=dict)
    threads: dict[Track, str] = field(default_factory=dict)
    order: dict[Any, float] = field(default_factory=dict)
    memory: dict[str, tuple[array[float], array[float]]] = field(default_factory=dict)
    seen: int = 0

    def add(self, events: list[Event]) -> None:
        self.seen += len(events)
        for event in events:
            if event.ph == "X":
                if event.ts is not None and event.dur is not None and event.cat != OUTSIDE_OF_THREADS:
                    self._add_span(event, event.ts, event.dur)
            elif event.ph == "i" and event.name == MEMORY:
                self._add_memory(event)
            elif event.ph == "M" and event.args is not None:
                self._add_name(event)

    def _add_span(self, event: Event, ts: float, duration: float) -> None:
        self.start.append(ts)
        self.duration.append(max(0.0, duration))
        self.name.append(self.names[_cut(event.name)])
        self.category.append(self.categories[_cut(event.cat or "")])
        self.detail.append(self.details[_detail(event)])
        self.track.append(self.tracks[event.pid, event.tid])

    def _add_memory(self, event: Event) -> None:
        args = event.args
        if args is None or event.ts is None or not isinstance(args.bytes, int | float):
            return
        number = args.device_id if isinstance(args.device_id, int) else -1
        kind = (
            DEVICES.get(args.device_type, f"device {args.device_type}") if isinstance(args.device_type, int) else "CPU"
        )
        times, held = self.memory.setdefault(f"{kind} {number}" if number >= 0 else kind, (array("d"), array("d")))
        before = held[-1] if held else 0.0
        times.append(event.ts)
        held.append(args.allocated if isinstance(args.allocated, int | float) else before + args.bytes)

    def _add_name(self, event: Event) -> None:
        args = event.args
        assert args is not None
        if event.name == "process_name" and args.name:
            self.processes.setdefault(event.pid, _cut(str(args.name)))
        elif event.name == "process_labels" and args.labels:
            self.processes[event.pid] = _cut(str(args.labels))
        elif event.name == "thread_name" and args.name:
            self.threads[event.pid, event.tid] = _cut(str(args.name))
        elif event.name == "process_sort_index" and isinstance(args.sort_index, int | float):
            self.order[event.pid] = float(args.sort_index)


def _detail(event: Event) -> str:
    args = event.args
    if args is None or (args.shapes is NOTHING and args.types is NOTHING):
        return ""
    return _cut(" ".join((bytes(args.shapes) + b" " + bytes(args.types)).decode().split()))


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_NAME else f"{text[:LONGEST_NAME]}..."


def collect(pieces: Iterable[list[Event]], name: str) -> Columns:
    """The columns of a trace. Raises TraceError where there is nothing in it that could be drawn."""
    found = _Collected()
    for events in pieces:
        found.add(events)
        if max(len(found.names), len(found.details), len(found.tracks)) > MOST_NAMES:
            raise TraceError(f"{name} has more than {MOST_NAMES:,} different names; such a trace is not opened.")
    if not found.start and not found.memory:
        raise TraceError(
            f"{name} has {found.seen} entries, none of them a span (`ph: X`) or a `[memory]` event as torch.profiler "
            "writes them."
        )
    start = np.frombuffer(found.start, np.float64) if found.start else np.empty(0)
    origin = min([*([float(start.min())] if len(start) else []), *(min(times) for times, _ in found.memory.values())])
    memory = {
        device: _sorted(np.frombuffer(times, np.float64) - origin, np.frombuffer(held, np.float64))
        for device, (times, held) in found.memory.items()
    }
    return _nested(found, start - origin, memory)


def _sorted(times: Floats, held: Floats) -> tuple[Floats, Floats]:
    order = np.argsort(times, kind="stable")
    return times[order], held[order]


def _nested(found: _Collected, start: Floats, memory: dict[str, tuple[Floats, Floats]]) -> Columns:
    """Depth and own time of each span, then everything in the order of rows."""
    duration = np.frombuffer(found.duration, np.float64) if len(start) else np.empty(0)
    track = _ordered_tracks(found)
    order = np.lexsort((-duration, start, track))
    depth, own = nest(track[order], start[order], duration[order])
    by_row = np.lexsort((start[order], depth, track[order]))
    chosen = order[by_row]
    row_key = track[chosen].astype(np.int64) << 32 | depth[by_row]
    rows = np.flatnonzero(np.diff(row_key, prepend=-1)) if len(row_key) else np.empty(0, np.int64)

    def column(values: array[int]) -> Ints:
        return np.frombuffer(values, np.int32)[chosen] if len(values) else np.empty(0, np.int32)

    return Columns(
        start=start[chosen],
        duration=duration[chosen],
        own=own[by_row],
        name=column(found.name),
        category=column(found.category),
        detail=column(found.detail),
        rows=np.append(rows, len(chosen)).astype(np.int32),
        row_track=track[chosen][rows].astype(np.int32),
        row_depth=depth[by_row][rows].astype(np.int32),
        names=list(found.names),
        categories=list(found.categories),
        details=list(found.details),
        tracks=[_track_name(found, key) for key in sorted(found.tracks, key=lambda key: _track_order(found, key))],
        memory=memory,
    )


def _track_order(found: _Collected, key: Track) -> tuple[float, str, str]:
    return found.order.get(key[0], 0.0), str(key[0]), str(key[1]).rjust(12)


def _ordered_tracks(found: _Collected) -> Ints:
    """For each span the number of its track, in the order in which tracks are drawn."""
    order = sorted(found.tracks, key=lambda key: _track_order(found, key))
    place = {found.tracks[key]: number for number, key in enumerate(order)}
    numbers = np.array([place[number] for number in range(len(place))], np.int32)
    return numbers[np.frombuffer(found.track, np.int32)] if found.track else np.empty(0, np.int32)


def _track_name(found: _Collected, key: Track) -> str:
    process = found.processes.get(key[0], _cut(str(key[0])))
    thread = found.threads.get(key, _cut(str(key[1])))
    return f"{process}: {thread}"


def nest(track: Ints, start: Floats, duration: Floats) -> tuple[Ints, Floats]:
    """Spans in order of track and start -> how deep each is nested, and its time without what is directly in it."""
    depths, own = array("i", bytes(4 * len(start))), array("d", duration.tobytes())
    ends: list[float] = []  # of the spans around
    callers: list[tuple[float, int]] = []  # those of them that end after all that began later, with their places
    last = -1
    for place, (on, begin, length) in enumerate(zip(track.tolist(), start.tolist(), duration.tolist(), strict=True)):
        if on != last:
            ends.clear()
            callers.clear()
            last = on
        while ends and ends[-1] <= begin + TOUCHING:
            ends.pop()
        while callers and callers[-1][0] <= begin + TOUCHING:
            callers.pop()
        depths[place] = len(ends)
        now, end = begin, begin + length
        while callers and now < end:  # the caller; where spans cross, what is open after its end
            until, caller = callers[-1]
            own[caller] -= max(0.0, min(until, end) - now)
            now = max(now, until)
            if not until >= end:  # from here on the new one hides it; also what is no number
                callers.pop()
        ends.append(end)
        callers.append((end, place))
    return np.frombuffer(depths, np.int32), np.maximum(np.frombuffer(own, np.float64), 0.0)
