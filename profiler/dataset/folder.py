"""A folder of audio, with the transcripts of LibriSpeech's kind (`*.trans.txt`) where they lie beside the files."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from profiler.dataset.checks import Entry, take
from profiler.dataset.items import DatasetError, Problem, Reading
from profiler.dataset.lines import numbered_lines

AUDIO = (".aif", ".aiff", ".au", ".caf", ".flac", ".mp3", ".oga", ".ogg", ".opus", ".rf64", ".sph", ".w64", ".wav")
TRANSCRIPTS = ".trans.txt"
MOST_FILES = 5_000_000
MANY_FILES = 50_000  # in a folder of so many, at least this share is audio; in a home or a whole disk it is not
SHARE_OF_AUDIO = 0.01


def read(source: Path, reading: Reading) -> Reading:
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


def _entries(source: Path, audio: list[Path], transcripts: list[Path]) -> Iterator[Entry | Problem]:
    said: dict[tuple[Path, str], tuple[str, str]] = {}  # (folder, id) -> (where it stands, text)
    for file in transcripts:
        for number, line in numbered_lines(file):
            name, *text = line.split(maxsplit=1)
            place = f"{file.relative_to(source)} line {number}"
            if (file.parent, name) in said:
                yield Problem(place, f"the id {name} is there twice, first in {said[file.parent, name][0]}")
                continue
            said[file.parent, name] = (place, text[0].strip() if text else "")
    twice = {stem for stem, count in Counter(path.stem for path in audio).items() if count > 1}
    for path in audio:
        inside = path.relative_to(source)
        transcript = said.pop((path.parent, path.stem), None)
        name = str(inside) if twice else path.stem
        yield Entry(str(inside), name, path, text=transcript[1] if transcript else None)
    for (_, name), (place, _) in said.items():
        yield Problem(place, f"there is no audio for the transcript of {name}")
