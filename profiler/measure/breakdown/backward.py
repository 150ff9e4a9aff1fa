"""The backward phase of parts: what autograd does for what each part computed in the forward phase."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from profiler.measure.autograd import Done, Followed, Stack
from profiler.measure.breakdown.labels import Chains
from profiler.measure.breakdown.tally import Sums
from profiler.measure.breakdown.watch import OUTSIDE, Enter, Kind, Leave, watching

if TYPE_CHECKING:
    from profiler.training.step import TrainingStep

Parts = Sequence[int]


@contextmanager
def watching_step(
    chains: Chains,
    enter: Enter,
    leave: Leave,
    step: TrainingStep | None = None,
    at_work: Callable[[Parts], Done] | None = None,
) -> Iterator[Followed | None]:
    """Watch calls of modules; where a training step is run, also the steps of its backward pass.

    `at_work(parts)` is called before each of those, with the parts that it belongs to, and what it gives after it.
    """
    if step is None or at_work is None:
        with watching(chains.tree, chains.labelled_places, enter, leave):
            yield None
        return
    followed = follow_parts(chains, at_work)

    def enter_both(place: int, kind: Kind) -> None:
        followed.entered(place)
        enter(place, kind)

    def leave_both() -> None:
        leave()
        followed.left()

    with watching(chains.tree, chains.labelled_places, enter_both, leave_both), step.telling(followed.follow):
        yield followed


def follow_parts(chains: Chains, at_work: Callable[[Parts], Done]) -> Followed:
    """A follower that tells parts instead of the modules that were being called."""
    known: dict[Stack, Parts] = {}

    def of_modules(stack: Stack) -> Done:
        parts = known.get(stack)
        if parts is None:
            inside = tuple(place for place in stack if place != OUTSIDE)
            parts = known[stack] = tuple(chains.at_work(inside))
        return at_work(parts)

    return Followed(of_modules, chains.owners)


class BackwardTally:
    """Total and own time by part in nanoseconds, over all backward passes so far; `calls` is the steps of autograd."""

    def __init__(self, chains: Chains, wait: Callable[[], None] | None = None) -> None:
        self.chains = chains
        self.sums = [Sums() for _ in range(len(chains))]
        self.labelled = 0  # time in which some label was at work
        self._wait = wait
        self._log: list[tuple[Parts, int]] = []

    def at_work(self, parts: Parts) -> Done:
        log, wait, clock = self._log, self._wait, time.perf_counter_ns
        if wait is not None:
            wait()
        started = clock()

        def done() -> None:
            if wait is not None:
                wait()
            log.append((parts, clock() - started))

        return done

    def add_up(self) -> None:
        """Sums of what was noted; after the pass, so that it takes no time in it."""
        for parts, took in self._log:
            innermost = self.chains.innermost(parts)
            for part in parts:
                sums = self.sums[part]
                sums.calls += 1
                sums.total += took
                sums.own += took if part in innermost else 0
            self.labelled += took if any(self.chains.is_label(part) for part in parts) else 0
        self._log.clear()


def spans(started: list[tuple[int, int, Parts]], closed: Callable[[int, int, int], Any]) -> None:
    """Steps of autograd (start, end, parts) -> for each part the times in which one after another was its own."""
    since: dict[int, int] = {}
    last = 0
    for start, end, parts in sorted(started, key=lambda step: step[0]):
        for part in [part for part in since if part not in parts]:
            closed(part, since.pop(part), last)
        for part in parts:
            since.setdefault(part, start)
        last = end
    for part, start in since.items():
        closed(part, start, last)
