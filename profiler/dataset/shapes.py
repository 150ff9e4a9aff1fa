"""A file of shapes: the lengths of utterances and of their targets, without audio. Small enough to keep with a recipe.

    # frames_per_second: 25
    id      frames  target
    u0001   318     68

Lengths are `seconds`, or `frames` with their rate in a comment above; `target` (in tokens) may be left out. The rate is
also what a target has to fit in.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from profiler.dataset.checks import FRAMES_PER_SECOND, ManifestEntry, take
from profiler.dataset.items import DatasetError, Problem, Reading, Utterance, numbered_lines
from profiler.dataset.tables import NAMES

RATE = re.compile(r"#\s*frames_per_second:\s*(\S+)")
COLUMNS = {"id", "frames", "seconds", *NAMES["target"]}


def read_shapes(source: Path, reading: Reading) -> Reading:
    return take(_entries(source, reading.notes), reading, source.parent)


def is_shapes(source: Path) -> bool:
    """True where the header names lengths and nothing that a manifest would have."""
    header = next((line for _, line in numbered_lines(source) if not line.startswith("#")), "")
    names = {name.strip().lower() for name in header.split("\t")}
    return names <= COLUMNS and bool(names & {"frames", "seconds"})


def write(target: Path, utterances: list[Utterance], comments: list[str], frames_per_second: float) -> None:
    """The same file, made of utterances: seconds, and targets where there are some."""
    with_targets = any(utterance.target_tokens is not None for utterance in utterances)
    lines = [f"# {comment}" for comment in comments] + [f"# frames_per_second: {frames_per_second:g}"]
    lines.append("id\tseconds\ttarget" if with_targets else "id\tseconds")
    for utterance in utterances:
        row = [utterance.id, f"{utterance.seconds:.3f}"]
        if with_targets:
            row.append("" if utterance.target_tokens is None else str(utterance.target_tokens))
        lines.append("\t".join(row))
    target.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _entries(source: Path, notes: list[str]) -> Iterator[ManifestEntry | Problem]:
    rate: float | None = None
    header: list[str] = []
    for number, line in numbered_lines(source):
        if line.startswith("#"):
            if found := RATE.match(line):
                rate = _rate(found[1], source, number)
            if "generated" in line.lower() and not header:
                notes.append(f"{source.name}: {line.lstrip('# ').strip()}")
            continue
        values = [value.strip() for value in line.split("\t")]
        if not header:
            header = [value.lower() for value in values]
            _check_header(header, rate, source, number)
            continue
        place = f"line {number}"
        if len(values) != len(header):
            yield Problem(place, f"has {len(values)} columns, the header {len(header)}")
            continue
        yield _entry(place, dict(zip(header, values, strict=True)), rate)
    if not header:
        raise DatasetError(f"{source} holds no shapes.")


def _rate(text: str, source: Path, number: int) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0 < rate <= 1e6:
        raise DatasetError(f"{source}, line {number}: expected a number of frames per second, got '{text}'.")
    return rate


def _check_header(header: list[str], rate: float | None, source: Path, number: int) -> None:
    place = f"{source}, line {number}"
    if ("frames" in header) == ("seconds" in header):
        raise DatasetError(
            f"{place}: expected a header with `frames` or `seconds`, such as id, seconds, target, divided by tabs; "
            f"found {', '.join(header)}."
        )
    unknown = [name for name in header if name not in COLUMNS]
    if unknown:
        raise DatasetError(f"{place}: unknown columns {', '.join(unknown)}; a file of shapes has id, seconds, target.")
    if "frames" in header and rate is None:
        raise DatasetError(f"{place}: how long is a frame? Write a line `# frames_per_second: 25` above.")


def _entry(place: str, row: dict[str, str], rate: float | None) -> ManifestEntry | Problem:
    target = next((row[name] for name in NAMES["target"] if name in row), None)
    seconds: str | float = row.get("seconds", "")
    if "frames" in row:
        try:
            seconds = float(row["frames"]) / (rate or FRAMES_PER_SECOND)
        except ValueError:
            return Problem(place, f"expected a number of frames, got '{row['frames']}'")
    return ManifestEntry(
        place, row.get("id"), seconds=seconds, target=target, frames_per_second=rate or FRAMES_PER_SECOND
    )
