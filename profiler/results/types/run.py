"""A run, and the whole of results.json: `Results` joins the parts that the other modules describe, and finds in them.

`RunHead` is the file without what grows with cells and data sets.
"""

from __future__ import annotations

from math import inf
from typing import Any, Literal

from pydantic import ConfigDict, Field, field_validator

from profiler.results.types.cells import CellResult
from profiler.results.types.datasets import Accuracy, DatasetResult
from profiler.results.types.machine import Environment
from profiler.results.types.models import ModelResult
from profiler.results.types.record import Record
from profiler.results.types.serving import ServingResult
from profiler.results.untrusted import MOST_CELLS, FileName

SCHEMA = 2  # 2: the figure of a cell is the median of its rounds' medians, its interval is taken over rounds
FILE = "results.json"
JOURNAL = "results.journal"  # cells that are finished and not yet in results.json, one per line
MOST_PLANNED = 200  # rows or columns of a grid that tables leave room for
SPOKEN = ("speech", "mel spectrogram")  # outputs of models that speak, whose input is text


class Run(Record):
    """One execution of a recipe."""

    id: FileName
    recipe: str
    recipe_sha256: str
    command: str
    started: str
    finished: str | None = None
    status: Literal["running", "complete", "finished with failures", "interrupted"] = "running"
    profiler_version: str = ""
    resolved: dict[str, Any] = Field(default_factory=dict)
    loading_s: float = 0.0  # importing libraries and loading models, of all variants
    stopped_by: Literal["width", "budget", "rounds", "decided"] | None = None  # why no more rounds were made
    rounds: int = 0  # made
    sides: Sides | None = None  # of an A/B run
    notes: list[str] = Field(default_factory=list)

    @field_validator("resolved")
    @classmethod
    def _check_settings(cls, resolved: dict[str, Any]) -> dict[str, Any]:
        """The recipe is the user's own, but reports write some of its settings out."""
        measure = resolved.get("measure", {})
        numbers = ("rounds", "warmup", "min_calls", "width", "budget")
        if not isinstance(measure, dict) or not all(isinstance(measure.get(name, 0), int | float) for name in numbers):
            raise ValueError("its section `measure` is not one of a recipe")
        return resolved

    @property
    def is_finished(self) -> bool:
        """Every cell was measured, skipped or tried."""
        return self.status in ("complete", "finished with failures")

    def planned(self, key: Literal["audio_mockup_secs", "batch_sizes"]) -> list[float]:
        """The rows or columns of the grid that the recipe asked for: a run that was cut short has not all of them."""
        grid = self.resolved.get("profiling_dimensions")
        values = grid.get(key) if isinstance(grid, dict) else None
        numbers = [value for value in values if isinstance(value, int | float)] if isinstance(values, list) else []
        return [float(value) for value in numbers if 0 < value < inf][:MOST_PLANNED]


class Sides(Record):
    """What an A/B run compares: variants that took turns."""

    about: dict[str, str]  # A and B, as they were given
    pairs: list[tuple[FileName, FileName]]  # variants of A and of B
    threshold: float = Field(ge=0)  # smaller changes are of no interest


class RunHead(Record):
    """A run without its cells and data sets, which grow with it: what is held in memory while it goes on."""

    results_schema: int = Field(SCHEMA, alias="schema")
    run: Run
    environment: Environment = Field(default_factory=Environment)
    models: list[ModelResult] = Field(default_factory=list)
    accuracy: list[Accuracy] = Field(default_factory=list)

    model_config = ConfigDict(populate_by_name=True)

    def model(self, variant: str) -> ModelResult | None:
        return next((model for model in self.models if model.variant == variant), None)

    @property
    def hardware(self) -> str | None:
        """What the models ran on: the device where torch named one, else the processor."""
        here = self.environment
        used = [model.device.name for model in self.models if model.device is not None]
        gpus = [gpu.name for gpu in here.gpu] if (here.device or "cpu").startswith("cuda") else []
        return next((name for name in [*used, *gpus] if name), here.cpu)

    def rate(self, variant: str) -> int:
        """Samples per second that the variant's model takes."""
        model = self.model(variant)
        return (model.sample_rate if model else None) or 16000

    def timed_region(self, variant: str) -> str:
        model = self.model(variant)
        output = model.output if model else "the model's final output"
        given = "text" if output in SPOKEN else "waveforms"
        if model is not None and model.copy_to_device == "excluded":
            return f"{given} on the device to {output}, the copy to the device excluded"
        copied = ", the copy to the device included" if model is not None and model.copy_to_device else ""
        return f"{given} in memory to {output}{copied}"

    def threads(self, variant: str) -> int | None:
        """CPU threads of a variant."""
        settings = self.environment.settings.get(variant)
        return settings.threads if settings else self.environment.threads


class Results(RunHead):
    """The whole file."""

    cells: list[CellResult] = Field(default_factory=list, max_length=MOST_CELLS)
    datasets: list[DatasetResult] = Field(default_factory=list)
    serving: list[ServingResult] = Field(default_factory=list)

    def cell(self, variant: str, seconds: float, batch_size: int) -> CellResult | None:
        return next((cell for cell in self.cells if cell.key == (variant, seconds, batch_size)), None)

    @property
    def variants(self) -> list[str]:
        return list(dict.fromkeys([*(cell.variant for cell in self.cells), *(one.variant for one in self.serving)]))

    def under_load(self, variant: str) -> ServingResult:
        return next(result for result in self.serving if result.variant == variant)

    @property
    def places(self) -> list[tuple[float, int]]:
        """(seconds, batch size) of all cells, and of those that the recipe asked for and the run has not measured."""
        found = {(cell.seconds, cell.batch_size) for cell in self.cells}
        if not self.run.is_finished:
            rows, columns = self.run.planned("audio_mockup_secs"), self.run.planned("batch_sizes")
            found |= {(seconds, int(batch)) for seconds in rows for batch in columns}
        return sorted(found)

    def baseline(self, variant: str) -> str:
        """What a variant is compared with: the one that it names, else the first."""
        model = self.model(variant)
        named = model.baseline if model else None
        return named if named in self.variants else next(iter(self.variants), variant)

    @property
    def failed(self) -> list[CellResult]:
        return [cell for cell in self.cells if cell.status == "failed"]

    @property
    def has_failures(self) -> bool:
        """A cell, a batch of a data set, or all of one."""
        data = any(found.failed or found.status == "failed" for found in self.datasets)
        return bool(self.failed) or data or any(found.status == "failed" for found in self.serving)
