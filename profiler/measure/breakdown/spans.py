"""Labels as spans in a trace: what a viewer shows above the operators."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from profiler.measure.autograd import Done
from profiler.measure.breakdown.backward import Parts, watching_step
from profiler.measure.breakdown.labels import Chains
from profiler.measure.breakdown.watch import OUTSIDE, Kind

if TYPE_CHECKING:
    from profiler.training.step import TrainingStep


@contextmanager
def spans_of_labels(chains: Chains, step: TrainingStep | None = None) -> Iterator[None]:
    """While this lasts, each outermost call of a label is a span of its name; in training, so is its backward phase."""
    import threading

    from torch.profiler import record_function

    names = chains.labels.names
    labels_of = [[part for part in parts if chains.is_label(part)] for parts in chains.of]
    local = threading.local()

    def enter(place: int, kind: Kind) -> None:
        if not hasattr(local, "frames"):
            local.frames, local.active = [], set()
        opened: list[tuple[int, Any]] = []
        for part in labels_of[place] if place != OUTSIDE else ():
            if part not in local.active:
                local.active.add(part)
                span = record_function(names[part - len(chains.tree)])
                span.__enter__()
                opened.append((part, span))
        local.frames.append(opened)

    def leave() -> None:
        for part, span in reversed(local.frames.pop()):
            span.__exit__(None, None, None)
            local.active.discard(part)

    with watching_step(chains, enter, leave, step, _BackwardSpans(chains).at_work):
        yield


class _BackwardSpans:
    """Steps of autograd that follow one another and belong to the same label are one span."""

    def __init__(self, chains: Chains) -> None:
        self.chains = chains
        self.open: list[tuple[int, Any]] = []

    def at_work(self, parts: Parts) -> Done:
        from torch.autograd import Variable
        from torch.profiler import record_function

        if not self.open:  # whatever is open when the backward pass is over ends with it
            Variable._execution_engine.queue_callback(lambda: self._close(0))
        labels = [part for part in parts if self.chains.is_label(part)]
        same = 0
        while same < min(len(labels), len(self.open)) and self.open[same][0] == labels[same]:
            same += 1
        self._close(same)
        for part in labels[same:]:
            span = record_function(f"{self.chains.labels.names[part - len(self.chains.tree)]}, backward")
            span.__enter__()
            self.open.append((part, span))
        return lambda: None

    def _close(self, keep: int) -> None:
        while len(self.open) > keep:
            self.open.pop()[1].__exit__(None, None, None)
