"""Which modules a model really calls, from where, and in which of them something is repeated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from profiler.processes import run_all, trial
from profiler.variants.layers import all_modules, owns_weights

if TYPE_CHECKING:
    from profiler.models.model import Model

OUTSIDE = -1  # in place of a module that is not part of the model, such as a search around it


@dataclass
class Calls:
    """Modules by their place in `all_modules`."""

    called: set[int] = field(default_factory=set)
    outermost: set[int] = field(default_factory=set)  # called by code that is in no module of the model
    inside: dict[int, set[int]] = field(default_factory=dict)  # module -> modules that it calls
    looping: set[int] = field(default_factory=set)  # one call of it calls a layer with weights several times


def observe_calls(model: Model, inputs: list[Any]) -> Calls:
    """What happens while the model runs, seen in a fork."""

    def work() -> Calls:
        with recorded_calls(model) as calls:
            run_all(model, inputs)
        return calls

    return trial(model, work)


@contextmanager
def recorded_calls(model: Model) -> Iterator[Calls]:
    """Calls of modules while the body runs."""
    from torch.nn.modules import module as hooks

    modules = all_modules(model)
    place = {id(module): number for number, module in enumerate(modules)}
    weighted = {number for number, module in enumerate(modules) if owns_weights(module)}
    calls = Calls()
    open_calls: list[tuple[int, Counter[int]]] = []

    def enter(module: Any, arguments: Any) -> None:
        number = place.get(id(module), OUTSIDE)
        around = next((outer for outer, _ in reversed(open_calls) if outer != OUTSIDE), None)
        if number != OUTSIDE:
            calls.called.add(number)
            if around is None:
                calls.outermost.add(number)
            else:
                calls.inside.setdefault(around, set()).add(number)
        if number in weighted:
            for outer, counts in open_calls:
                counts[number] += 1
                if counts[number] > 1:
                    calls.looping.add(outer)
        open_calls.append((number, Counter()))

    def leave(module: Any, arguments: Any, output: Any) -> None:
        open_calls.pop()

    handles = [
        hooks.register_module_forward_pre_hook(enter),
        hooks.register_module_forward_hook(leave, always_call=True),
    ]
    try:
        yield calls
    finally:
        for handle in handles:
            handle.remove()
