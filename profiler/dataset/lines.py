"""Lines of a text file, plain or gzipped, with their numbers. What is not UTF-8 is kept, so that checks can name it."""

from __future__ import annotations

import contextlib
import gzip
import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from profiler.dataset.items import DatasetError

LONGEST_LINE = 20_000_000  # characters; an utterance takes some hundred
MOST_CHARACTERS = 4_000_000_000
UTF16 = (b"\xff\xfe", b"\xfe\xff")


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
