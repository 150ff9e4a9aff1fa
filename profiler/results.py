"""The results of a run: their shape, and the one file that is the truth. Tables and charts are views of it.

`results.json` is replaced atomically after every cell: whatever kills the program, the file on disk is a complete
account of what was measured until then.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from profiler.errors import StorageError, UserError

SCHEMA = 1
FILE = "results.json"
SYNC_SECONDS = 1.0  # a power cut loses at most so much of a run


class Record(BaseModel):
    """Common to all parts: unknown keys of newer versions are kept, not refused."""

    model_config = ConfigDict(extra="allow")


class Run(Record):
    """One execution of a recipe."""

    id: str
    recipe: str
    recipe_sha256: str
    command: str
    started: str
    finished: str | None = None
    status: Literal["running", "complete", "interrupted"] = "running"
    profiler_version: str = ""
    resolved: dict[str, Any] = Field(default_factory=dict)
    loading_s: float = 0.0  # importing libraries and loading models, of all variants
    notes: list[str] = Field(default_factory=list)


class Model(Record):
    """The model of one variant."""

    variant: str
    source: str
    type: str
    weights: Literal["pretrained", "random"] | None = None
    output: str | None = None
    sample_rate: int | None = None
    parameters: dict[str, Any] = Field(default_factory=dict)
    size_bytes: dict[str, Any] = Field(default_factory=dict)
    notes: list[str] = Field(default_factory=list)


class Latency(Record):
    """Wall seconds of one call."""

    median: float
    mean: float
    std: float
    min: float
    ci95: tuple[float, float]
    n: int
    samples: list[float]
    rounds: list[int]  # how many of the samples each round gave, in order
    warmup: list[float]
    stopped_by: str
    percentiles: dict[str, float] = Field(default_factory=dict)


class PeakMemory(Record):
    """Bytes; a figure that cannot be measured here is null."""

    tensors: int | None = None
    process: int | None = None
    above_baseline: int | None = None
    device: int | None = None


class CellResult(Record):
    """One (variant, seconds, batch size)."""

    variant: str
    seconds: float
    batch_size: int
    status: Literal["ok", "skipped", "failed"]
    reason: str | None = None
    timed_region: str | None = None
    latency_s: Latency | None = None
    device_time_s: dict[str, Any] | None = None
    rtf: float | None = None
    rtfx: float | None = None
    verdict: Literal["stable", "noisy"] | None = None
    spread: float | None = None  # how far the truth may lie from the median, relative to it
    verdict_reasons: list[str] = Field(default_factory=list)
    peak_memory_bytes: PeakMemory | None = None
    input: dict[str, Any] = Field(default_factory=dict)
    conditions: list[dict[str, Any]] = Field(default_factory=list)  # of the machine, in each round
    trace: str | None = None
    trace_reason: str | None = None
    work_s: dict[str, float] = Field(default_factory=dict)  # how long each pass was at work

    @property
    def key(self) -> tuple[str, float, int]:
        return self.variant, self.seconds, self.batch_size

    @property
    def label(self) -> str:
        return f"{self.seconds:g}s_x{self.batch_size}"


class Results(Record):
    """The whole file."""

    results_schema: int = Field(SCHEMA, alias="schema")
    run: Run
    environment: dict[str, Any] = Field(default_factory=dict)
    models: list[Model] = Field(default_factory=list)
    cells: list[CellResult] = Field(default_factory=list)

    model_config = ConfigDict(extra="allow", populate_by_name=True)

    def cell(self, variant: str, seconds: float, batch_size: int) -> CellResult | None:
        return next((cell for cell in self.cells if cell.key == (variant, seconds, batch_size)), None)

    def model(self, variant: str) -> Model | None:
        return next((model for model in self.models if model.variant == variant), None)

    @property
    def variants(self) -> list[str]:
        return list(dict.fromkeys(cell.variant for cell in self.cells))

    @property
    def failed(self) -> list[CellResult]:
        return [cell for cell in self.cells if cell.status == "failed"]


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

    @property
    def path(self) -> Path:
        return self.folder / FILE

    def put(self, cell: CellResult) -> None:
        """Add or replace one cell, then write."""
        place = self._places.setdefault(cell.key, len(self._places))
        self.results.cells[place : place + 1] = [_without_samples(cell)]
        self._cells[cell.key] = _dump(cell)
        self._replace()

    def write(self) -> None:
        """Replace the file, the environment included: call this when it changed."""
        self._environment = _json(self.results.environment)
        self._replace()

    def _replace(self) -> None:
        head = self.results.model_dump(mode="json", by_alias=True, exclude={"cells", "environment"})
        text = _json(head)
        cells = ",\n  ".join(self._cells[cell.key] for cell in self.results.cells)
        start = text[: text.rindex("}")].rstrip()
        due = time.monotonic() - self._synced_at > SYNC_SECONDS
        text = f'{start},\n "environment": {self._environment},\n "cells": [\n  {cells}\n ]\n}}\n'
        write_atomically(self.path, text, to_disk=due)
        if due:
            self._synced_at = time.monotonic()


def _without_samples(cell: CellResult) -> CellResult:
    if cell.latency_s is None:
        return cell
    return cell.model_copy(update={"latency_s": cell.latency_s.model_copy(update={"samples": []})})


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False)


def _dump(cell: CellResult) -> str:
    return json.dumps(cell.model_dump(mode="json"), ensure_ascii=False, allow_nan=False)


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


def read_results(path: Path) -> Results:
    """Read a results.json, or the one in a run's folder."""
    file = path / FILE if path.is_dir() else path
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path} is not a run: there is no {FILE} in it.") from None
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError):
        raise UserError(f"{file} is damaged: it is not JSON. Was it edited or copied only in part?") from None
    except OSError as error:
        raise UserError(f"Cannot read {file}: {error.strerror}.") from None
    version = data.get("schema") if isinstance(data, dict) else None
    if not isinstance(version, int) or not 1 <= version <= SCHEMA:
        raise UserError(
            f"{file} has the schema {version!r}; this version reads 1 to {SCHEMA}. Update the profiler to open it."
        )
    try:
        return Results.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise UserError(f"{file} is damaged at {place}: {first['msg']}.") from None
