"""JSON lines, an object each: NeMo's (audio_filepath, duration, offset, text), Hugging Face's metadata.jsonl."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from profiler.dataset.checks import Entry, take
from profiler.dataset.columns import entry_of, expected, fields_in, usable
from profiler.dataset.items import Problem, Reading
from profiler.dataset.lines import numbered_lines


def read(source: Path, reading: Reading) -> Reading:
    return take(_entries(source), reading, source.parent)


def objects(source: Path) -> Iterator[tuple[str, dict[str, Any] | Problem]]:
    """('line 1', {...}), ...; what is no JSON object comes as a problem."""
    for number, line in numbered_lines(source):
        place = f"line {number}"
        try:
            value = json.loads(line)
        except (json.JSONDecodeError, RecursionError) as error:
            yield place, Problem(place, f"is not JSON ({getattr(error, 'msg', 'nested too deep')})")
            continue
        yield place, value if isinstance(value, dict) else Problem(place, "is not a JSON object")


def _entries(source: Path) -> Iterator[Entry | Problem]:
    for place, value in objects(source):
        if isinstance(value, Problem):
            yield value
            continue
        fields = fields_in(list(value))
        if usable(fields):
            yield entry_of(place, value, fields)
        else:
            yield Problem(place, f"expected {expected().replace('column', 'key')}, found {', '.join(value) or 'none'}")
