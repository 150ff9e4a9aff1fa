"""Several equal devices -> cells measured at the same time: a lane for each device, with workers of its own.

All rounds of a cell, and the same cell of all variants, stay in one lane, so that neither an interval nor a ratio has
two devices in it. What is not measuring (loading, writing results, telling) is done by one lane at a time. With one
device there is one lane, and nothing runs beside anything.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor, wait
from contextlib import contextmanager

from profiler.errors import ModelError, UserError
from profiler.execution.schedule import Visit
from profiler.execution.workers import Workers
from profiler.plan import Cell
from profiler.results.types import CellResult, DeviceFacts
from profiler.units import bytes_text

Place = tuple[float, int]  # of a cell: seconds, batch size


class Lanes:
    """`known`: cells of an earlier part of the run, which stay where they were."""

    def __init__(self, workers: Sequence[Workers], cells: Sequence[Cell], known: Sequence[CellResult]) -> None:
        self.workers = list(workers)
        self.facts: dict[str, DeviceFacts | None] = {}
        self.stopped = False
        self._of = divide(cells, [each.device.name for each in workers], known)
        self._lock = threading.RLock()
        # A thread for the whole run: a worker ends with the thread that started it (prctl(2), PR_SET_PDEATHSIG).
        self._threads = [ThreadPoolExecutor(1) for _ in self.workers] if self.several else []

    @property
    def several(self) -> bool:
        return len(self.workers) > 1

    def of(self, cell: Cell) -> Workers:
        """The workers that measure it."""
        name = self._of[cell.seconds, cell.batch_size]
        return next(each for each in self.workers if each.device.name == name)

    def each(self, visits: Sequence[Visit], measure: Callable[[Visit], None]) -> None:
        """Make the visits, those of a lane one after another."""

        def lane(workers: Workers) -> None:
            for visit in visits:
                if self.of(visit[0]) is workers:
                    with self._lock:
                        self.check()
                        measure(visit)

        if not self.several:
            lane(self.workers[0])
            return
        running = [thread.submit(lane, each) for thread, each in zip(self._threads, self.workers, strict=True)]
        try:
            for future in running:
                future.result()
        except BaseException:
            self.close()
            wait(running)
            raise

    @contextmanager
    def measuring(self) -> Iterator[None]:
        """While a job runs, other lanes go on. Raises CancelledError where the run was ended meanwhile."""
        self._lock.release()
        try:
            yield
        finally:
            self._lock.acquire()
        self.check()

    def check(self) -> None:
        if self.stopped:
            raise CancelledError

    @property
    def pids(self) -> list[int]:
        return [pid for each in self.workers for pid in each.pids]

    def load_all(self, variant: str) -> None:
        """Have a model in each lane, one after another in its own thread. Raises ModelError where devices differ."""
        for thread, each in zip(self._threads, self.workers, strict=False):
            thread.submit(each.ready, variant).result()
        check_equal(self.facts)

    def begin_round(self) -> None:
        for each in self.workers:
            each.begin_round()

    def kill_now(self) -> None:
        for each in self.workers:
            each.kill_now()

    def close(self) -> None:
        """End all workers and what they started."""
        self.stopped = self.several
        for each in self.workers:
            each.close()
        for thread in self._threads:
            thread.shutdown(wait=False)


def divide(cells: Sequence[Cell], devices: Sequence[str], known: Sequence[CellResult] = ()) -> dict[Place, str]:
    """Seconds and batch size -> device: the longest first, each to the device that has the least audio so far."""
    places: dict[Place, str] = {}
    load = dict.fromkeys(devices, 0.0)
    for cell in known if len(devices) > 1 else ():
        if cell.device is not None and cell.device not in load:
            raise UserError(
                f"{cell.place} was measured on {cell.device} before, which is not among {', '.join(devices)}: "
                "resume with the devices of the first part."
            )
        if cell.device is not None:
            places[cell.seconds, cell.batch_size] = cell.device
    for seconds, batch in sorted({(cell.seconds, cell.batch_size) for cell in cells}, key=lambda at: -at[0] * at[1]):
        device = places.setdefault((seconds, batch), min(load, key=lambda name: load[name]))
        load[device] += seconds * batch
    return places


def check_equal(devices: Mapping[str, DeviceFacts | None]) -> None:
    """Raises ModelError: figures of unlike devices in one table would compare devices, not cells."""
    kinds = {name: (facts.name, facts.memory_bytes) if facts else None for name, facts in devices.items()}
    if len(set(kinds.values())) > 1:
        told = ", ".join(
            f"{name} is {kind[0]} with {bytes_text(kind[1] or 0)}" if kind else f"{name} is unknown"
            for name, kind in kinds.items()
        )
        raise ModelError(
            f"Cells are measured at the same time on equal devices only, and these differ: {told}. "
            "Make one run on each."
        )
