"""A zip file that `export` wrote -> a run's folder. The file may come from anybody, so nothing in it is trusted."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path, PurePosixPath
from typing import IO

from profiler.errors import UserError
from profiler.results.store import read_results
from profiler.results.types import FILE, JOURNAL
from profiler.results.untrusted import LARGEST, shortened
from profiler.units import GB, MB, bytes_text

MOST_BYTES = int(4 * GB)  # unpacked; the traces of a large run are well below
MOST_FILES = 20_000
# What compresses so well is no measurement: results shrink to a tenth, traces are packed already.
MOST_TIMES = 100
SMALL = int(50 * MB)  # a small file may shrink as it likes
PIECE = 1 << 20


def is_archive(path: Path) -> bool:
    """By its name, so that a damaged one is told as such."""
    return path.suffix.lower() == ".zip" and not path.is_dir()


def unpack(path: Path, target: Path, only: tuple[str, ...] = ()) -> None:
    """Put the run's files in the folder, or `only` these. Raises UserError on anything but an archive of one run."""
    try:
        with zipfile.ZipFile(path) as archive:
            entries = [entry for entry in archive.infolist() if not entry.is_dir()]
            root = _root(path, entries)
            for entry in entries:
                if only and PurePosixPath(entry.filename).name not in only:
                    continue
                name = PurePosixPath(entry.filename).relative_to(root)
                place = target.joinpath(*name.parts)
                place.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(entry) as source, place.open("wb") as copy:
                    _copy(source, copy, entry.file_size)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise UserError(f"{path} is damaged, or not a zip file: {error}. Was it copied only in part?") from None
    except OSError as error:
        raise UserError(f"Cannot unpack {path}: {error.strerror or error}.") from None


def _copy(source: IO[bytes], target: IO[bytes], size: int) -> None:
    """No more than the archive says, which was checked; zipfile stops there too."""
    while size >= 0 and (piece := source.read(PIECE)):
        size -= len(piece)
        target.write(piece)
    if size < 0:
        raise zipfile.BadZipFile("an entry is larger than it says")


def check_place(run: str, folder: Path) -> None:
    """Raise UserError unless the folder is new, empty, or has the same run: what somebody else wrote stays."""
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file; choose a folder with --output.")
    if not folder.is_dir() or not any(folder.iterdir()):
        return
    try:
        same = read_results(folder).run.id == run
    except UserError:
        same = False
    if not same:
        raise UserError(f"{folder} is there already and is not this run; choose another folder with --output.")


def _root(path: Path, entries: list[zipfile.ZipInfo]) -> PurePosixPath:
    """The folder in the archive that holds the results; checks all names and sizes on the way."""
    for entry in entries:
        name = PurePosixPath(entry.filename)
        if not name.parts or name.is_absolute() or ".." in name.parts or "\\" in entry.filename or ":" in name.parts[0]:
            raise UserError(
                f"{path} is refused: its entry {shortened(repr(entry.filename))} would be written outside its folder."
            )
    size = sum(entry.file_size for entry in entries)
    if size > MOST_BYTES or len(entries) > MOST_FILES:
        raise UserError(
            f"{path} is refused: unpacked it has {len(entries):,} files and {bytes_text(size)}, more than any run."
        )
    for entry in entries:
        if entry.file_size > max(SMALL, MOST_TIMES * entry.compress_size) or (
            PurePosixPath(entry.filename).name in (FILE, JOURNAL) and entry.file_size > LARGEST
        ):
            raise UserError(
                f"{path} is refused: {shortened(entry.filename)} unpacks to {bytes_text(entry.file_size)}, which no "
                "run writes."
            )
    found = [PurePosixPath(entry.filename).parent for entry in entries if PurePosixPath(entry.filename).name == FILE]
    if len(found) != 1:
        raise UserError(
            f"{path} is not an exported run: it holds {len(found)} files {FILE}. "
            "`python profile.py export RUN FILE.zip` makes one."
        )
    outside = [entry.filename for entry in entries if not PurePosixPath(entry.filename).is_relative_to(found[0])]
    if outside:
        raise UserError(f"{path} is not an exported run: {outside[0]} lies outside of the run's folder.")
    return found[0]
