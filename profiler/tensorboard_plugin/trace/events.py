"""A trace file -> its events, in pieces: a file of any length takes the memory of one piece.

The pieces are cut where one event ends and the next begins. A wrong cut, inside of a text or of a nested list, cannot
go unnoticed: what is before it is not JSON then, and the piece is made longer.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import msgspec

from profiler.errors import UserError

PIECE = 4_000_000  # bytes
LARGEST = 3_000_000_000  # bytes unpacked: more would be a mistake or an attack
LONGEST_EVENT = 64_000_000  # bytes: no more than this is held, whatever the file has
MOST_EVENTS = 10_000_000
START = re.compile(rb'\A\s*\[|"traceEvents"\s*:\s*\[')
BETWEEN = re.compile(rb"\}\s*,\s*(?=\{)")
GZIP = b"\x1f\x8b"
LOOKED_AT = 65_536  # bytes of a file, and as many unpacked, to tell whether it is a trace
ABOUT = "about this trace"  # the name of an event made here, with what stands before the list of events

NOTHING = msgspec.Raw(b"")


class Args(msgspec.Struct, gc=False):
    """What is kept of an event's arguments, which may be anything."""

    name: Any = None
    labels: Any = None
    sort_index: Any = None
    allocated: Any = msgspec.field(default=None, name="Total Allocated")
    bytes: Any = msgspec.field(default=None, name="Bytes")
    device_type: Any = msgspec.field(default=None, name="Device Type")
    device_id: Any = msgspec.field(default=None, name="Device Id")
    shapes: msgspec.Raw = msgspec.field(default=NOTHING, name="Input Dims")
    types: msgspec.Raw = msgspec.field(default=NOTHING, name="Input type")
    correlation: Any = None  # the same number in the call that launched something and in what ran on the device
    device: Any = None
    grid: Any = None
    block: Any = None
    registers: Any = msgspec.field(default=None, name="registers per thread")
    shared_memory: Any = msgspec.field(default=None, name="shared memory")
    blocks_per_sm: Any = msgspec.field(default=None, name="blocks per SM")
    occupancy: Any = msgspec.field(default=None, name="est. achieved occupancy %")
    copied: Any = msgspec.field(default=None, name="bytes")
    about: Any = None  # of ABOUT alone


class Event(msgspec.Struct, gc=False):
    """One entry of `traceEvents`; times are in microseconds."""

    ph: str = ""
    name: str = ""
    cat: str | None = None
    ts: float | None = None
    dur: float | None = None
    pid: int | str | None = None
    tid: int | str | None = None
    args: Args | None = None


class _Counted(msgspec.Struct, gc=False):
    """An event of which nothing is kept."""


class About(msgspec.Struct):
    """What a file says of itself before its list of events."""

    deviceProperties: Any = None
    distributedInfo: Any = None


class TraceError(UserError):
    """A file that is not a trace, or only the beginning of one."""


class TooLarge(TraceError):
    """Larger than was asked for."""


class _Decoders:
    """Of the list of events, and of the whole file around it."""

    def __init__(self, kind: type) -> None:
        self.events = msgspec.json.Decoder(list[kind])  # type: ignore[valid-type]
        whole = msgspec.defstruct("Whole", [("traceEvents", list[kind])])  # type: ignore[valid-type]
        self.whole: msgspec.json.Decoder[Any] = msgspec.json.Decoder(whole)


_interpreting, _counting = _Decoders(Event), _Decoders(_Counted)
_about = msgspec.json.Decoder(About)


def check_size(path: Path) -> None:
    """Raises what `read_events` raises for a trace that is damaged or too large, in a fraction of the time."""
    for _ in _read(path, LARGEST, _counting):
        pass


def looks_like_trace(path: Path) -> bool:
    """By how it begins, whatever its name; reads LOOKED_AT bytes."""
    try:
        with path.open("rb") as file:
            head = file.read(LOOKED_AT)
        if head.startswith(GZIP):
            head = zlib.decompressobj(wbits=31).decompress(head, LOOKED_AT)
    except (OSError, zlib.error):
        return False
    start = START.search(head)
    if start is None or not head.lstrip().startswith((b"{", b"[")):
        return False
    return start[0].startswith(b'"') or b'"ph"' in head


