"""A Kaldi data folder: wav.scp, and beside it, where they are there, segments, utt2dur and text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from profiler.dataset.checks import Entry, take
from profiler.dataset.items import DatasetError, Problem, Reading
from profiler.dataset.lines import numbered_lines

# Kaldi's own recipe for LibriSpeech decodes by a command. It is not run: soundfile reads the file that it names.
FLAC = re.compile(r"flac(?:\s+-\S+)*\s+(\S+)\s*\|")
Table = dict[str, tuple[str, str]]  # key -> (where it stands, the rest of the line)


def is_kaldi(folder: Path) -> bool:
    return any((folder / name).is_file() for name in ("wav.scp", "utt2dur"))


def read(source: Path, reading: Reading) -> Reading:
    folder = source if source.is_dir() else source.parent
    if not is_kaldi(folder):
        raise DatasetError(f"{folder} is no Kaldi data folder: there is neither wav.scp nor utt2dur in it.")
    return take(_entries(folder), reading, folder)


def _table(file: Path) -> tuple[Table, list[Problem]]:
    table: Table = {}
    problems: list[Problem] = []
    if file.is_file():
        for number, line in numbered_lines(file):
            key, *rest = line.split(maxsplit=1)
            place = f"{file.name} line {number}"
            if key in table:
                problems.append(Problem(place, f"the id {key} is there twice, first in {table[key][0]}"))
            else:
                table[key] = (place, rest[0].strip() if rest else "")
    return table, problems


def _entries(folder: Path) -> Iterator[Entry | Problem]:
    tables = {}
    for name in ("wav.scp", "segments", "utt2dur", "text"):
        tables[name], problems = _table(folder / name)
        yield from problems
    files, segments, lengths, texts = tables["wav.scp"], tables["segments"], tables["utt2dur"], tables["text"]
    if not files:  # lengths alone, such as of a set whose audio is elsewhere
        for name, (place, seconds) in lengths.items():
            yield Entry(place, name, seconds=seconds, text=_text(texts, name))
    elif segments:
        for name, (place, rest) in segments.items():
            yield _segment(place, name, rest, files, _text(texts, name))
    else:
        for name, (place, rest) in files.items():
            audio = _file(place, rest)
            if isinstance(audio, Problem):
                yield audio
            else:
                yield Entry(place, name, audio, seconds=_text(lengths, name), text=_text(texts, name))
    known = segments or files or lengths
    for name, (place, _) in texts.items():
        if name not in known:
            yield Problem(place, f"there is no audio for the transcript of {name}")


def _segment(place: str, name: str, rest: str, files: Table, text: str | None) -> Entry | Problem:
    """'recording start end', where an end below 0 stands for the end of the recording."""
    parts = rest.split()
    if len(parts) != 3:
        return Problem(place, f"expected `utterance recording start end`, got {len(parts) + 1} fields")
    recording, start, end = parts
    if recording not in files:
        return Problem(place, f"there is no recording {recording} in wav.scp")
    audio = _file(*files[recording])
    if isinstance(audio, Problem):
        return audio
    return Entry(place, name, audio, start, end=None if end.startswith("-") else end, text=text)


def _file(place: str, rest: str) -> str | Problem:
    if not rest:
        return Problem(place, "has no file")
    command = FLAC.fullmatch(rest)
    if command:
        return command[1]
    if rest.endswith("|"):
        return Problem(place, "is a command, which is not run; convert the audio to files")
    return rest


def _text(texts: Table, name: str) -> str | None:
    return texts[name][1] if name in texts else None
