"""What a data set is made of, whatever it was read from: utterances, and what is wrong with the other entries.

Also the lines of text files, plain or gzipped. What is not UTF-8 in them is kept, so that checks can name it.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from profiler.errors import UserError

SHOWN = 20  # problems that are listed; the others are counted
LONGEST_LINE = 20_000_000  # characters; an utterance takes some hundred
MOST_CHARACTERS = 4_000_000_000
UTF16 = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True, slots=True)
class Utterance:
    """One recording, or a piece of one, with its target. Without audio only its length is known."""

    id: str
    seconds: float
    audio: Path | None = None
    offset: float = 0.0  # seconds from the start of the file
    text: str | None = None  # None: there is no transcript; "": there is an empty one
    target_tokens: int | None = None
    row: int | None = None  # of the table that `audio` is, where the audio is kept in one


@dataclass(frozen=True, slots=True)
class TrainingSpeech:
    """What a variant is fine-tuned on, and the folder of the file cache where trained weights are kept."""

    utterances: list[Utterance]
    cache: Path


@dataclass(frozen=True)
class Problem:
    """Why an entry cannot be used, and where it stands."""

    place: str  # 'line 4', 'segments line 2', or the name of a file
    message: str

    def __str__(self) -> str:
        # The name of a file may be no text at all; it is shown as far as it goes.
        return f"{self.place}: {self.message}".encode("utf-8", "backslashreplace").decode()


@dataclass
class Reading:
    """All that a source holds, in its own order: nothing is left out without a word."""

    source: Path
    format: str
    utterances: list[Utterance] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    progress: Callable[[int], None] = lambda entries: None

    @property
    def without_text(self) -> list[Utterance]:
        return [utterance for utterance in self.utterances if utterance.text is None]

    @property
    def without_audio(self) -> list[Utterance]:
        return [utterance for utterance in self.utterances if utterance.audio is None]


class DatasetError(UserError):
    """A source that cannot be read at all, or that has entries which cannot be used."""

    @classmethod
    def of(cls, source: Path, problems: list[Problem], so: str, advice: str) -> DatasetError:
        count = "an entry that cannot be used" if len(problems) == 1 else f"{len(problems)} entries that cannot be used"
        lines = [f"  {problem}" for problem in problems[:SHOWN]]
        lines += [f"  and {len(problems) - SHOWN} more"] if len(problems) > SHOWN else []
        return cls("\n".join([f"{source} has {count}; {so}.", *lines, advice]))


@contextlib.contextmanager
def open_text(path: Path) -> Iterator[IO[str]]:
    """A text file to read; bytes that are not UTF-8 become surrogates, which the checks name by line."""
    try:
        with path.open("rb") as start:
            if start.read(2) in UTF16:
                raise DatasetError(f"{path} is in UTF-16; save it as UTF-8.")
        with path.open("rb") as raw:
            content = gzip.GzipFile(fileobj=raw) if path.suffix == ".gz" else raw
            with io.TextIOWrapper(content, encoding="utf-8-sig", errors="surrogateescape", newline="") as text:
                yield text
    except (gzip.BadGzipFile, zlib.error, EOFError):
        raise DatasetError(f"{path} is not a whole gzip file; copy it again.") from None
    except OSError as error:
        raise DatasetError(f"Cannot read {path}: {error.strerror}.") from None


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """(1, 'first line'), ...; empty lines are left out."""
    with open_text(path) as file:
        for number, line in enumerate(bounded_lines(file, path), 1):
            if line.strip():
                yield number, line.rstrip("\r\n")


def bounded_lines(file: IO[str], path: Path) -> Iterator[str]:
    """The lines of a file, as long as they are lines: a small archive may unpack to one of gigabytes."""
    left = MOST_CHARACTERS
    while line := file.readline(LONGEST_LINE):
        left -= len(line)
        if left < 0 or (len(line) == LONGEST_LINE and not line.endswith("\n")):
            raise DatasetError(f"{path} is no manifest: it is too large, or has lines of millions of characters.")
        yield line
