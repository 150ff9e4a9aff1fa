"""The log folder: which runs are in it, and the only way from a name that a browser sends to a file.

Runs are found by looking at folders alone, so that thousands are listed at once; what is in them is read when one is
opened. A trace that is not named like one is known by how it begins. No name leads out of the folder, through `..` or
through a link.
"""

from __future__ import annotations

import os
import stat
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from profiler.errors import UserError
from profiler.results.types import FILE
from profiler.tensorboard_plugin.kept import Stamp
from profiler.tensorboard_plugin.trace.events import looks_like_trace

DEEPEST = 5  # folders below the log folder; a cell's traces are at 4
MOST_FOLDERS = 50_000  # of a log folder that is something else, such as a home
FRESH_S = 2.0  # a listing is asked for by every reload of every open page
ANY_S = 20.0
TRACES = (".pt.trace.json", ".pt.trace.json.gz")
MOST_LOOKED_INTO = 1000  # files of other names for one listing; those that were looked into before do not count
MOST_KNOWN = 100_000


class NotFound(UserError):
    """There is no such thing in the log folder."""


@dataclass(frozen=True)
class Entry:
    """A run of ours, or a folder of traces that torch.profiler left on its own."""

    name: str  # below the log folder; `.` is that folder itself
    kind: Literal["run", "traces"]
    changed: float

    @property
    def began(self) -> float:
        """As the id says, which is the folder's name: a report that is made again changes files of old runs."""
        try:
            return datetime.strptime(self.name.rpartition("/")[2][:15], "%Y%m%d-%H%M%S").replace(tzinfo=UTC).timestamp()
        except ValueError:
            return self.changed


class LogFolder:
    """A folder of runs, for reading."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root).resolve()
        self._listed: tuple[float, list[Entry]] | None = None
        self._any: tuple[float, bool] | None = None
        self._known: dict[str, tuple[Stamp, bool]] = {}  # files of other names: whether they are traces
        self._may_look = MOST_LOOKED_INTO

    def runs(self) -> list[Entry]:
        """All runs, the one that began last first."""
        now = time.monotonic()
        if self._listed is None or now - self._listed[0] > FRESH_S:
            if not self.root.is_dir():
                raise NotFound(f"There is no log folder {self.root}. `python profile.py RECIPE` makes one.")
            found = sorted(self._find(), key=lambda entry: (-entry.began, entry.name))
            self._listed = (now, found)
        return self._listed[1]

    def has_runs(self) -> bool:
        """Asked for whenever a page of TensorBoard looks for new data, in folders of all kinds."""
        now = time.monotonic()
        if self._any is None or now - self._any[0] > ANY_S:
            self._any = (now, self.root.is_dir() and next(self._find(), None) is not None)
        return self._any[1]

    def run(self, name: str) -> Path:
        """The folder of a run."""
        folder = self.inside(name)
        if not folder.is_dir():
            raise NotFound(f"There is no run {name!r} in the log folder. It may have been moved or deleted.")
        return folder

    def file(self, folder: Path, *names: str) -> Path:
        """A file below a folder that `run` gave."""
        path = self.inside(str(folder.relative_to(self.root)), *names)
        if not path.is_file():  # a pipe or a device would be waited for
            raise NotFound(f"There is no file {'/'.join(names)!r} in {folder.name}.")
        return path

    def traces(self, folder: Path, *below: str) -> list[str]:
        """Names of the trace files in a folder, oldest first."""
        try:
            inner = self.inside(str(folder.relative_to(self.root)), *below)
            with os.scandir(inner) as entries:
                self._may_look = MOST_LOOKED_INTO
                return sorted(entry.name for entry in entries if self._is_trace(entry))
        except (NotFound, OSError):
            return []

    def inside(self, *names: str) -> Path:
        """The path with links resolved. Raises NotFound for what is not there or not in the log folder."""
        try:
            path = self.root.joinpath(*names).resolve(strict=True)
        except (OSError, ValueError, RuntimeError):  # missing, too long, a zero byte, links in a circle
            raise NotFound(f"There is no {'/'.join(names)!r} in the log folder.") from None
        if not path.is_relative_to(self.root):
            raise NotFound(f"{'/'.join(names)!r} is not in the log folder, so it is not shown.")
        return path

    def is_trace(self, path: Path) -> bool:
        """Of a file that `file` gave."""
        if path.name.endswith(TRACES):
            return True
        found = path.stat()
        now = found.st_mtime_ns, found.st_size, found.st_ino
        known = self._known.get(str(path))
        if known is not None and known[0] == now:
            return known[1]
        if self._may_look <= 0:
            return False
        self._may_look -= 1
        if len(self._known) >= MOST_KNOWN:
            self._known.clear()
        self._known[str(path)] = (now, looks_like_trace(path))
        return self._known[str(path)][1]

    def _is_trace(self, entry: os.DirEntry[str]) -> bool:
        try:
            regular = _can_be_asked_for(entry.name) and stat.S_ISREG(entry.stat().st_mode)
            return regular and self._is_inside(entry) and self.is_trace(Path(entry.path))
        except OSError:  # a link to nothing, or gone
            return False

    def _is_inside(self, entry: os.DirEntry[str]) -> bool:
        """Of a folder that is inside itself: only a link can lead out of it."""
        try:
            return not entry.is_symlink() or self.inside(entry.path).is_file()
        except NotFound:
            return False

    def _find(self) -> Iterator[Entry]:
        """Breadth first: what is in a run is the run's. Links to folders are not followed."""
        self._may_look = MOST_LOOKED_INTO
        waiting = deque([(self.root, 0)])
        looked = 0
        while waiting and looked < MOST_FOLDERS:
            folder, depth = waiting.popleft()
            looked += 1
            try:
                with os.scandir(folder) as entries:
                    inner = list(entries)
            except OSError:
                continue
            name = folder.relative_to(self.root).as_posix()
            results = next((entry for entry in inner if entry.name == FILE and entry.is_file()), None)
            if results is not None and self._is_inside(results):
                yield Entry(name, "run", results.stat().st_mtime)
                continue
            traces = [entry for entry in inner if self._is_trace(entry)]
            if traces:
                yield Entry(name, "traces", max(entry.stat().st_mtime for entry in traces))
            if depth < DEEPEST:
                folders = (entry for entry in inner if entry.is_dir(follow_symlinks=False))
                waiting += [(Path(entry.path), depth + 1) for entry in folders if _can_be_asked_for(entry.name)]


def _can_be_asked_for(name: str) -> bool:
    """Hidden folders are not runs, and a name that is no text cannot stand in an address."""
    return not name.startswith(".") and name.isprintable()