def read_events(path: Path, most: int | None = None) -> Iterator[list[Event]]:
    """The events of a plain or gzipped trace. Raises TraceError, and TooLarge beyond `most` bytes unpacked."""
    return _read(path, LARGEST if most is None else most, _interpreting)


def _read(path: Path, most: int, decoders: _Decoders) -> Iterator[list[Any]]:
    seen = 0
    try:
        with path.open("rb") as file:
            packed = file.read(2) == GZIP
            file.seek(0)
            source: Any = gzip.GzipFile(fileobj=file) if packed else file  # by what it is, not by its name
            for events in _pieces(source, path.name, most, decoders):
                seen += len(events)
                if seen > MOST_EVENTS:
                    raise TraceError(f"{path.name} has more than {MOST_EVENTS:,} events; such a trace is not opened.")
                yield events
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise TraceError(
            f"{path.name} ends too early or is damaged: it cannot be unpacked. If the run is still going on, it may be "
            "whole soon; else make the trace again."
        ) from None
    except OSError as error:
        raise TraceError(f"Cannot read {path.name}: {error.strerror or error}.") from None


def _pieces(source: IO[bytes], name: str, most: int, decoders: _Decoders) -> Iterator[list[Any]]:
    held = source.read(PIECE)
    if not held.strip():
        raise TraceError(f"{name} is empty. The program that wrote it may have been stopped before it was done.")
    start = START.search(held)
    if start is None:
        raise TraceError(f"{name} is not a trace of torch.profiler: there is no list of `traceEvents` in it.")
    bare = not start[0].startswith(b'"')
    yield _said_before(held[: start.start()])
    held, unpacked, wanted = held[start.end() :], len(held), PIECE
    while True:
        more = source.read(wanted)
        unpacked += len(more)
        if unpacked > most:
            raise TooLarge(f"{name} is larger than {most / 1e9:g} GB unpacked; such a trace is not opened.")
        if not more:
            break
        held += more
        cut = _last_between(held)
        events = _decoded(memoryview(held)[:cut], decoders) if cut else None
        if events is None:  # the cut was no boundary: a longer piece will have one
            if len(held) > LONGEST_EVENT:
                raise TraceError(
                    f"{name} is not a trace of torch.profiler: none of its events ends within "
                    f"{LONGEST_EVENT / 1e6:g} MB. Such a file is not opened."
                )
            wanted = min(2 * wanted, LONGEST_EVENT)
            continue
        yield events
        held, wanted = held[cut:].lstrip()[1:], PIECE  # without the comma
    yield _rest(held, bare, name, decoders)


def _last_between(held: bytes) -> int:
    """Where the last event that is certainly whole ends; 0 where there is none. Looked for from the end."""
    reach = 16_384
    while True:
        begin = max(0, len(held) - reach)
        found = [match.start() + 1 for match in BETWEEN.finditer(held, begin)]
        if found or begin == 0:
            return found[-1] if found else 0
        reach *= 8


def _decoded(elements: memoryview, decoders: _Decoders) -> list[Any] | None:
    try:
        return decoders.events.decode(b"".join((b"[", elements, b"]")))
    except (msgspec.DecodeError, RecursionError):
        return None


def _said_before(head: bytes) -> list[Event]:
    """Nothing where that part is in another form."""
    try:
        about = _about.decode(head.rstrip().rstrip(b",") + b"}")
    except (msgspec.DecodeError, RecursionError):
        return []
    known = about.deviceProperties is not None or about.distributedInfo is not None
    return [Event(ph="M", name=ABOUT, args=Args(about=about))] if known else []


def _rest(held: bytes, bare: bool, name: str, decoders: _Decoders) -> list[Any]:
    """The end of the list and what the file has after it."""
    try:
        if bare:
            return decoders.events.decode(b"[" + held)
        return decoders.whole.decode(b'{"traceEvents":[' + held).traceEvents  # type: ignore[no-any-return]
    except msgspec.ValidationError as error:
        raise TraceError(f"{name} is not a trace of torch.profiler: {error}.") from None
    except RecursionError:
        raise TraceError(f"{name} is not a trace of torch.profiler: it is nested too deep.") from None
    except msgspec.DecodeError:
        raise TraceError(
            f"{name} ends too early or is damaged: its list of events is not whole. If the run is still going on, it "
            "may be whole soon; else make the trace again."
        ) from None
