"""A log of calls -> how often each part was entered, how long that took, and how much of it was its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from profiler.measure.breakdown.labels import Chains
from profiler.measure.breakdown.watch import OUTSIDE, Kind


class Entry(NamedTuple):
    """A call begins (`place` and `kind`), or the innermost one ends (neither). `at` is nanoseconds."""

    at: int
    place: int | None = None
    kind: Kind | None = None


Log = Sequence[Entry]
Closed = Callable[[int, int, int], None]  # part, start, end


@dataclass
class Sums:
    """Of one part, over all calls of a log."""

    calls: int = 0
    total: int = 0  # a part inside itself counts once
    own: int = 0  # without the modules called in it; for a label, without the labels in it


@dataclass
class _Frame:
    kind: Kind
    opened: list[int]
    seen_module: bool = False


@dataclass
class _Open:
    part: int
    start: int
    inner: int = 0


class Tally:
    """Adds up logs, one a thread and a call."""

    def __init__(self, chains: Chains, closed: Closed | None = None) -> None:
        self.chains = chains
        self.sums = [Sums() for _ in range(len(chains))]
        self.labelled = 0  # time in which some label was at work
        self._closed = closed

    def add(self, log: Log) -> None:
        frames: list[_Frame] = []
        stacks: tuple[list[_Open], list[_Open]] = ([], [])  # modules, labels
        active: set[int] = set()
        for at, place, kind in log:
            if place is not None and kind is not None:
                parts = self.chains.of[place] if place != OUTSIDE else []
                opened = [part for part in parts if part not in active]
                frames.append(_Frame(kind, opened))
                active.update(opened)
                for part in opened:
                    stacks[self.chains.is_label(part)].append(_Open(part, at))
                continue
            frame = frames.pop()
            counts = frame.kind == "forward" or frame.seen_module
            for part in reversed(frame.opened):
                active.discard(part)
                is_label = self.chains.is_label(part)
                stack = stacks[is_label]
                ended = stack.pop()
                if counts:
                    self._close(ended, at, stack, is_label)
            if frames:
                frames[-1].seen_module |= counts

    def _close(self, ended: _Open, at: int, stack: list[_Open], is_label: bool) -> None:
        took = at - ended.start
        sums = self.sums[ended.part]
        sums.calls += 1
        sums.total += took
        sums.own += took - ended.inner
        if stack:
            stack[-1].inner += took
        elif is_label:
            self.labelled += took
        if self._closed is not None:
            self._closed(ended.part, ended.start, at)
