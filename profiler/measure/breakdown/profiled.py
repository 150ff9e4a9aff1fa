"""Calls under torch's profiler: the memory of each part, and the operators; and labels as spans in a trace.

Times are times under the profiler. torch's own summary of a recording takes minutes for the hundred thousand events of
a beam search, so the events are added up here.
"""

from __future__ import annotations

import bisect
import gc
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from threading import get_ident
from typing import TYPE_CHECKING, Any

from profiler.device import Device
from profiler.measure.autograd import Done
from profiler.measure.breakdown.labels import Chains, LabelledCall
from profiler.measure.breakdown.watch import OUTSIDE, Kind, LogEntry, Parts, Tally, spans, wall, watching_step
from profiler.measure.passes.memory import new_threads_recorded

if TYPE_CHECKING:
    from profiler.training.step import TrainingStep


SECONDS = 0.5
MOST = 3  # calls
MEMORY = "[memory]"
SPAN = "breakdown:"
BACKWARD = "breakdown-backward:"
OURS = (SPAN, BACKWARD, "profiler::")  # events that are there because of the spans


@dataclass
class Operator:
    """Of one operator, over all profiled calls."""

    calls: int = 0
    total_ns: int = 0
    own_ns: int = 0
    device_ns: int = 0
    allocated: int = 0  # bytes; what it frees is not taken off


@dataclass
class Profiled:
    calls: int = 0
    wall_ns: int = 0
    memory: dict[int, int] = field(default_factory=dict)  # part -> peak bytes above the level at its start
    backward_memory: dict[int, int] = field(default_factory=dict)
    peak: int = 0  # of the whole call
    operators: dict[str, Operator] = field(default_factory=dict)


def profile_parts(call: LabelledCall, least: int = 1) -> Profiled:
    """One recording per call, at least so many, until half a second is spent."""
    found = Profiled()
    while found.calls < least or (found.wall_ns < SECONDS * 1e9 and found.calls < MOST):
        steps: list[Parts] = []
        took, recording = _record(call, steps)
        found.calls += 1
        found.wall_ns += took
        events = [Event.read(event) for event in recording.kineto_results.events()]
        _add_memory(found, events, call.device, call.chains, steps)
        add_operators(found, events)
    return found


def _record(call: LabelledCall, steps: list[Parts]) -> tuple[int, Any]:
    """Each call of a module is a span; so is each step of the backward pass, numbered as in `steps`."""
    from torch.autograd.profiler import profile, record_function

    spans: dict[int, list[Any]] = defaultdict(list)  # by thread

    def enter(place: int, kind: Kind) -> None:
        span = record_function(f"{SPAN}{kind}:{place}")
        span.__enter__()
        spans[get_ident()].append(span)

    def leave() -> None:
        spans[get_ident()].pop().__exit__(None, None, None)

    def backward(parts: Parts) -> Done:
        span = record_function(f"{BACKWARD}{len(steps)}")
        steps.append(parts)
        span.__enter__()
        return lambda: span.__exit__(None, None, None)

    gc.collect()
    on_device = call.device.kind if call.device.kind == "cuda" else None
    with (
        profile(profile_memory=True, use_device=on_device) as recording,
        new_threads_recorded(),
        watching_step(call.chains, enter, leave, call.step, backward),
    ):
        took = wall(call)
    return took, recording


@dataclass(frozen=True)
class Event:
    name: str
    start: int
    end: int
    thread: int
    bytes: int
    device: str
    correlation: int
    linked: int
    annotation: bool = False

    @classmethod
    def read(cls, event: Any) -> Event:
        start = event.start_ns()
        return cls(
            event.name(),
            start,
            start + event.duration_ns(),
            event.start_thread_id(),
            event.nbytes(),
            event.device_type().name.lower(),
            event.correlation_id(),
            event.linked_correlation_id(),
            event.is_user_annotation(),
        )


def nested(events: list[Event]) -> dict[int, list[Event]]:
    """By thread, in the order in which they began; what begins together begins with the longest."""
    threads: dict[int, list[Event]] = {}
    for event in sorted(events, key=lambda event: (event.start, -event.end)):
        threads.setdefault(event.thread, []).append(event)
    return threads


def _add_memory(found: Profiled, events: list[Event], device: Device, chains: Chains, steps: list[Parts]) -> None:
    """Exact sums of the allocator's events; the clock of both kinds of events is the same."""
    changes = sorted(
        (event for event in events if event.name == MEMORY and event.device == device.kind),
        key=lambda event: event.start,
    )
    times = [event.start for event in changes]
    levels = [0, *accumulate(event.bytes for event in changes)]
    found.peak = max(found.peak, *levels)

    def raised(memory: dict[int, int], part: int, start: int, end: int) -> None:
        first, last = bisect.bisect_left(times, start), bisect.bisect_right(times, end)
        above = max(levels[first : last + 1]) - levels[first]
        memory[part] = max(memory.get(part, 0), above)

    tally = Tally(chains, partial(raised, found.memory))
    backward = [
        (event.start, event.end, steps[int(event.name.removeprefix(BACKWARD))])
        for event in events
        if event.name.startswith(BACKWARD)
    ]
    spans(backward, partial(raised, found.backward_memory))
    for thread in nested([event for event in events if event.name.startswith(SPAN)]).values():
        log: list[LogEntry] = []
        ends: list[int] = []
        for event in thread:
            while ends and ends[-1] <= event.start:
                log.append(LogEntry(ends.pop()))
            _, kind, place = event.name.split(":")
            log.append(LogEntry(event.start, int(place), "method" if kind == "method" else "forward"))
            ends.append(event.end)
        log += [LogEntry(end) for end in reversed(ends)]
        tally.add(log)


def add_operators(found: Profiled, events: list[Event]) -> None:
    """Device time is that of the kernels and copies that an operator launched; a span that the device was given a name
    for has them within it, and is none of them."""
    on_device: dict[int, int] = {}
    for event in events:
        if event.device != "cpu" and event.linked > 0 and not event.annotation:
            on_device[event.linked] = on_device.get(event.linked, 0) + event.end - event.start
    own = [event for event in events if event.device == "cpu" and not event.name.startswith(OURS)]
    allocations = [event for event in events if event.name == MEMORY and event.device != "cpu"]
    for thread in nested([*own, *allocations]).values():
        _add_thread(found.operators, thread, on_device)


def _add_thread(operators: dict[str, Operator], events: list[Event], on_device: dict[int, int]) -> None:
    stack: list[tuple[Event, Operator]] = []
    open_names: dict[str, int] = {}
    for event in events:
        while stack and stack[-1][0].end <= event.start:
            open_names[stack.pop()[0].name] -= 1
        if event.name == MEMORY:
            if stack and event.bytes > 0:
                stack[-1][1].allocated += event.bytes
            continue
        took = event.end - event.start
        operator = operators.setdefault(event.name, Operator())
        operator.calls += 1
        operator.own_ns += took
        operator.device_ns += on_device.get(event.correlation, 0)
        if not open_names.get(event.name):  # one inside itself counts once
            operator.total_ns += took
        if stack:
            stack[-1][1].own_ns -= took
        open_names[event.name] = open_names.get(event.name, 0) + 1
        stack.append((event, operator))


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
