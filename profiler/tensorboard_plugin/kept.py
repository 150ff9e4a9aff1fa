"""What was read of a file is kept until the file is another: written again, grown, or gone."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, TypeVar

T = TypeVar("T")
Stamp = tuple[int, int, int]


def stamp(path: Path) -> Stamp:
    """Differs as soon as a file was replaced or written to."""
    found = path.stat()
    return found.st_mtime_ns, found.st_size, found.st_ino


class Kept(Generic[T]):
    """The last few of something that is made from a file. Two who ask for the same at once wait for one making."""

    def __init__(self, make: Callable[..., T], most: int, size: Callable[[T], int] = lambda _: 1) -> None:
        self._make, self._most, self._size = make, most, size
        self._held: OrderedDict[Path, tuple[Stamp, T]] = OrderedDict()
        self._lock = threading.Lock()
        self._making: dict[Path, threading.Lock] = {}  # one that takes long keeps nobody from another file

    def get(self, path: Path, *more: Any) -> T:
        with self._lock:
            making = self._making.setdefault(path, threading.Lock())
        with making:
            now = stamp(path)
            known = self._held.get(path)
            value = known[1] if known is not None and known[0] == now else self._make(path, *more)
            with self._lock:
                self._held[path] = (now, value)
                self._held.move_to_end(path)
                while len(self._held) > 1 and sum(self._size(one) for _, one in self._held.values()) > self._most:
                    self._held.popitem(last=False)
            return value
