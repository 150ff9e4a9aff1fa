"""One entry of a manifest, as it was written -> an utterance, or the sentence that says what is wrong with it."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from profiler.dataset.items import Problem, Reading, Utterance
from profiler.errors import AudioError

SHORTEST_SECONDS = 0.001
# Nobody utters more than this at once; a length in samples or milliseconds that was taken for seconds is soon above.
LONGEST_SECONDS = 4 * 3600.0
FRAMES_PER_SECOND = 25.0  # 100 a second, subsampled by 4: a CTC or transducer target must fit in these
REPLACED = "\ufffd"  # what stands for a byte that an earlier program could not read
CHARACTERS_PER_SECOND = 100.0  # one in each frame before subsampling; speech has about 15


@dataclass
class ManifestEntry:
    """What a manifest says, unchecked: texts or numbers, None where it says nothing."""

    place: str
    id: Any = None
    audio: Any = None
    offset: Any = None
    seconds: Any = None
    end: Any = None
    text: Any = None
    target: Any = None
    frames_per_second: float = FRAMES_PER_SECOND  # what the target has to fit in
    row: int | None = None  # of a table that holds the audio itself
    length: float | str | None = None  # of that audio: seconds, or why it cannot be used


class Refused(Exception):
    """An entry cannot be used; the message says why. `place` is where the reason stands, if not in the entry."""

    def __init__(self, message: str, place: str = "") -> None:
        super().__init__(message)
        self.place = place


Value = TypeVar("Value")


def entries_of(
    found: Iterable[tuple[str, Value | Problem]], make: Callable[[str, Value], ManifestEntry]
) -> Iterator[ManifestEntry | Problem]:
    """What `make` gives for each place and value; one that is refused becomes a problem."""
    for place, value in found:
        try:
            yield value if isinstance(value, Problem) else make(place, value)
        except Refused as refused:
            yield Problem(refused.place or place, str(refused))


def take(entries: Iterable[ManifestEntry | Problem], reading: Reading, base: Path) -> Reading:
    """Put each entry among the utterances or the problems. Paths are relative to `base`."""
    length = functools.cache(_length)  # pieces of one recording share its file
    seen: dict[str, str] = {}
    for number, entry in enumerate(entries, 1):
        reading.progress(number)
        if isinstance(entry, Problem):
            reading.problems.append(entry)
            continue
        try:
            utterance = _checked(entry, base, length, seen)
        except Refused as refused:
            reading.problems.append(Problem(entry.place, str(refused)))
        else:
            seen[utterance.id] = entry.place
            reading.utterances.append(utterance)
    return reading


def _checked(
    entry: ManifestEntry, base: Path, length_of_file: Callable[[Path], float | str], seen: dict[str, str]
) -> Utterance:
    for value in (entry.id, entry.audio, entry.text):
        if isinstance(value, str) and not value.isprintable() and any("\udc80" <= char <= "\udcff" for char in value):
            raise Refused("is not in UTF-8")
        if isinstance(value, str) and REPLACED in value:
            raise Refused(f"was read with the wrong encoding by whoever wrote it: {_show(value)} has {REPLACED} in it")
    offset = 0.0 if _is_absent(entry.offset) else _number(entry.offset, "an offset in seconds")
    if offset < 0:
        raise Refused(f"begins before its recording, at {offset:g} s")
    seconds = None if _is_absent(entry.seconds) else _number(entry.seconds, "a number of seconds")
    if seconds is None and not _is_absent(entry.end):
        seconds = _number(entry.end, "an end in seconds") - offset
    if seconds is not None:
        _check_seconds(seconds)
    audio = None
    if not _is_absent(entry.audio):
        if not isinstance(entry.audio, str | Path):
            raise Refused(f"expected the path of an audio file, got {_show(entry.audio)}")
        audio = base / Path(entry.audio).expanduser()
        length = entry.length if entry.length is not None else length_of_file(audio)
        seconds = _fit(audio, offset, seconds, length)
    if seconds is None:
        raise Refused("has neither audio nor a length")
    text = entry.text
    if text is not None and not isinstance(text, str):
        raise Refused(f"the transcript is not a text: {_show(text)}")
    utterance = Utterance(
        id=_id(entry, audio, offset, seen),
        seconds=seconds,
        audio=audio,
        offset=offset,
        text=text,
        target_tokens=_target(entry.target),
        row=entry.row,
    )
    _check_target(utterance, entry.frames_per_second)
    return utterance


def _number(value: Any, what: str) -> float:
    """A finite number; texts are read as one. Raises what `take` turns into a problem."""
    try:
        found = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        found = math.nan
    if not math.isfinite(found):
        raise Refused(f"expected {what}, got {_show(value)}")
    return found


def _check_seconds(seconds: float) -> None:
    if seconds < SHORTEST_SECONDS:
        raise Refused(f"lasts {seconds:g} s, which is impossible")
    if seconds > LONGEST_SECONDS:
        raise Refused(f"lasts {seconds:g} s, which is impossible; are these samples or milliseconds? Give seconds")


def _fit(audio: Path, offset: float, seconds: float | None, length: float | str) -> float:
    """The length of the piece of a file that an entry names."""
    from profiler.audio import ROUNDING_SECONDS

    if isinstance(length, str):
        raise Refused(length)
    if offset >= length:
        raise Refused(f"begins at {offset:g} s, but {audio} ends at {length:.2f} s")
    if seconds is None:
        seconds = length - offset
        _check_seconds(seconds)
    if offset + seconds > length + ROUNDING_SECONDS:
        raise Refused(f"ends at {offset + seconds:.2f} s, but {audio} ends at {length:.2f} s")
    return min(seconds, length - offset)


def _target(value: Any) -> int | None:
    if _is_absent(value):
        return None
    if isinstance(value, list):
        return len(value)  # the tokens themselves
    count = _number(value, "a number of target tokens")
    if count < 0 or count != int(count):
        raise Refused(f"expected a whole number of target tokens, got {_show(value)}")
    return int(count)


def _check_target(utterance: Utterance, frames_per_second: float) -> None:
    frames = math.floor(utterance.seconds * frames_per_second + 1e-6)
    if utterance.target_tokens is not None and utterance.target_tokens > frames:
        raise Refused(
            f"the target is longer than its audio: {utterance.target_tokens} tokens in {utterance.seconds:g} s, "
            f"which are {frames} frames at {frames_per_second:g} per second"
        )
    letters = len(utterance.text) if utterance.text else 0
    if letters > utterance.seconds * CHARACTERS_PER_SECOND:
        raise Refused(
            f"the transcript is longer than its audio: {letters} characters in {utterance.seconds:g} s. "
            "Does it belong to this recording?"
        )


def _id(entry: ManifestEntry, audio: Path | None, offset: float, seen: dict[str, str]) -> str:
    """The id as given, which must be the only one of its name; else one made of the file's name."""
    if not _is_absent(entry.id):
        name = str(entry.id)
        if name in seen:
            raise Refused(f"the id {name} is there twice, first in {seen[name]}")
        return name
    stem = audio.stem if audio else entry.place.replace(" ", "-")
    name = f"{stem}@{offset:g}" if offset else stem
    return name if name not in seen else f"{name}#{entry.place.replace(' ', '-')}"


