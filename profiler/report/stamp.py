"""Whether files that were made from results are up to date, so that they need not be made again.

A stamp beside the files says what they were made from, and how each was left. They are made again after any change of
the results, of a file, or of the program.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from profiler import __version__
from profiler.results.store import write_atomically

PACKAGE = Path(__file__).parents[1]
SOURCES = ("*.py", "*/*.py", "*/*/*.py", "report/templates/*")


def digest(*parts: str) -> str:
    """Of what files are made from: these texts, and the program, whose sources change between versions too."""
    found = hashlib.sha256("\0".join([__version__, *parts]).encode(errors="surrogatepass"))
    for file in sorted(file for pattern in SOURCES for file in PACKAGE.glob(pattern)):
        found.update(f"{file.relative_to(PACKAGE)} {_left(file)}".encode())
    return found.hexdigest()


def is_up_to_date(stamp: Path, made_from: str) -> bool:
    """Whether the files are those that `write_stamp` saw."""
    try:
        noted = json.loads(stamp.read_text(encoding="utf-8"))
        return bool(noted["made_from"] == made_from) and all(
            _left(stamp.parent / name) == left for name, left in noted["files"].items()
        )
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return False


def write_stamp(stamp: Path, made_from: str, files: Iterable[Path]) -> None:
    left = {str(file.relative_to(stamp.parent)): _left(file) for file in files}
    write_atomically(stamp, json.dumps({"made_from": made_from, "files": left}), to_disk=False)


def _left(file: Path) -> list[int]:
    status = file.stat()
    return [status.st_size, status.st_mtime_ns]
