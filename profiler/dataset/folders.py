"""Folders of recordings: a Kaldi data folder, or any folder of audio.

Kaldi's has wav.scp, and beside it, where they are there, segments, utt2dur and text. In a folder of audio the
transcripts of LibriSpeech's kind (`*.trans.txt`) are taken where they lie beside the files.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from profiler.dataset.checks import ManifestEntry, Refused, entries_of, take
from profiler.dataset.items import DatasetError, Problem, Reading, numbered_lines

# Kaldi's own recipe for LibriSpeech decodes by a command. It is not run: soundfile reads the file that it names.
FLAC = re.compile(r"flac(?:\s+-\S+)*\s+(\S+)\s*\|")
AUDIO = (".aif", ".aiff", ".au", ".caf", ".flac", ".mp3", ".oga", ".ogg", ".opus", ".rf64", ".sph", ".w64", ".wav")
TRANSCRIPTS = ".trans.txt"
MOST_FILES = 5_000_000
MANY_FILES = 50_000  # in a folder of so many, at least this share is audio; in a home or a whole disk it is not
SHARE_OF_AUDIO = 0.01
Table = dict[str, tuple[str, str]]  # id -> (where it stands, the rest of the line)


def _read_table(file: Path, name: str, table: Table) -> Iterator[Problem]:
    """Put the lines of a file into a table, each an id and what it has; an id that is there twice is a problem."""
    for number, line in numbered_lines(file):
        key, *rest = line.split(maxsplit=1)
        place = f"{name} line {number}"
        if key in table:
            yield Problem(place, f"the id {key} is there twice, first in {table[key][0]}")
        else:
            table[key] = (place, rest[0].strip() if rest else "")


def _without_audio(texts: Table) -> Iterator[Problem]:
    for name, (place, _) in texts.items():
        yield Problem(place, f"there is no audio for the transcript of {name}")


# -- Kaldi


def is_kaldi(folder: Path) -> bool:
    return any((folder / name).is_file() for name in ("wav.scp", "utt2dur"))


def read_kaldi(source: Path, reading: Reading) -> Reading:
    folder = source if source.is_dir() else source.parent
    if not is_kaldi(folder):
        raise DatasetError(f"{folder} is no Kaldi data folder: there is neither wav.scp nor utt2dur in it.")
    return take(_kaldi_entries(folder), reading, folder)


def _kaldi_entries(folder: Path) -> Iterator[ManifestEntry | Problem]:
    files: Table = {}
    segments: Table = {}
    lengths: Table = {}
    texts: Table = {}
    for name, table in {"wav.scp": files, "segments": segments, "utt2dur": lengths, "text": texts}.items():
        if (folder / name).is_file():
            yield from _read_table(folder / name, name, table)

    def entry(place: str, line: tuple[str, str]) -> ManifestEntry:
        name, rest = line
        text = texts[name][1] if name in texts else None
        if not files:  # lengths alone, such as of a set whose audio is elsewhere
            return ManifestEntry(place, name, seconds=rest, text=text)
        if not segments:
            seconds = lengths[name][1] if name in lengths else None
            return ManifestEntry(place, name, _file(place, rest), seconds=seconds, text=text)
        parts = rest.split()
        if len(parts) != 3:
            raise Refused(f"expected `utterance recording start end`, got {len(parts) + 1} fields")
        recording, start, end = parts
        if recording not in files:
            raise Refused(f"there is no recording {recording} in wav.scp")
        # An end below 0 stands for the end of the recording.
        until = None if end.startswith("-") else end
        return ManifestEntry(place, name, _file(*files[recording]), start, end=until, text=text)

    listed = lengths if not files else segments or files
    yield from entries_of(((place, (name, rest)) for name, (place, rest) in listed.items()), entry)
    known = segments or files or lengths
    yield from _without_audio({name: line for name, line in texts.items() if name not in known})


def _file(place: str, rest: str) -> str:
    if not rest:
        raise Refused("has no file", place)
    command = FLAC.fullmatch(rest)
    if command is None and rest.endswith("|"):
        raise Refused("is a command, which is not run; convert the audio to files", place)
    return command[1] if command else rest


# -- any folder of audio


def read_folder(source: Path, reading: Reading) -> Reading:
    if not source.is_dir():
        raise DatasetError(f"{source} is not a folder.")
    everything = sorted(_files(source, reading))
    audio = [path for path in everything if path.suffix.lower() in AUDIO]
    transcripts = [path for path in everything if path.name.endswith(TRANSCRIPTS)]
    known = {*audio, *transcripts}
    others = [path for path in everything if path not in known]
    if not audio:
        raise DatasetError(f"There is no audio in {source}: no file that ends in {', '.join(AUDIO)}.")
    if others:
        named = ", ".join(str(path.relative_to(source)) for path in others[:3])
        more = f" and {len(others) - 3} more" if len(others) > 3 else ""
        reading.notes.append(f"Not taken for audio, by their names: {named}{more}.")
    return take(_entries(source, audio, transcripts), reading, source)


def _files(source: Path, reading: Reading) -> Iterator[Path]:
    """All files below a folder. Links to folders are not followed; a folder that may not be read is a problem."""

    def unreadable(error: OSError) -> None:
        place = os.path.relpath(error.filename, source)
        reading.problems.append(Problem(place, f"this folder cannot be read: {error.strerror}"))

    looked = audio = 0
    for folder, _, names in os.walk(source, onerror=unreadable):
        for name in names:
            looked += 1
            audio += name.lower().endswith(AUDIO)
            path = Path(folder, name)
            if not name.startswith(".") and path.is_file():
                yield path
        if looked > MOST_FILES or (looked > MANY_FILES and audio < SHARE_OF_AUDIO * looked):
            raise DatasetError(
                f"{source} is not taken for a data set: of the first {looked:,} files in it {audio:,} are audio. "
                "Name the folder that holds the recordings, or a manifest."
            )


def _entries(source: Path, audio: list[Path], transcripts: list[Path]) -> Iterator[ManifestEntry | Problem]:
    said: dict[Path, Table] = defaultdict(dict)  # by folder
    for file in transcripts:
        yield from _read_table(file, str(file.relative_to(source)), said[file.parent])
    twice = len({path.stem for path in audio}) < len(audio)
    for path in audio:
        inside = str(path.relative_to(source))
        _, text = said[path.parent].pop(path.stem, (None, None))
        yield ManifestEntry(inside, inside if twice else path.stem, path, text=text)
    for left in said.values():
        yield from _without_audio(left)
