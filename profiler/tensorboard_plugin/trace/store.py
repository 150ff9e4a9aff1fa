"""Traces that were read before: a few in memory, large ones also on disk in the user's cache folder.

The second opening of a large trace takes a fraction of a second. The log folder itself is never written to.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from pathlib import Path

import numpy as np
from platformdirs import user_cache_path

from profiler.tensorboard_plugin.kept import Kept, stamp
from profiler.tensorboard_plugin.trace.columns import Columns, collect
from profiler.tensorboard_plugin.trace.events import read_events

FORMAT = 1  # of the files on disk; another number makes older ones unknown
IN_MEMORY = 500_000_000  # bytes of columns
ON_DISK = 2_000_000_000  # bytes; the longest unused ones go first
WORTH_KEEPING = 100_000  # spans; fewer are read again as fast
ARRAYS = ("start", "duration", "own", "name", "category", "detail", "rows", "row_track", "row_depth")
LISTS = ("names", "categories", "details", "tracks")


class TraceStore:
    """File -> columns."""

    def __init__(self, cache: Path | None = None) -> None:
        self._folder = cache if cache is not None else user_cache_path("speech-profiler") / "traces"
        self._kept: Kept[Columns] = Kept(self._read, IN_MEMORY, lambda columns: columns.bytes)

    def get(self, path: Path) -> Columns:
        """Raises TraceError for what is not a trace."""
        return self._kept.get(path)

    def _read(self, path: Path) -> Columns:
        key = json.dumps([FORMAT, str(path), *stamp(path)])
        file = self._folder / f"{hashlib.sha256(str(path).encode(errors='surrogateescape')).hexdigest()[:32]}.npz"
        known = _load(file, key)
        if known is not None:
            return known
        columns = collect(read_events(path), path.name)
        if len(columns.start) >= WORTH_KEEPING:
            self._save(file, key, columns)
        return columns

    def _save(self, file: Path, key: str, columns: Columns) -> None:
        texts = {name: getattr(columns, name) for name in LISTS} | {"key": key, "devices": list(columns.memory)}
        arrays = {name: getattr(columns, name) for name in ARRAYS}
        for number, (times, held) in enumerate(columns.memory.values()):
            arrays |= {f"times{number}": times, f"held{number}": held}
        part = file.with_name(f"{file.stem}.{os.getpid()}.part")
        with contextlib.suppress(OSError):  # no cache is no harm: the trace is read again next time
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            with part.open("wb") as target:
                np.savez(target, texts=np.frombuffer(json.dumps(texts).encode(), np.uint8), **arrays)
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


def _load(file: Path, key: str) -> Columns | None:
    try:
        with np.load(file, allow_pickle=False) as found:
            texts = json.loads(found["texts"].tobytes())
            if texts["key"] != key:
                return None
            memory = {
                device: (found[f"times{number}"], found[f"held{number}"])
                for number, device in enumerate(texts["devices"])
            }
            columns = Columns(
                **{name: found[name] for name in ARRAYS}, **{name: texts[name] for name in LISTS}, memory=memory
            )
        os.utime(file)  # used again, so it goes last
        return columns
    except Exception:  # missing, or damaged in whatever way: the trace itself is read
        return None
