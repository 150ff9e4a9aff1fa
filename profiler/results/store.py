"""Writing and reading results.json, the one file that is the truth; and writing any other file, whole or not at all.

    put(cell) --append--> results.journal --now and then, and at the end--> results.json, replaced as a whole

What is finished is on disk at once: a cell is a line of the journal before the next one starts. results.json is
replaced atomically as often as that costs next to nothing: after every cell of an ordinary run, now and then in one of
thousands of cells. `read_results` reads both, so whatever kills the program, nothing finished is lost; and a
cell costs the same however many there are. Cells are kept on disk alone: a long run does not grow.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, get_args, get_origin

from pydantic import ValidationError

from profiler.errors import StorageError, UserError
from profiler.results.local_paths import LocalPaths
from profiler.results.metric import follow
from profiler.results.statistics import cut, estimate
from profiler.results.types import (
    FILE,
    JOURNAL,
    SCHEMA,
    WIDTH,
    Accuracy,
    CellResult,
    DatasetResult,
    Environment,
    Record,
    Results,
    Run,
    RunHead,
    ServingResult,
)
from profiler.results.untrusted import fresh, inside, parse_json, read_bytes, read_json, shortened

SYNC_SECONDS = 1.0  # a power cut loses at most so much of a run
REPLACING_SHARE = 0.02  # of the time may go into replacing results.json; the journal has what it lacks

SPACE = re.compile(r"[ \t\r\n,]*")
MOST_BROKEN = 10_000  # entries; what has more was never a list of ours
PATIENCE_S = 5.0  # for what may be a list of entries none of which ends

Key = tuple[str, float, int]


@dataclass(frozen=True)
class Place:
    """Where the text of a cell lies on disk."""

    file: int  # a descriptor
    offset: int
    length: int

    def read(self) -> bytes:
        return os.pread(self.file, self.length, self.offset)


class ResultsFile:
    """Keeps the results of a run on disk; `head` is what is held in memory."""

    def __init__(self, folder: Path, results: Results) -> None:
        self.folder = folder
        self.head = RunHead(**{name: value for name, value in results if name not in ("cells", "datasets", "serving")})
        self._paths = LocalPaths(folder, results.run)
        self._cells: dict[Key, Place | bytes] = {cell.key: self._dump(cell) for cell in results.cells}
        self._datasets: dict[str, bytes] = {found.variant: self._dump(found) for found in results.datasets}
        self._serving: dict[str, bytes] = {found.variant: self._dump(found) for found in results.serving}
        self._journal: int | None = None
        self._journal_end = 0
        self._whole: int | None = None  # descriptor of results.json, for the places in it
        self._synced_at = -SYNC_SECONDS
        self._replace_due = 0.0

    @property
    def path(self) -> Path:
        return self.folder / FILE

    def put(self, *cells: CellResult) -> None:
        """Add or replace cells: on disk when this returns."""
        with _storage(self.path):
            for cell in cells:
                self._append(cell.key, self._dump(cell))
        if time.monotonic() >= self._replace_due:
            self.write()

    def put_dataset(self, result: DatasetResult, accuracy: Accuracy | None = None) -> None:
        """Add or replace what a variant has of the data set, then write."""
        if accuracy is not None:
            others = [found for found in self.head.accuracy if found.variant != accuracy.variant]
            order = [*(found.variant for found in self.head.accuracy), accuracy.variant]
            self.head.accuracy = sorted([*others, accuracy], key=lambda found: order.index(found.variant))
        self._datasets[result.variant] = self._dump(result)
        self.write()

    def put_serving(self, result: ServingResult) -> None:
        """Add or replace what a variant did under load, then write."""
        self._serving[result.variant] = self._dump(result)
        self.write()

    def write(self) -> None:
        """Replace results.json as a whole; the journal is empty then."""
        start = time.monotonic()
        due = start - self._synced_at > SYNC_SECONDS
        with _storage(self.path):
            self._replace(to_disk=due)
        end = time.monotonic()
        if due:
            self._synced_at = end
        self._replace_due = end + (end - start) / REPLACING_SHARE

    def _dump(self, record: Record) -> bytes:
        data = self._paths.value(record.model_dump(mode="json"))
        return json.dumps(data, ensure_ascii=False, allow_nan=False).encode()

    def close(self) -> None:
        """Leave results.json alone behind."""
        for file in (self._journal, self._whole):
            if file is not None:
                os.close(file)
        if self._journal is not None and self._journal_end == 0:
            with contextlib.suppress(OSError):
                (self.folder / JOURNAL).unlink()
        self._journal = self._whole = None

    def _append(self, key: Key, text: bytes) -> None:
        if self._journal is None:
            self._journal = os.open(fresh(self.folder / JOURNAL), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            # Of a run that is taken up: after the last line that was not cut off.
            self._journal_end = os.pread(self._journal, os.fstat(self._journal).st_size, 0).rfind(b"\n") + 1
        line = text + b"\n"
        try:
            written = os.pwrite(self._journal, line, self._journal_end)
            while written < len(line):
                written += os.pwrite(self._journal, line[written:], self._journal_end + written)
        except OSError:
            os.ftruncate(self._journal, self._journal_end)
            raise
        self._cells[key] = Place(self._journal, self._journal_end, len(text))
        self._journal_end += len(line)

    def _replace(self, to_disk: bool) -> None:
        """Copy the cells from where they lie into a new file, then rename it: readers see the old one or the new."""
        text = _json(self._paths.head(self.head.model_dump(mode="json", by_alias=True)))
        places: dict[Key, tuple[int, int]] = {}
        with replacing(self.path, to_disk) as file:
            file.write(text[: text.rindex("}")].rstrip().encode() + b',\n "cells": [')
            for number, (key, cell) in enumerate(self._cells.items()):
                file.write(b",\n  " if number else b"\n  ")
                found = cell if isinstance(cell, bytes) else cell.read()
                places[key] = file.tell(), len(found)
                file.write(found)
            file.write(b'\n ],\n "datasets": [\n  ' + b",\n  ".join(self._datasets.values()))
            file.write(b'\n ],\n "serving": [\n  ' + b",\n  ".join(self._serving.values()) + b"\n ]\n}\n")
        whole = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        cells: dict[Key, Place | bytes] = {key: Place(whole, *place) for key, place in places.items()}
        before, self._whole, self._cells = self._whole, whole, cells
        if before is not None:  # closed last: nothing refers to it, whenever an interruption comes
            os.close(before)
        if self._journal is not None:
            os.ftruncate(self._journal, 0)
            self._journal_end = 0
        else:
            (self.folder / JOURNAL).unlink(missing_ok=True)


@contextmanager
def _storage(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        kept = "What was written before is intact; make room, then go on with --resume."
        if not path.parent.is_dir():
            kept = "The folder is gone, and with it what was written before: restore it, or start a new run."
        raise StorageError(f"Cannot write {path}: {error.strerror}. {kept}") from error


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False)


@contextmanager
def replacing(path: Path, to_disk: bool = True) -> Iterator[IO[bytes]]:
    """What is written beside the target, then renamed: readers see the old file or the new one, never half of it.

    `to_disk=False` leaves it to the system when the bytes reach the disk: safe against anything but a power cut.
    """
    part = fresh(path.with_name(f".{path.name}.part"))
    try:
        with part.open("wb") as file:
            yield file
            file.flush()
            if to_disk:
                os.fsync(file.fileno())
        part.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            part.unlink()
        raise


def write_atomically(path: Path, text: str, to_disk: bool = True) -> None:
    with _storage(path), replacing(path, to_disk) as file:
        file.write(text.encode())


def read_results(path: Path) -> Results:
    """Read a results.json, or the one in a run's folder."""
    file = path / FILE if path.is_dir() else path
    try:
        data = read_json(inside(file.parent, file.name))
    except FileNotFoundError:
        raise UserError(f"{path} is not a run: there is no {FILE} in it.") from None
    except ValueError as error:
        reason = " but empty" if file.stat().st_size == 0 else f" ({error})"
        raise UserError(f"{file} is damaged: it is not JSON{reason}. Was it edited or copied only in part?") from None
    except OSError as error:
        raise UserError(f"Cannot read {file}: {error.strerror}.") from None
    version = data.get("schema") if isinstance(data, dict) else None
    if not isinstance(version, int) or not 1 <= version <= SCHEMA:
        run = data.get("run") if isinstance(data, dict) else None
        writer = run.get("profiler_version") if isinstance(run, dict) else None
        raise UserError(
            f"{file} has the schema {version!r}; this version reads 1 to {SCHEMA}. Update the profiler to open it"
            f"{f' (it was written by version {writer})' if writer else ''}."
        )
    put_journal(data, file.with_name(JOURNAL))
    try:
        return Results.model_validate(upgraded(data) if version == 1 else data)
    except ValidationError as error:
        first = error.errors()[0]
        place = shortened(".".join(str(part) for part in first["loc"]))
        raise UserError(f"{file} is damaged at {place}: {first['msg']}.") from None


