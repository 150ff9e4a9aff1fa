"""What a pass is: one kind of measuring on a cell. Everything about it is found from its one file.

    wanted(recipe) -> measure(work), in the process that is measured -> join over rounds -> put into the cell's result

`passes/__init__.py` lists them in the order in which they run; docs/add-a-pass.md adds one step by step.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from profiler.device import Device
from profiler.measure.afford import Allowance
from profiler.measure.latency import RoundSize, Timing
from profiler.results.metric import Metric

if TYPE_CHECKING:
    from profiler.measure.breakdown.labels import Chains, LabelledCall
    from profiler.measure.operations.count import Count
    from profiler.models.model import Model
    from profiler.recipe.schema import Recipe, Trace
    from profiler.results.types import CellResult
    from profiler.training.step import TrainingStep

R = TypeVar("R")  # what one round gives
S = TypeVar("S")  # what is known of all rounds


@dataclass(frozen=True)
class Work:
    """All that a pass may use, in the process that is measured."""

    model: Model
    step: TrainingStep | None  # with mode: training
    inputs: list[Any]  # prepared batches, all of the cell's size
    seconds_of_audio: float  # of the first of them, batch size x seconds
    device: Device
    size: RoundSize  # how many calls the timing pass makes
    seed: int
    trace: Trace  # the recipe's section
    folder: Path  # of the run
    place: str  # of the cell's files in it
    passes: tuple[str, ...]  # that are made of the cell in this process
    handoff: bool  # whether the timing pass takes the time from thread to thread
    # Of a process that takes turns with another one: tells how long the last call took (None: warmed up), then waits
    # for the next one; False: no more are wanted.
    wait: Callable[[float | None], bool] | None
    progress: Callable[[Timing], None]
    allowance: Allowance
    call_s: float | None = None  # how long a call takes: as it was predicted, then as it was timed
    taken: dict[str, Any] = field(default_factory=dict)  # pass -> what was measured in calls of an earlier one

    @property
    def long(self) -> bool:
        """Whether calls are so long that the fewest that give a figure have to do."""
        return self.allowance.long(self.call_s)

    @property
    def counted(self) -> bool:
        """Whether operations are counted too."""
        return "operations" in self.passes and self.allowance.left_out("operations", self.call_s) is None

    @property
    def run(self) -> Callable[[Any], Any]:
        """One call: of the model, or of the training step."""
        return self.step or self.model.run

    @property
    def run_by_operators(self) -> Callable[[Any], Any]:
        """The same call, each operator by itself: of a recorded graph none would be seen."""
        return self.step or (self.model.graph.run if self.model.graph else self.model.run)

    @cached_property
    def count(self) -> Count:
        """The operations of one call, counted once for all passes that want them."""
        from profiler.measure.breakdown import count_parts, find_parts
        from profiler.measure.operations.count import count_call

        parts, components = find_parts(self.model, self.trace.labels), self.model.components
        if parts is None:
            return count_call(self.run_by_operators, self.inputs[0], components, self.step)
        return count_parts(self.labelled(parts), components)

    def labelled(self, parts: Chains) -> LabelledCall:
        """One call, to be broken down by these parts."""
        from profiler.measure.breakdown.labels import LabelledCall

        return LabelledCall(self.run, self.inputs[0], self.device, parts, self.step)


@dataclass(frozen=True)
class Absent:
    """What a pass gives where it has no figure."""

    reason: str


class Pass(ABC, Generic[R, S]):
    """One kind of measuring. The figures of a pass that has no `field` go into the cell's `figures`, by its name: its
    result is then a plain dictionary of numbers."""

    name: ClassVar[str]
    result: ClassVar[Any] = dict[str, float]  # the type of what `measure` gives
    field: ClassVar[str | None] = None  # of the cell's result
    essential: ClassVar[bool] = False  # without it a cell has failed
    every_round: ClassVar[bool] = False  # else in the first round alone
    asked: ClassVar[bool] = False  # whether a key of the recipe is for it alone; long calls do not make it disappear
    metrics: ClassVar[tuple[Metric, ...]] = ()  # its figures: the columns of tables and of results.csv
    absent: ClassVar[str] = "not measured"  # what is said before the reason why there is no figure
    table: ClassVar[str] = ""  # the title of a table with one row per cell; none: other views show the figures

    def wanted(self, recipe: Recipe) -> bool:
        """Whether the recipe asks for it."""
        return True

    def calls(self, recipe: Recipe) -> int:
        """The fewest calls of the model that it makes in a round, to predict how long that takes."""
        return 1

    def fewest(self, recipe: Recipe) -> int:
        """The same where calls are long (`work.long`): no more than a figure takes."""
        return self.calls(recipe)

    @abstractmethod
    def measure(self, work: Work) -> R | Absent:
        """In the process that is measured. What it imports beyond the standard library, it imports here."""

    def join(self, earlier: S | None, new: R) -> S:
        """What is known after another round."""
        joined: Any = new
        return joined  # type: ignore[no-any-return]

    def put(self, cell: CellResult, found: S, width: float, stopped_by: str) -> None:
        """Into the cell's result. `width`: wanted of the 95 % CI; `stopped_by`: why there were no more rounds."""
        if self.field is not None:
            setattr(cell, self.field, found)
        elif isinstance(found, dict):
            cell.figures[self.name] = found

    def take_up(self, cell: CellResult) -> S | None:
        """What is known of a cell of an earlier, interrupted run: the reverse of `put`."""
        found: Any = getattr(cell, self.field) if self.field is not None else cell.figures.get(self.name)
        return found  # type: ignore[no-any-return]

    def put_reason(self, cell: CellResult, reason: str) -> None:
        """Why there is no figure."""
        if self.field is not None:
            setattr(cell, f"{self.name}_reason", reason)
        else:
            cell.figures_reasons[self.name] = reason

    def remarks(self, cells: Sequence[CellResult]) -> list[str]:
        """What is said below the table."""
        return []

    def reason_of(self, cell: CellResult) -> str | None:
        if self.field is not None:
            return getattr(cell, f"{self.name}_reason", None)
        return cell.figures_reasons.get(self.name)
