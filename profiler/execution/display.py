"""What a run tells while it goes on. report/progress.py shows it; here nothing is shown, as with --quiet."""

from __future__ import annotations

from profiler.execution.channel import Event
from profiler.plan import Cell
from profiler.results.types import Accuracy, CellResult, DatasetResult, ModelResult, ServingResult, ServingStep


class Display:
    """Shows nothing: the base for the others, and what --quiet uses."""

    def begin(self, steps: int) -> None:
        """The number of steps (cells x rounds) is known."""

    def loading(self, source: str) -> None:
        """A model is being loaded; until something else is told."""

    def model(self, model: ModelResult) -> None:
        """A model was loaded."""

    def status(self, text: str) -> None:
        """Something other than timing is going on."""

    def note(self, text: str) -> None:
        """Something to know about the run."""

    def cell(self, cell: Cell, number: int, left: float | None) -> None:
        """A cell starts in round `number`."""

    def event(self, event: Event) -> None:
        """A worker reports that it begins a pass, or how far it is."""

    def cell_done(self, result: CellResult, number: int, left: float | None = None, to_come: int | None = None) -> None:
        """A cell has been measured, skipped, or failed; seconds left, and how many steps are still planned."""

    def variant_failed(self, variant: str, cells: int, reason: str) -> None:
        """A model cannot be loaded or has died: none of its cells will have more figures."""

    def round_done(self, number: int, wanted: int, progress: str) -> None:
        """All cells of a round have been visited."""

    def dataset_done(self, result: DatasetResult, number: int, accuracy: Accuracy | None = None) -> None:
        """The batches of a data set have been measured, in one round."""

    def serving_step(self, result: ServingResult, step: ServingStep) -> None:
        """One load was measured."""

    def serving_done(self, result: ServingResult) -> None:
        """A variant has had all its loads."""

    def close(self) -> None:
        """The run is over."""