def put_journal(data: dict[str, Any], journal: Path) -> None:
    """Cells that were finished after results.json was last replaced; a line that was cut off is not finished."""
    try:
        lines = read_bytes(inside(journal.parent, journal.name)).splitlines(keepends=True)
    except OSError:
        return
    cells = data.get("cells")
    if not isinstance(cells, list):
        return
    places = {_key(cell): place for place, cell in enumerate(cells)}
    for line in lines:
        try:
            cell = parse_json(line) if line.endswith(b"\n") else None
        except ValueError:
            continue
        if isinstance(cell, dict):
            place = places.setdefault(_key(cell), len(cells))
            cells[place : place + 1] = [cell]


def _key(cell: Any) -> str:
    return json.dumps(
        [cell.get(name) for name in ("variant", "seconds", "batch_size")] if isinstance(cell, dict) else ""
    )


def upgraded(data: dict[str, Any]) -> dict[str, Any]:
    """Schema 1 took the median and its interval over all calls, as if calls of one minute were independent."""
    data = data | {"schema": SCHEMA}
    width = follow(data, "run", "resolved", "measure", "width")
    width = width if isinstance(width, float) else WIDTH
    cells = data.get("cells")
    for cell in cells if isinstance(cells, list) else []:
        if isinstance(cell, dict):
            _upgrade_cell(cell, width)
    return data


