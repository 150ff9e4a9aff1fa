"""As much of a damaged results.json as can be read: for looking at, never for going on with.

`results.read_results` is strict, because what resumes a run must have all of it. A person who looks for the
figures of a file that was cut off or edited is better served by those that are whole, and by being told what is not.
"""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic import ValidationError

from profiler.errors import UserError
from profiler.results.store import put_journal, read_results, upgraded
from profiler.results.types import FILE, JOURNAL, SCHEMA, Environment, Record, Results, Run
from profiler.results.untrusted import inside, read_bytes

SPACE = re.compile(r"[ \t\r\n,]*")
MOST_BROKEN = 10_000  # entries; what has more was never a list of ours
PATIENCE_S = 5.0  # for what may be a list of entries none of which ends


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
