"""What is known of a cell so far, and the result made of it. Each round adds to what the passes gave before."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from profiler.execution.channel import PassDone, decode
from profiler.measure.passes import PASSES
from profiler.measure.passes.time import Rounds
from profiler.plan import Cell
from profiler.recipe.schema import Recipe
from profiler.results.statistics import Estimate
from profiler.results.types import CellInput, CellResult, Condition, PeakMemory

NO_ROUNDS = Rounds()


@dataclass
class CellState:
    """What the passes gave for one cell, or why they gave nothing."""

    cell: Cell
    found: dict[str, Any] = field(default_factory=dict)  # pass -> what all its rounds gave
    reasons: dict[str, str] = field(default_factory=dict)  # pass -> why it has no figure
    conditions: list[Condition] = field(default_factory=list)
    input: CellInput = field(default_factory=CellInput)
    failure: str | None = None
    skip: str | None = None
    work: dict[str, float] = field(default_factory=dict)

    @property
    def open(self) -> bool:
        """Whether there is anything left to measure of it."""
        return self.failure is None and self.skip is None

    @property
    def timed(self) -> Rounds:
        found: Rounds = self.found.get("time", NO_ROUNDS)
        return found

    @property
    def rounds(self) -> list[Any]:
        """The wall seconds of the calls of each round."""
        return self.timed.wall

    @property
    def estimate(self) -> Estimate | None:
        """The figure so far."""
        return self.timed.estimate if self.rounds else None

    @property
    def median(self) -> float | None:
        return self.estimate.value if self.estimate else None

    @property
    def memory(self) -> PeakMemory | None:
        found = self.found.get("memory")
        return found.whole if found else None

    def stable(self, width: float) -> bool:
        half = self.estimate.half_width if self.estimate else None
        return half is not None and half <= width

    def passes(self, recipe: Recipe) -> tuple[str, ...]:
        """Those that the next round takes: what is no timing is taken once."""
        return tuple(
            name
            for name, each in PASSES.items()
            if each.wanted(recipe)
            and (each.every_round or (name not in self.found and name not in self.reasons))
        )  # fmt: skip

    def add(self, done: dict[str, PassDone], condition: Condition) -> None:
        """What the passes of a job gave, and how the machine was meanwhile."""
        for name, event in done.items():
            self.work[name] = self.work.get(name, 0.0) + event.work_s
            if event.reason is not None:
                self.reasons[name] = event.reason
                continue
            self.found[name] = PASSES[name].join(self.found.get(name), event.result)
        if "time" in done:
            self.input.seconds_of_audio = done["time"].input.seconds_of_audio
            self.input.share_of_padding = done["time"].input.share_of_padding
            self.conditions.append(condition)

    def add_failure(self, during: str, reason: str, number: int) -> None:
        """A pass that failed: without an essential one a cell has failed, without the others it lacks them."""
        if during in PASSES and not PASSES[during].essential:
            self.reasons[during] = reason
            return
        place = f"in round {number + 1}: " if number else ""
        place += f"in the {during} pass: " if during in PASSES and during != "time" else ""
        self.failure = f"{place}{reason}"

    @classmethod
    def from_result(cls, cell: Cell, result: CellResult) -> CellState:
        """Take up a cell of an earlier, interrupted run. A failed cell starts anew."""
        state = cls(cell)
        if result.status != "ok" or result.latency_s is None:
            return state
        for name, each in PASSES.items():
            found, reason = each.take_up(result), each.reason_of(result)
            if found is not None:
                state.found[name] = found
            if reason is not None:
                state.reasons[name] = reason
        state.work, state.conditions = dict(result.work_s), list(result.conditions)
        state.input = result.input.model_copy()
        return state

    def result(self, width: float, timed_region: str, input_name: str, stopped_by: str = "") -> CellResult:
        cell = self.cell
        made = CellResult(variant=cell.variant, seconds=cell.seconds, batch_size=cell.batch_size, status="ok")
        if self.skip is not None:
            made.status, made.reason = "skipped", self.skip
            return made
        if self.failure is not None:
            made.status, made.reason = "failed", self.failure
        made.work_s = self.work
        if self.rounds:
            made.timed_region = timed_region
            made.input = self.input.model_copy(update={"audio": input_name})
            made.conditions = self.conditions
        for name, each in PASSES.items():
            if name in self.found:
                each.put(made, self.found[name], width, stopped_by)
            if name in self.reasons:
                each.put_reason(made, self.reasons[name])
        return made


def typed(event: PassDone) -> PassDone:
    """What came over the channel -> what the pass says that it gives. Raises ValueError where it is something else."""
    if event.name not in PASSES:
        raise ValueError(f"there is no pass {event.name}")
    if event.reason is None:
        event.result = msgspec.convert(event.result, PASSES[event.name].result, dec_hook=decode)
    return event
