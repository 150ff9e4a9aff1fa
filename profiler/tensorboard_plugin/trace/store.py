"""Traces that were read before: a few in memory, large ones also on disk in the user's cache folder.

The second opening of a large trace takes a fraction of a second. The log folder itself is never written to.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import threading
from pathlib import Path

from platformdirs import user_cache_path

from profiler.temporary import TemporaryFolder
from profiler.tensorboard_plugin.kept import Kept, Stamp, stamp
from profiler.tensorboard_plugin.trace.apart import Wanted, load, read_apart, save
from profiler.tensorboard_plugin.trace.columns import Columns, collect
from profiler.tensorboard_plugin.trace.events import TooLarge, TraceError, read_events

FORMAT = 3  # of the files on disk; another number makes older ones unknown
IN_MEMORY = 500_000_000  # bytes of columns
ON_DISK = 2_000_000_000  # bytes; the longest unused ones go first
WORTH_KEEPING = 100_000  # spans; fewer are read again as fast
SMALL = 30_000_000  # bytes unpacked: read here, in less time than a process takes to start and a little more
SMALL_FILE = 3_000_000  # bytes as they lie on disk, packed or not: larger ones are not tried here
AT_ONCE = 2  # processes that read


class TraceStore:
    """File -> columns."""

    def __init__(self, cache: Path | None = None) -> None:
        self._folder = cache if cache is not None else user_cache_path("speech-profiler") / "traces"
        self._kept: Kept[Columns] = Kept(self._read, IN_MEMORY, lambda columns: columns.bytes)
        self._refused: dict[Path, tuple[Stamp, str]] = {}  # large ones that took long to be found no traces
        self._slots = threading.BoundedSemaphore(AT_ONCE)

    def get(self, path: Path, wanted: Wanted = lambda: True) -> Columns:
        """Raises TraceError for what is not a trace. `wanted` says whether somebody still waits."""
        return self._kept.get(path, wanted)

    def _read(self, path: Path, wanted: Wanted) -> Columns:
        now = stamp(path)
        key = json.dumps([FORMAT, str(path), *now])
        file = self._folder / f"{hashlib.sha256(str(path).encode(errors='surrogateescape')).hexdigest()[:32]}.npz"
        known = load(file, key)
        if known is not None:
            return known
        if path.stat().st_size <= SMALL_FILE:
            with contextlib.suppress(TooLarge):
                columns = collect(read_events(path, SMALL), path.name)
                if len(columns.start) >= WORTH_KEEPING:
                    with contextlib.suppress(OSError), tempfile.TemporaryDirectory() as folder:
                        save(Path(folder) / file.name, key, columns)
                        self._keep(Path(folder) / file.name, file)
                return columns
        refused = self._refused.get(path)
        if refused is not None and refused[0] == now:
            raise TraceError(refused[1])
        try:
            return self._read_apart(path, file, key, wanted)
        except TraceError as error:
            self._refused[path] = (now, str(error))
            raise

    def _read_apart(self, path: Path, file: Path, key: str, wanted: Wanted) -> Columns:
        with self._slots, TemporaryFolder() as folder:
            made = folder / file.name
            read_apart(path, made, key, wanted)
            columns = load(made, key)
            if columns is None:
                raise TraceError(f"{path.name} was read, but there is no room for what it holds in {folder}.")
            if len(columns.start) >= WORTH_KEEPING:
                self._keep(made, file)
        return columns

    def _keep(self, made: Path, file: Path) -> None:
        part = file.with_name(f"{file.stem}.{os.getpid()}.part")
        with contextlib.suppress(OSError):  # no cache is no harm: the trace is read again next time
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            shutil.move(made, part)
            part.replace(file)
            self._make_room()
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)

    def _make_room(self) -> None:
        files = sorted(self._folder.glob("*.npz"), key=lambda file: file.stat().st_mtime, reverse=True)
        size = 0
        for file in files:
            size += file.stat().st_size
            if size > ON_DISK:
                file.unlink(missing_ok=True)
