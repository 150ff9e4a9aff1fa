"""A recording of steps of one's own code -> breakdown: by label, by module, by operator, with the memory of each.

A label is a span: of torch's `record_function`, of the patterns that were given for a model's modules, of torch's own
(data loader, optimizer). Times are times under the profiler: the code ran once, so there are no bare calls to time.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

from profiler.device import Device
from profiler.measure.breakdown import FILE
from profiler.measure.breakdown.labels import Chains, fold
from profiler.measure.breakdown.profiled import (
    MEMORY,
    Event,
    Profiled,
    add_operators,
    nested,
    spans_of_labels,
)
from profiler.measure.breakdown.rows import NS, REST, WHOLE, operator_rows, times
from profiler.measure.breakdown.watch import OUTSIDE, Kind, watching
from profiler.results.types import Breakdown, BreakdownFile, Part

STEP = "step of the profile"  # torch's own span of a step lasts until the next one begins
TORCH_STEP = "ProfilerStep#"
MODULE = "module: "
BACKWARD = "backward"
TORCH = {"enumerate(DataLoader)": "data loader", "Optimizer.step": "optimizer", "Optimizer.zero_grad": "zero_grad"}


@contextmanager
def spans_in_recording(chains: Chains | None, modules: bool) -> Iterator[None]:
    """While a recording lasts: labels, if wanted each module, and backward passes as spans."""
    with ExitStack() as spans:
        if chains is not None:
            spans.enter_context(spans_of_labels(chains))
            if modules:
                spans.enter_context(_spans_of_modules(chains))
        spans.enter_context(_spans_of_backward())
        yield


@contextmanager
def _spans_of_modules(chains: Chains) -> Iterator[None]:
    from torch.profiler import record_function

    opened: list[Any] = []

    def enter(place: int, kind: Kind) -> None:
        name = "outside of the model" if place == OUTSIDE else chains.tree.shown(place)
        opened.append(record_function(f"{MODULE}{name}"))
        opened[-1].__enter__()

    def leave() -> None:
        if opened:
            opened.pop().__exit__(None, None, None)

    with watching(chains.tree, (), enter, leave):
        yield


@contextmanager
def _spans_of_backward() -> Iterator[None]:
    """`loss.backward()` goes through this function of torch."""
    import torch
    from torch.profiler import record_function

    plain = torch.autograd.backward

    def backward(*arguments: Any, **more: Any) -> Any:
        with record_function(BACKWARD):
            return plain(*arguments, **more)

    torch.autograd.backward = backward
    try:
        yield
    finally:
        torch.autograd.backward = plain


@dataclass
class _Span:
    """All spans of one name."""

    calls: int = 0
    total: int = 0
    own: int = 0
    memory: int = 0


@dataclass
class _Spans:
    by_name: dict[str, _Span] = field(default_factory=dict)
    outermost: int = 0  # nanoseconds in which some span was open

    def add(self, events: Sequence[Event], peak: Callable[[Event], int]) -> None:
        """The spans of one thread, in the order in which they began."""
        stack: list[tuple[Event, str]] = []
        for event in events:
            while stack and stack[-1][0].end <= event.start:
                stack.pop()
            name, took = _shown(event.name), event.end - event.start
            span = self.by_name.setdefault(name, _Span())
            span.calls += 1
            span.own += took
            if name not in [other for _, other in stack]:  # one inside itself counts once
                span.total += took
            span.memory = max(span.memory, peak(event))
            if stack:
                self.by_name[stack[-1][1]].own -= took
            else:
                self.outermost += took
            stack.append((event, name))

    def rows(self, steps: int, whole: float, audio: float | None, memory: bool) -> list[Part]:
        return [
            Part(
                name=name,
                calls=span.calls / steps,
                **times(span.total / steps / NS, span.own / steps / NS, whole, audio),
                memory_bytes=span.memory if memory else None,
            )
            for name, span in self.by_name.items()
        ]


def _shown(name: str) -> str:
    """'Optimizer.step#Adam.step' -> 'optimizer'."""
    return TORCH.get(name.partition("#")[0], name)


@dataclass(frozen=True)
class Recorded:
    """What a recording tells."""

    breakdown: Breakdown
    tensors: int | None  # the most that tensors held above the start of a step; null where memory was not recorded


def read_recording(
    recording: Any, whole_steps: int, device: Device, audio: float | None, folder: Path, place: str, automatic: bool
) -> Recorded | None:
    """The breakdown of the steps in a recording of torch's profiler; modules and operators go to a file in `folder`.

    `whole_steps`: how many were seen to their end; `audio`: seconds of a step, where they are known. None where no step
    was recorded to its end.
    """
    found = recording.profiler.kineto_results.events()
    events = [Event.read(event) for event in found]
    marked = [event for event, raw in zip(events, found, strict=True) if _is_span(event, raw)]
    steps = sorted((event for event in marked if event.name == STEP), key=lambda event: event.start)[:whole_steps]
    if not steps:
        return None
    inside = _within(steps)
    spans = [event for event in marked if not event.name.startswith((STEP, TORCH_STEP)) and inside(event)]
    memory = bool(recording.profile_memory)
    whole = sum(step.end - step.start for step in steps)
    count, wall = len(steps), whole / len(steps) / NS
    peak = _peaks(events, device)
    labels, modules, unfolded = _Spans(), _Spans(), _Spans()
    for thread in nested([span for span in spans if not span.name.startswith(MODULE)]).values():
        labels.add(thread, peak)
    for thread in nested([span for span in spans if span.name.startswith(MODULE)]).values():
        named = [_renamed(event, event.name.removeprefix(MODULE)) for event in thread]
        unfolded.add(named, peak)
        modules.add([_renamed(event, fold(event.name)) for event in named], peak)
    profiled = Profiled(calls=count, wall_ns=whole)
    named_here = set(marked)
    operators = [event for event in events if event not in named_here and inside(event)]
    add_operators(profiled, operators)
    tensors = max(map(peak, steps)) if memory else None
    rest = max(0.0, wall - labels.outermost / count / NS)
    rows = labels.rows(count, wall, audio, memory)
    rows.append(Part(name=REST, **times(rest, rest, wall, audio)))
    rows.append(Part(name=WHOLE, calls=1.0, memory_bytes=tensors, **times(wall, rest, wall, audio)))
    details = BreakdownFile(
        seconds_of_audio=audio,
        calls=count,
        profiled_calls=count,
        modules=modules.rows(count, wall, audio, memory),
        modules_unfolded=unfolded.rows(count, wall, audio, memory),
        operators=operator_rows(profiled, None, audio),
    )
    (folder / FILE).write_text(details.model_dump_json(), encoding="utf-8")
    breakdown = Breakdown(
        labels=rows,
        automatic=automatic,
        calls=count,
        profiled_calls=count,
        call_s=wall,
        seconds_of_audio=audio,
        file=f"{place}/{FILE}",
    )
    return Recorded(breakdown, tensors)


def _is_span(event: Event, raw: Any) -> bool:
    return event.device == "cpu" and raw.is_user_annotation()


def _within(steps: Sequence[Event]) -> Callable[[Event], bool]:
    """Whether an event began in one of the steps: between two calls of a function its caller is at work."""
    starts = [step.start for step in steps]

    def inside(event: Event) -> bool:
        place = bisect.bisect_right(starts, event.start) - 1
        return place >= 0 and event.start < steps[place].end

    return inside


def _renamed(event: Event, name: str) -> Event:
    return replace(event, name=name)


def _peaks(events: Sequence[Event], device: Device) -> Callable[[Event], int]:
    """How far the bytes of tensors rose during a span above their level at its start."""
    changes = sorted(
        (event for event in events if event.name == MEMORY and event.device == device.kind),
        key=lambda event: event.start,
    )
    at = [event.start for event in changes]
    levels = [0, *accumulate(event.bytes for event in changes)]

    def peak(span: Event) -> int:
        first, last = bisect.bisect_left(at, span.start), bisect.bisect_right(at, span.end)
        return max(levels[first : last + 1]) - levels[first]

    return peak