def _upgrade_cell(cell: dict[str, Any], width: float) -> None:
    cell.pop("spread", None)
    latency: Any = cell.get("latency_s")
    verdict, rtf = cell.get("verdict"), cell.get("rtf")
    cell["verdict"] = "unstable" if verdict == "noisy" else verdict
    try:
        found = estimate(cut(latency["samples"], latency["rounds"]))
        before = latency["median"]
        latency["median"], latency["ci95"] = found.value, found.ci95
        cell["verdict"] = "stable" if found.half_width is not None and found.half_width <= width else "unstable"
        if rtf:
            cell["rtf"] = rtf * found.value / before
            cell["rtfx"] = 1.0 / cell["rtf"]
    except (TypeError, KeyError, ValueError, ZeroDivisionError):
        return  # no samples, or damaged ones: what is wrong with them is found by the check that follows


# -- damaged files: for looking at, never for going on with. What resumes a run must have all of it; a person who looks
# for the figures of a file that was cut off or edited is better served by those that are whole, and by being told what
# is not.


def read_as_much(path: Path) -> tuple[Results, str | None]:
    """The results and None; or what is whole of them, and what is wrong. Raises UserError where nothing is."""
    try:
        return read_results(path), None
    except UserError as error:
        problem = error
    file = path / FILE if path.is_dir() else path
    try:
        found = _members(read_bytes(inside(file.parent, file.name)).decode("utf-8", "replace"))
    except (OSError, UserError):
        raise problem from None
    version = found.get("schema")
    if not isinstance(version, int) or not 1 <= version <= SCHEMA:
        raise problem
    put_journal(found, file.with_name(JOURNAL))
    if version == 1:
        found = upgraded(found)
    try:
        run = Run.model_validate(found.get("run"))
    except ValidationError:
        raise problem from None
    lost: list[str] = []
    lists = {name: _whole(found, name, kind, lost) for name, kind in _lists().items()}
    try:
        environment = Environment.model_validate(found.get("environment", {}))
    except ValidationError:
        environment = Environment()
        lost.append("its environment")
    results = Results(run=run, environment=environment, **lists)
    said = f" {', '.join(lost)} cannot be read." if lost else ""
    return results, f"{problem}{said} What is whole of it is shown; its files were left as they are."


def _lists() -> dict[str, type[Record]]:
    """The lists that results have, and of what."""
    annotations = {name: field.annotation for name, field in Results.model_fields.items()}
    return {name: get_args(kind)[0] for name, kind in annotations.items() if get_origin(kind) is list}


def _whole(found: dict[str, Any], name: str, kind: type[Record], lost: list[str]) -> list[Any]:
    """The entries of a list that have the right shape."""
    entries = found.get(name)
    if not isinstance(entries, list):
        return []
    whole, broken = [], 0
    for entry in entries:
        try:
            whole.append(kind.model_validate(entry))
        except ValidationError:
            broken += 1
            if broken > MOST_BROKEN:
                break
    if len(whole) < len(entries):
        lost.append(f"{len(entries) - len(whole)} of its {name}")
    return whole


def _members(text: str) -> dict[str, Any]:
    """The members of a JSON object up to where it breaks off; of a list that breaks, the entries that do not."""
    decoder = json.JSONDecoder()
    found: dict[str, Any] = {}
    place = text.find("{") + 1
    while place > 0:
        try:
            key, place = decoder.raw_decode(text, _next(text, place))
            place = _next(text, text.index(":", place) + 1)
        except (ValueError, RecursionError):
            break
        try:
            found[str(key)], place = decoder.raw_decode(text, place)
        except (ValueError, RecursionError):
            if not text.startswith("[", place):
                break
            found[str(key)], place = _entries(decoder, text, place + 1)
    return found


def _entries(decoder: json.JSONDecoder, text: str, place: int) -> tuple[list[Any], int]:
    """Entries of a list. We write a cell a line, so after a broken one the next line is a new start."""
    entries: list[Any] = []
    given_up = time.monotonic() + PATIENCE_S
    while place < len(text) and time.monotonic() < given_up:
        place = _next(text, place)
        if text.startswith("]", place):
            return entries, place + 1
        try:
            entry, place = decoder.raw_decode(text, place)
            entries.append(entry)
        except (ValueError, RecursionError):
            entries.append(None)
            line = text.find("\n", place)
            if line < 0:
                break
            place = line
    return entries, len(text)


def _next(text: str, place: int) -> int:
    found = SPACE.match(text, place)
    return found.end() if found else place
