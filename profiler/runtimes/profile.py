"""An engine's own profile -> rows of our breakdown, and events in the trace that torch's profiler wrote.

The engine profiles in sessions of their own: with a profile they are slower, and are used for nothing else.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profiler.results.types import OperatorPart
from profiler.runtimes import ENGINES

if TYPE_CHECKING:
    from profiler.runtimes.base import EngineCall
    from profiler.runtimes.part import Runtime

CALLS = 3  # under the profile, after one that warms up
GZIP_LEVEL = 4


def operators(runtime: Runtime, run: Callable[[Any], Any], value: Any, seconds_of_audio: float) -> list[OperatorPart]:
    """By kind of operator, of one call; most time first. Empty where the engine has no profile."""
    if runtime.engine.PROFILE:
        return []
    runtime.profiled()
    for _ in range(1 + CALLS):
        run(value)
    sessions = [calls[len(calls) // (1 + CALLS) :] for calls in runtime.calls()]
    runtime.closed()
    run(value)  # opens sessions without a profile: calls after this one are timed
    whole = sum(call.seconds for calls in sessions for call in calls) or 1.0
    sums: dict[str, tuple[int, float]] = {}
    for node in (node for calls in sessions for call in calls for node in call.nodes):
        count, total = sums.get(node.operator, (0, 0.0))
        sums[node.operator] = (count + 1, total + node.seconds)
    title = ENGINES[runtime.name].title
    return [
        OperatorPart(
            name=f"{title}: {operator}",
            calls=count / CALLS,
            total_s=total / CALLS,
            own_s=total / CALLS,
            share=total / whole,
            own_share=total / whole,
            s_per_second_of_audio=total / CALLS / seconds_of_audio,
        )
        for operator, (count, total) in sorted(sums.items(), key=lambda item: -item[1][1])
    ]


@contextmanager
def spans(runtime: Runtime) -> Iterator[None]:
    """While this lasts, each call of a part is a span in torch's recording, and operators with a timeline are kept."""
    runtime.traced = True
    if not runtime.engine.TIMELINE:
        runtime.profiled()
    try:
        yield
    finally:
        runtime.traced = False
        runtime.closed()


def add_to_traces(runtime: Runtime, files: list[Path], skipped: int, active: int) -> None:
    """Operators as events inside the spans. Of the calls for each file the first ones are not written."""
    if runtime.engine.TIMELINE:
        return
    for part, calls in zip(runtime.parts, runtime.calls(), strict=True):
        each = len(calls) // (len(files) * (skipped + active)) if files else 0  # of this part in a call of the model
        for number, file in enumerate(files):
            first = (number * (skipped + active) + skipped) * each
            _add(file, runtime.span_of(part), calls[first : first + active * each])


def _add(file: Path, span: str, calls: list[EngineCall]) -> None:
    with gzip.open(file, "rt", encoding="utf-8") as source:
        trace = json.load(source)
    found = [event for event in trace["traceEvents"] if event.get("name") == span and event.get("ph") == "X"]
    for around, call in zip(sorted(found, key=lambda event: float(event["ts"])), calls, strict=False):
        # The two clocks differ: the call lies in the middle of its span, which holds little else.
        begin = around["ts"] + max(0.0, around["dur"] - call.seconds * 1e6) / 2
        for node in call.nodes:
            trace["traceEvents"].append(
                {
                    "ph": "X",
                    "cat": "cpu_op",
                    "name": node.operator,
                    "pid": around["pid"],
                    "tid": around["tid"],
                    "ts": begin + (node.start or 0.0) * 1e6,
                    "dur": node.seconds * 1e6,
                    "args": {"node": node.name},
                }
            )
    with gzip.open(file, "wt", encoding="utf-8", compresslevel=GZIP_LEVEL) as sink:
        json.dump(trace, sink)
