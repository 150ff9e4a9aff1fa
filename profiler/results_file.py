"""Writing results: results.json, the one file that is the truth, and any other file, whole or not at all.

`results.json` is replaced atomically after every cell: whatever kills the program, the file on disk is a complete
account of what was measured until then.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from profiler.errors import StorageError
from profiler.results import FILE, Accuracy, CellResult, DatasetResult, Record, Results

SYNC_SECONDS = 1.0  # a power cut loses at most so much of a run


class ResultsFile:
    """Keeps results.json up to date. What did not change is not serialised again.

    Raw samples are kept in the file alone: `results` has its cells without them, so that a long run does not grow.
    """

    def __init__(self, folder: Path, results: Results) -> None:
        self.folder = folder
        self.results = results
        self._environment = _json(results.environment)
        self._synced_at = -SYNC_SECONDS
        self._places = {cell.key: place for place, cell in enumerate(results.cells)}
        self._cells: dict[tuple[str, float, int], str] = {cell.key: _dump(cell) for cell in results.cells}
        self._datasets: dict[str, str] = {found.variant: _dump(found) for found in results.datasets}

    @property
    def path(self) -> Path:
        return self.folder / FILE

    def put(self, cell: CellResult) -> None:
        """Add or replace one cell, then write."""
        self.put_all([cell])

    def put_all(self, cells: Iterable[CellResult]) -> None:
        """Add or replace cells, then write once."""
        for cell in cells:
            place = self._places.setdefault(cell.key, len(self._places))
            self.results.cells[place : place + 1] = [_without_samples(cell)]
            self._cells[cell.key] = _dump(cell)
        self._replace()

    def put_dataset(self, result: DatasetResult, accuracy: Accuracy | None = None) -> None:
        """Add or replace what a variant has of the data set, then write."""
        if accuracy is not None:
            others = [found for found in self.results.accuracy if found.variant != accuracy.variant]
            order = [*(found.variant for found in self.results.accuracy), accuracy.variant]
            self.results.accuracy = sorted([*others, accuracy], key=lambda found: order.index(found.variant))
        known = [found.variant for found in self.results.datasets]
        place = known.index(result.variant) if result.variant in known else len(known)
        self.results.datasets[place : place + 1] = [result.model_copy(update={"samples": []})]
        self._datasets[result.variant] = _dump(result)
        self._replace()

    def write(self) -> None:
        """Replace the file, the environment included: call this when it changed."""
        self._environment = _json(self.results.environment)
        self._replace()

    def _replace(self) -> None:
        head = self.results.model_dump(mode="json", by_alias=True, exclude={"cells", "datasets", "environment"})
        text = _json(head)
        cells = ",\n  ".join(self._cells[cell.key] for cell in self.results.cells)
        datasets = ",\n  ".join(self._datasets[found.variant] for found in self.results.datasets)
        start = text[: text.rindex("}")].rstrip()
        due = time.monotonic() - self._synced_at > SYNC_SECONDS
        text = f'{start},\n "environment": {self._environment},\n "cells": [\n  {cells}\n ]'
        text += f',\n "datasets": [\n  {datasets}\n ]\n}}\n'
        write_atomically(self.path, text, to_disk=due)
        if due:
            self._synced_at = time.monotonic()


def _without_samples(cell: CellResult) -> CellResult:
    parts = {"latency_s": cell.latency_s, "chunks": cell.chunks}
    update = {name: part.model_copy(update={"samples": []}) for name, part in parts.items() if part is not None}
    return cell.model_copy(update=update) if update else cell


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False)


def _dump(record: Record) -> str:
    return json.dumps(record.model_dump(mode="json"), ensure_ascii=False, allow_nan=False)


def write_atomically(path: Path, text: str, to_disk: bool = True) -> None:
    """Write beside the target, then rename: readers see the old file or the new one, never half of it.

    `to_disk=False` leaves it to the system when the bytes reach the disk: safe against anything but a power cut.
    """
    part = path.with_name(f".{path.name}.part")
    try:
        with part.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            if to_disk:
                os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink()
        raise StorageError(
            f"Cannot write {path}: {error.strerror}. What was written before is intact; make room or restore the "
            "folder, then go on with --resume."
        ) from error
