"""A folder of audio, with the transcripts of LibriSpeech's kind (`*.trans.txt`) where they lie beside the files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from profiler.dataset.checks import Entry, take
from profiler.dataset.items import DatasetError, Problem, Reading
from profiler.dataset.lines import numbered_lines

AUDIO = (".aif", ".aiff", ".au", ".caf", ".flac", ".mp3", ".oga", ".ogg", ".opus", ".rf64", ".sph", ".w64", ".wav")
TRANSCRIPTS = ".trans.txt"


def read(source: Path, reading: Reading) -> Reading:
    if not source.is_dir():
        raise DatasetError(f"{source} is not a folder.")
    everything = sorted(path for path in source.rglob("*") if path.is_file() and not path.name.startswith("."))
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
