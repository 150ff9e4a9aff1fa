"""A zip file that `export` wrote -> a run's folder. The file may come from anybody, so nothing in it is trusted."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path, PurePosixPath

from profiler.errors import UserError
from profiler.results.store import read_results
from profiler.results.types import FILE
from profiler.units import GB, bytes_text

MOST_BYTES = int(4 * GB)  # unpacked; the traces of a large run are well below
MOST_FILES = 20_000


def is_archive(path: Path) -> bool:
    """By its name, so that a damaged one is told as such."""
    return path.suffix.lower() == ".zip" and not path.is_dir()


def unpack(path: Path, target: Path) -> None:
    """Put the run's files in the folder. Raises UserError on anything but an archive of one run."""
    try:
        with zipfile.ZipFile(path) as archive:
            entries = [entry for entry in archive.infolist() if not entry.is_dir()]
            root = _root(path, entries)
            for entry in entries:
                name = PurePosixPath(entry.filename).relative_to(root)
                place = target.joinpath(*name.parts)
                place.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(entry) as source, place.open("wb") as copy:
                    shutil.copyfileobj(source, copy)
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:
        raise UserError(f"{path} is damaged, or not a zip file: {error}. Was it copied only in part?") from None
    except OSError as error:
        raise UserError(f"Cannot unpack {path}: {error.strerror or error}.") from None


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
        if name.is_absolute() or ".." in name.parts or "\\" in entry.filename or ":" in name.parts[0]:
            raise UserError(f"{path} is refused: its entry {entry.filename!r} would be written outside its folder.")
    size = sum(entry.file_size for entry in entries)
    if size > MOST_BYTES or len(entries) > MOST_FILES:
        raise UserError(
            f"{path} is refused: unpacked it has {len(entries):,} files and {bytes_text(size)}, more than any run."
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