def _is_absent(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def _show(value: Any) -> str:
    text = f"'{value}'" if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _length(path: Path) -> float | str:
    """Seconds of a file, from its header; or the sentence that says why it cannot be used."""
    try:
        if path.is_dir():
            return f"{path} is a folder, not an audio file"
        if not path.exists():
            return f"there is no audio file {path}"
        if path.stat().st_size == 0:
            return f"{path} is empty"
    except OSError as error:
        return f"{path} cannot be read as audio ({error.strerror})"
    return length_of(path, str(path))


def length_of(source: Path | BinaryIO, name: str) -> float | str:
    """Seconds of what soundfile reads from a file or from memory; or why it cannot be used, by name."""
    import soundfile

    from profiler.audio import declared_frames, refuse_unusual

    try:
        with soundfile.SoundFile(source) as file:
            refuse_unusual(file, name)
            frames, declared, rate = int(file.frames), declared_frames(file), int(file.samplerate)
    except AudioError as error:
        return str(error)
    except (soundfile.LibsndfileError, RuntimeError, OSError) as error:
        reason = str(getattr(error, "error_string", "") or getattr(error, "strerror", "") or error).strip().rstrip(".")
        return f"{name} cannot be read as audio ({reason})"
    if frames <= 0:
        return f"{name} holds no samples"
    if frames < declared:
        return f"{name} is cut off: {frames} of {declared} samples are there"
    return frames / rate
