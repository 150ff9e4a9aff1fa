"""How long a loop waits for its data: the time that its thread spends in `__next__` of a torch DataLoader.

Every loop that feeds a model from a DataLoader is seen so, whoever wrote it: SpeechBrain, transformers, Lightning,
oneself. What is no DataLoader is wrapped where it is iterated (`waited_for`). Nothing is left patched when nobody
measures.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

_clocks: list[WaitClock] = []
_lock = threading.Lock()
_inside = threading.local()  # a loader that reads from another one counts once


class WaitClock:
    """Seconds that one thread waited for data, since they were last taken."""

    def __init__(self) -> None:
        self.thread: int | None = None
        self.seconds = 0.0

    def take(self) -> float:
        found, self.seconds = self.seconds, 0.0
        return found

    def start(self) -> None:
        from torch.utils.data.dataloader import _BaseDataLoaderIter as Loading

        with _lock:
            self.thread, self.seconds = threading.get_ident(), 0.0
            if self not in _clocks:
                _clocks.append(self)
            if not hasattr(Loading.__next__, "_unwatched"):
                Loading.__next__ = _watched(Loading.__next__)

    def stop(self) -> None:
        from torch.utils.data.dataloader import _BaseDataLoaderIter as Loading

        with _lock:
            if self in _clocks:
                _clocks.remove(self)
            if not _clocks and hasattr(Loading.__next__, "_unwatched"):
                Loading.__next__ = Loading.__next__._unwatched


@contextmanager
def _waiting() -> Iterator[None]:
    if getattr(_inside, "loader", False):
        yield
        return
    _inside.loader, start = True, time.perf_counter()
    try:
        yield
    finally:
        took, _inside.loader = time.perf_counter() - start, False
        for clock in tuple(_clocks):
            if clock.thread == threading.get_ident():
                clock.seconds += took


def _watched(following: Any) -> Any:
    def __next__(loading: Any) -> Any:
        with _waiting():
            return following(loading)

    __next__._unwatched = following  # type: ignore[attr-defined]
    return __next__


def waited_for(batches: Iterable[Any]) -> Iterator[Any]:
    """The same batches; the time until each one is there counts as waiting for data."""
    source = iter(batches)
    while True:
        with _waiting():
            try:
                batch = next(source)
            except StopIteration:
                return
        yield batch
