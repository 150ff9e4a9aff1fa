"""Events -> columns: a number an event and a property, nested and sorted by the row in which each is drawn.

A row is one depth of one thread (or stream). Within a row nothing overlaps, so that a window is found by bisection.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeGuard

import msgspec
import numpy as np
from numpy.typing import NDArray

from profiler.tensorboard_plugin.trace.events import ABOUT, NOTHING, About, Args, Event, TraceError
from profiler.tensorboard_plugin.trace.names import short_name

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]

MEMORY = "[memory]"
OUTSIDE_OF_THREADS = "Trace"  # a category: the profiler's own span over everything
TOUCHING = 0.002  # microseconds by which rounding lets neighbours overlap
LONGEST_NAME = 1000  # characters; what is longer is cut: it would be sent with every drawing
MOST_NAMES = 500_000  # different ones, and as many details; a trace of millions of events has thousands
DEVICES = {0: "CPU", 1: "CUDA", 6: "HIP", 12: "XPU", 13: "MPS", 15: "HPU"}  # as torch numbers them
Track = tuple[int | str | None, int | str | None, bool]  # process, thread or stream, marks of a stream
CPU = -1  # the device of a track that is a thread

ANNOTATION, OPERATOR, KERNEL, COPY, FILL = "user_annotation", "cpu_op", "kernel", "gpu_memcpy", "gpu_memset"
OLDER = {"operator": OPERATOR, "kernel": KERNEL, "runtime": "cuda_runtime", "memcpy": COPY, "memset": FILL}
OLDEST = {"CPU functions": OPERATOR, "CUDA functions": KERNEL}  # by process: the first torch wrote no category
STEP, LOADER = "ProfilerStep#", "enumerate(Data"  # of a DataLoader or a DataPipe; older torch calls both operators
ON_DEVICE = (KERNEL, COPY, FILL)
MARKS = ("gpu_user_annotation", "cuda_sync", "cuda_event")  # drawn beside what a stream ran, not around it
SETTINGS = ("grid", "block", "registers", "shared_memory", "blocks_per_sm", "occupancy")  # of a launch


@dataclass
class Columns:
    """A whole trace. Times are in microseconds from its beginning."""

    start: Floats
    duration: Floats
    own: Floats  # without what is nested in it
    name: Ints
    category: Ints
    detail: Ints
    correlation: NDArray[np.int64]  # of a launch and of what it launched; 0: none
    rows: Ints  # where each row begins in the columns above, and where the last one ends
    row_track: Ints
    row_depth: Ints
    names: list[str]
    categories: list[str]
    details: list[str]  # shapes and types of an operator; settings of what ran on a device, as JSON
    tracks: list[str]
    track_device: list[int]  # the number of the GPU; CPU
    about: dict[str, Any]  # rank, ranks, devices: what the file says of its job and its GPUs
    memory: dict[str, tuple[Floats, Floats]]  # device -> times, bytes that tensors hold

    @property
    def length(self) -> float:
        ends = [float((self.start + self.duration).max())] if len(self.start) else []
        return max(ends + [float(times[-1]) for times, _ in self.memory.values()], default=0.0)

    @property
    def bytes(self) -> int:
        held = (self.start, self.duration, self.own, self.name, self.category, self.detail, self.correlation)
        return sum(column.nbytes for column in held) + sum(2 * times.nbytes for times, _ in self.memory.values())

    def row(self, number: int) -> slice:
        return slice(int(self.rows[number]), int(self.rows[number + 1]))

    def row_of(self, place: int) -> int:
        return int(np.searchsorted(self.rows, place, "right")) - 1

    def of(self, *categories: str) -> NDArray[np.intp]:
        """Places of all spans of these categories, in the order of rows."""
        numbers = [number for number, name in enumerate(self.categories) if name in categories]
        return np.flatnonzero(np.isin(self.category, numbers))

    def track_of(self, places: Any) -> Ints:
        tracks: Ints = self.row_track[np.searchsorted(self.rows, places, "right") - 1]
        return tracks

    def device_of(self, places: Any) -> Ints:
        return np.array(self.track_device, np.int32)[self.track_of(places)]

    @cached_property
    def shown_names(self) -> list[str]:
        """As they stand in a drawing: those of kernels shortened."""
        kernels = set(np.unique(self.name[self.of(KERNEL)]).tolist())
        return [short_name(name) if number in kernels else name for number, name in enumerate(self.names)]

    @cached_property
    def on_device(self) -> NDArray[np.bool_]:
        """Whether each span is one of a device."""
        return np.repeat(np.array(self.track_device, np.int32)[self.row_track] != CPU, np.diff(self.rows))

    def settings(self, place: int) -> dict[str, Any]:
        """Of something that ran on a device: grid, block, ... or bytes; what the trace does not tell is missing."""
        text = self.details[self.detail[place]]
        return dict(msgspec.json.decode(text)) if text.startswith("{") else {}


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
    correlation: array[int] = field(default_factory=lambda: array("q"))
    track: array[int] = field(default_factory=lambda: array("i"))
    names: _Numbers = field(default_factory=_Numbers)
    categories: _Numbers = field(default_factory=_Numbers)
    details: _Numbers = field(default_factory=_Numbers)
    tracks: _Numbers = field(default_factory=_Numbers)
    processes: dict[Any, str] = field(default_factory=dict)
    threads: dict[tuple[Any, Any], str] = field(default_factory=dict)
    devices: dict[int, int] = field(default_factory=dict)  # track -> GPU
    about: dict[str, Any] = field(default_factory=dict)
    order: dict[Any, float] = field(default_factory=dict)
    memory: dict[str, tuple[array[float], array[float]]] = field(default_factory=dict)
    changes_alone: set[str] = field(default_factory=set)  # devices whose events tell no totals, as of older torch
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
        category = _category(event)
        args = event.args
        track = self.tracks[event.pid, event.tid, category in MARKS]
        if category in ON_DEVICE or category in MARKS:
            named: Any = args.device if args is not None else None
            known = (number for number in (named, event.pid) if _is_number(number) and number > CPU)
            self.devices.setdefault(track, next(known, 0))
        self.start.append(ts)
        self.duration.append(max(0.0, duration))
        self.name.append(self.names[_cut(event.name)])
        self.category.append(self.categories[_cut(category)])
        self.detail.append(self.details[_detail(args, category)])
        self.correlation.append(args.correlation if args is not None and _is_correlation(args.correlation) else 0)
        self.track.append(track)

    def _add_memory(self, event: Event) -> None:
        args = event.args
        if args is None or event.ts is None or not isinstance(args.bytes, int | float):
            return
        number = args.device_id if isinstance(args.device_id, int) else -1
        kind = (
            DEVICES.get(args.device_type, f"device {args.device_type}") if isinstance(args.device_type, int) else "CPU"
        )
        device = f"{kind} {number}" if number >= 0 else kind
        times, held = self.memory.setdefault(device, (array("d"), array("d")))
        before = held[-1] if held else 0.0
        times.append(event.ts)
        if isinstance(args.allocated, int | float):
            held.append(args.allocated)
        else:
            self.changes_alone.add(device)
            held.append(before + args.bytes)

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
        elif event.name == ABOUT and isinstance(args.about, About):
            self.about |= _said(args.about)


def _is_number(value: Any) -> TypeGuard[int]:
    return type(value) is int and abs(value) < 1 << 31


def _is_correlation(value: Any) -> TypeGuard[int]:
    """Counted from the start of a process: of a long one it needs more than 32 bits."""
    return type(value) is int and abs(value) < 1 << 63


def _category(event: Event) -> str:
    """As torch names it today."""
    if event.cat is None:
        return OLDEST.get(event.pid, "") if isinstance(event.pid, str) else ""
    category = OLDER.get(event.cat.lower(), event.cat)
    return ANNOTATION if category == OPERATOR and event.name.startswith((STEP, LOADER)) else category


def _said(about: About) -> dict[str, Any]:
    """Whatever stands there may be anything: only what has the known form is used."""
    job = about.distributedInfo if isinstance(about.distributedInfo, dict) else {}
    named = {"rank": job.get("rank"), "ranks": job.get("world_size")}
    found: dict[str, Any] = {key: value for key, value in named.items() if _is_number(value)}
    listed = about.deviceProperties if isinstance(about.deviceProperties, list) else []
    devices = [
        {
            "id": one["id"],
            "name": _cut(str(one.get("name", ""))),
            "bytes": one["totalGlobalMem"] if isinstance(one.get("totalGlobalMem"), int) else None,
            "compute": one["computeMajor"] if _is_number(one.get("computeMajor")) else None,
        }
        for one in listed
        if isinstance(one, dict) and _is_number(one.get("id"))
    ]
    return found | ({"devices": devices} if devices else {})


def _detail(args: Args | None, category: str) -> str:
    if args is None:
        return ""
    if category in ON_DEVICE:
        values = [(key, getattr(args, key)) for key in SETTINGS] if category == KERNEL else [("bytes", args.copied)]
        known = {key: value for key, value in values if _is_plain(value)}
        return msgspec.json.encode(known).decode() if known else ""
    if args.shapes is NOTHING and args.types is NOTHING:
        return ""
    return _cut(" ".join((bytes(args.shapes) + b" " + bytes(args.types)).decode().split()))


def _is_plain(value: Any) -> bool:
    """A number, or up to three of them."""
    if isinstance(value, list):
        return 0 < len(value) <= 3 and all(_is_number(one) for one in value)
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


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
        device: _sorted(
            np.frombuffer(times, np.float64) - origin,
            # What was held before the recording is freed in it: no less than that was there at its start.
            np.frombuffer(held, np.float64) - (min(0.0, *held) if device in found.changes_alone else 0.0),
        )
        for device, (times, held) in found.memory.items()
    }
    return _nested(found, start - origin, memory)


def _sorted(times: Floats, held: Floats) -> tuple[Floats, Floats]:
    order = np.argsort(times, kind="stable")
    return times[order], held[order]


def _nested(found: _Collected, start: Floats, memory: dict[str, tuple[Floats, Floats]]) -> Columns:
    """Depth and self time of each span, then everything in the order of rows."""
    duration = np.frombuffer(found.duration, np.float64) if len(start) else np.empty(0)
    track = _ordered_tracks(found)
    order = np.lexsort((-duration, start, track))
    depth, own = nest(track[order], start[order], duration[order])
    by_row = np.lexsort((start[order], depth, track[order]))
    chosen = order[by_row]
    row_key = track[chosen].astype(np.int64) << 32 | depth[by_row]
    rows = np.flatnonzero(np.diff(row_key, prepend=-1)) if len(row_key) else np.empty(0, np.int64)

    def column(values: array[int], kind: Any = np.int32) -> Any:
        return np.frombuffer(values, kind)[chosen] if len(values) else np.empty(0, kind)

    tracks = sorted(found.tracks, key=lambda key: _track_order(found, key))

    return Columns(
        start=start[chosen],
        duration=duration[chosen],
        own=own[by_row],
        name=column(found.name),
        category=column(found.category),
        detail=column(found.detail),
        correlation=column(found.correlation, np.int64),
        rows=np.append(rows, len(chosen)).astype(np.int32),
        row_track=track[chosen][rows].astype(np.int32),
        row_depth=depth[by_row][rows].astype(np.int32),
        names=list(found.names),
        categories=list(found.categories),
        details=list(found.details),
        tracks=[_track_name(found, key) for key in tracks],
        track_device=[found.devices.get(found.tracks[key], CPU) for key in tracks],
        about=found.about,
        memory=memory,
    )


def _track_order(found: _Collected, key: Track) -> tuple[bool, float, str, str, bool]:
    on_device = found.tracks[key] in found.devices
    return on_device, found.order.get(key[0], 0.0), str(key[0]), str(key[1]).rjust(12), key[2]


def _ordered_tracks(found: _Collected) -> Ints:
    """For each span the number of its track, in the order in which tracks are drawn."""
    order = sorted(found.tracks, key=lambda key: _track_order(found, key))
    place = {found.tracks[key]: number for number, key in enumerate(order)}
    numbers = np.array([place[number] for number in range(len(place))], np.int32)
    return numbers[np.frombuffer(found.track, np.int32)] if found.track else np.empty(0, np.int32)


def _track_name(found: _Collected, key: Track) -> str:
    process = found.processes.get(key[0], _cut(str(key[0])))
    thread = found.threads.get(key[:2], _cut(str(key[1]))).strip()
    return f"{process}: {thread}" + (", annotations" if key[2] else "")


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
