"""Temporary folders that a killed process does not leave behind for ever: whoever makes the next one removes them.

The owner holds a lock on its folder, which the system takes away when the process is gone, whatever ended it. Other
than a process number the lock also tells in containers that share a temporary folder.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path

PREFIX = "speech-profiler-held-"
YOUNG = 60.0  # seconds; its owner may not have locked it yet


class TemporaryFolder:
    """Made at once; there until `remove`, or the end of a `with`."""

    def __init__(self) -> None:
        _remove_abandoned()
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
        self._lock = _locked(self.path)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *error: object) -> None:
        self.remove()


def _locked(folder: Path) -> int | None:
    """A descriptor that holds the lock; None where somebody else has it, or there are no locks."""
    place = None
    try:
        place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        if place is not None:
            os.close(place)
        return None
    return place


def _remove_abandoned() -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            about = folder.lstat()
            if about.st_uid != os.getuid() or time.time() - about.st_mtime < YOUNG:
                continue
            lock = _locked(folder)
            if lock is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(lock)
