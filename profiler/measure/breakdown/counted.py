"""Multiply-accumulates of each part: those that are computed while it is at work, as its time is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from profiler.measure.autograd import Done
from profiler.measure.breakdown.backward import Parts, watching_step
from profiler.measure.breakdown.labels import Chains
from profiler.measure.breakdown.watch import OUTSIDE, Kind
from profiler.measure.operations.counter import OperationCounter
from profiler.measure.operations.owners import Owners

if TYPE_CHECKING:
    from profiler.training.step import TrainingStep


@dataclass
class Counted:
    """MACs of one call, or of its backward phase."""

    macs: int = 0
    total: dict[int, int] = field(default_factory=dict)  # by part
    own: dict[int, int] = field(default_factory=dict)
    labelled: int = 0
    by_operator: dict[str, int] = field(default_factory=dict)
    backward: Counted | None = None

    def add(self, parts: list[int], macs: int, chains: Chains) -> None:
        for part in parts:
            self.total[part] = self.total.get(part, 0) + macs
        for innermost in chains.innermost(parts):
            self.own[innermost] = self.own.get(innermost, 0) + macs
        self.labelled += macs if any(chains.is_label(part) for part in parts) else 0


class _AtWork(Owners):
    """Tells the counter where a multiplication is computed, whosever the weights: in which phase and which parts."""

    def __init__(self, chains: Chains) -> None:
        super().__init__({})
        self.chains = chains
        self.stack: list[int] = []
        self.backward: tuple[int, ...] | None = None

    def of(self, tensors: list[Any]) -> Any:
        if self.backward is not None:
            return "backward", self.backward
        return "forward", tuple(self.chains.at_work(tuple(place for place in self.stack if place != OUTSIDE)))


def count_parts(run: Callable[[Any], Any], value: Any, chains: Chains, step: TrainingStep | None = None) -> Counted:
    at_work = _AtWork(chains)

    def enter(place: int, kind: Kind) -> None:
        at_work.stack.append(place)

    def leave() -> None:
        at_work.stack.pop()

    def backward(parts: Parts) -> Done:
        at_work.backward = tuple(parts)

        def done() -> None:
            at_work.backward = None

        return done

    counter = OperationCounter(at_work)
    with watching_step(chains, enter, leave, step, backward), counter:
        run(value)
    counted = Counted(sum(counter.by_operator.values()), by_operator=dict(counter.by_operator))
    counted.backward = Counted() if step is not None else None
    owners: dict[Any, int] = dict(counter.by_component)
    for (phase, parts), macs in owners.items():
        if phase == "backward" and counted.backward is not None:
            counted.backward.macs += macs
            counted.backward.add(list(parts), macs, chains)
        else:
            counted.add(list(parts), macs, chains)
    return counted
