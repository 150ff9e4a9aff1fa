"""One entry of a manifest, as it was written -> an utterance, or the sentence that says what is wrong with it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from profiler.dataset.durations import Durations
from profiler.dataset.items import Problem, Reading, Utterance

SHORTEST_SECONDS = 0.001
# Nobody utters more than this at once; a length in samples or milliseconds that was taken for seconds is soon above.
LONGEST_SECONDS = 4 * 3600.0
FRAMES_PER_SECOND = 25.0  # 100 a second, subsampled by 4: a CTC or transducer target must fit in these
REPLACED = "\ufffd"  # what stands for a byte that an earlier program could not read
CHARACTERS_PER_SECOND = 100.0  # one in each frame before subsampling; speech has about 15


@dataclass
class Entry:
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


class _Refused(Exception):
    """The entry cannot be used; the message says why."""


def take(entries: Iterable[Entry | Problem], reading: Reading, base: Path) -> Reading:
    """Put each entry among the utterances or the problems. Paths are relative to `base`."""
    durations = Durations()
    seen: dict[str, str] = {}
    for number, entry in enumerate(entries, 1):
        reading.progress(number)
        if isinstance(entry, Problem):
            reading.problems.append(entry)
            continue
        try:
            utterance = _checked(entry, base, durations, seen)
        except _Refused as refused:
            reading.problems.append(Problem(entry.place, str(refused)))
        else:
            seen[utterance.id] = entry.place
            reading.utterances.append(utterance)
    return reading


def _checked(entry: Entry, base: Path, durations: Durations, seen: dict[str, str]) -> Utterance:
    for value in (entry.id, entry.audio, entry.text):
        if isinstance(value, str) and not value.isprintable() and any("\udc80" <= char <= "\udcff" for char in value):
            raise _Refused("is not in UTF-8")
        if isinstance(value, str) and REPLACED in value:
            raise _Refused(f"was read with the wrong encoding by whoever wrote it: {_show(value)} has {REPLACED} in it")
    offset = 0.0 if _is_absent(entry.offset) else _number(entry.offset, "an offset in seconds")
    if offset < 0:
        raise _Refused(f"begins before its recording, at {offset:g} s")
    seconds = None if _is_absent(entry.seconds) else _number(entry.seconds, "a number of seconds")
    if seconds is None and not _is_absent(entry.end):
        seconds = _number(entry.end, "an end in seconds") - offset
    if seconds is not None:
        _check_seconds(seconds)
    audio = None if _is_absent(entry.audio) else _audio(entry.audio, base)
    if audio is not None:
        length = entry.length if entry.length is not None else durations.of(audio)
        seconds = _fit(audio, offset, seconds, length)
    if seconds is None:
        raise _Refused("has neither audio nor a length")
    text = entry.text
    if text is not None and not isinstance(text, str):
        raise _Refused(f"the transcript is not a text: {_show(text)}")
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
        if isinstance(value, bool):
            raise ValueError
        found = float(value)
    except (TypeError, ValueError):
        raise _Refused(f"expected {what}, got {_show(value)}") from None
    if not math.isfinite(found):
        raise _Refused(f"expected {what}, got {_show(value)}")
    return found


def _check_seconds(seconds: float) -> None:
    if seconds < SHORTEST_SECONDS:
        raise _Refused(f"lasts {seconds:g} s, which is impossible")
    if seconds > LONGEST_SECONDS:
        raise _Refused(f"lasts {seconds:g} s, which is impossible; are these samples or milliseconds? Give seconds")


def _audio(value: Any, base: Path) -> Path:
    if not isinstance(value, str | Path):
        raise _Refused(f"expected the path of an audio file, got {_show(value)}")
    return base / Path(value).expanduser()


def _fit(audio: Path, offset: float, seconds: float | None, length: float | str) -> float:
    """The length of the piece of a file that an entry names."""
    from profiler.audio import ROUNDING_SECONDS

    if isinstance(length, str):
        raise _Refused(length)
    if offset >= length:
        raise _Refused(f"begins at {offset:g} s, but {audio} ends at {length:.2f} s")
    if seconds is None:
        seconds = length - offset
        _check_seconds(seconds)
    if offset + seconds > length + ROUNDING_SECONDS:
        raise _Refused(f"ends at {offset + seconds:.2f} s, but {audio} ends at {length:.2f} s")
    return min(seconds, length - offset)


def _target(value: Any) -> int | None:
    if _is_absent(value):
        return None
    if isinstance(value, list):
        return len(value)  # the tokens themselves
    count = _number(value, "a number of target tokens")
    if count < 0 or count != int(count):
        raise _Refused(f"expected a whole number of target tokens, got {_show(value)}")
    return int(count)


def _check_target(utterance: Utterance, frames_per_second: float) -> None:
    frames = math.floor(utterance.seconds * frames_per_second + 1e-6)
    if utterance.target_tokens is not None and utterance.target_tokens > frames:
        raise _Refused(
            f"the target is longer than its audio: {utterance.target_tokens} tokens in {utterance.seconds:g} s, "
            f"which are {frames} frames at {frames_per_second:g} per second"
        )
    letters = len(utterance.text) if utterance.text else 0
    if letters > utterance.seconds * CHARACTERS_PER_SECOND:
        raise _Refused(
            f"the transcript is longer than its audio: {letters} characters in {utterance.seconds:g} s. "
            "Does it belong to this recording?"
        )


def _id(entry: Entry, audio: Path | None, offset: float, seen: dict[str, str]) -> str:
    """The id as given, which must be the only one of its name; else one made of the file's name."""
    if not _is_absent(entry.id):
        name = str(entry.id)
        if name in seen:
            raise _Refused(f"the id {name} is there twice, first in {seen[name]}")
        return name
    stem = audio.stem if audio else entry.place.replace(" ", "-")
    name = f"{stem}@{offset:g}" if offset else stem
    return name if name not in seen else f"{name}#{entry.place.replace(' ', '-')}"


def _is_absent(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def _show(value: Any) -> str:
    text = f"'{value}'" if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else text[:57] + "..."
