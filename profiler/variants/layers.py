"""The layers of a model: which there are, who calls them, and how one becomes another; what a change did to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from profiler.errors import NotSupported
from profiler.processes import TrialFailed, run_all, trial

if TYPE_CHECKING:
    import torch

    from profiler.models.model import Model

HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_forward_hooks_with_kwargs", "_forward_pre_hooks_with_kwargs")
OUTSIDE = -1  # in place of a module that is not part of the model, such as a search around it


@contextmanager
def failing(words: str) -> Iterator[None]:
    """A trial that fails is why the variant cannot run."""
    try:
        yield
    except TrialFailed as error:
        raise NotSupported(f"{words}: {error}") from error


@contextmanager
def hooked(handles: Iterable[Any]) -> Iterator[None]:
    """Hooks that are gone again in the end."""
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@dataclass
class Step:
    """What one change did. `layers` is None where a change is not one of layers."""

    kind: str
    layers: list[Any] | None = None  # that it changed
    parameters: int = 0  # that it changed
    engine: str | None = None
    graphs: int | None = None
    graph_breaks: int | None = None
    notes: list[str] = field(default_factory=list)


def all_modules(model: Model) -> list[torch.nn.Module]:
    """Every module once, in an order that is the same in every fork of this process."""
    found: dict[int, Any] = {}
    for root in (model.module, *model.components.values()):
        for module in root.modules():
            found.setdefault(id(module), module)
    return list(found.values())


def layers(model: Model) -> list[torch.nn.Module]:
    """The modules that hold weights of their own."""
    return [module for module in all_modules(model) if owns_weights(module)]


def owns_weights(module: torch.nn.Module) -> bool:
    """True also for a layer whose weight is computed from others (weight norm), which are kept in a child of it."""
    from torch.nn.utils.parametrize import ParametrizationList, is_parametrized

    if isinstance(module, ParametrizationList):
        return False
    return is_parametrized(module) or next(module.parameters(recurse=False), None) is not None


def own_parameters(module: torch.nn.Module) -> list[torch.nn.Parameter]:
    """The parameters of a layer, those that its weight is computed from included."""
    from torch.nn.utils.parametrize import is_parametrized

    own = list(module.parameters(recurse=False))
    return own + list(module.parametrizations.parameters()) if is_parametrized(module) else own


def unique_parameters(model: Model) -> dict[int, torch.nn.Parameter]:
    """id -> parameter, each once; what is tied is one parameter."""
    return {id(p): p for module in all_modules(model) for p in module.parameters(recurse=False)}


def become(module: Any, other: Any) -> Any:
    """Turn a module into another one, in place; gives what it was, to `become` again.

    Whoever holds the module (its parents, a closure, a list of components) holds the other one from now on. Hooks stay.
    """
    before: Any = object.__new__(type(module))
    before.__dict__ = module.__dict__
    hooks = {name: module.__dict__[name] for name in HOOKS}
    module.__class__ = type(other)
    module.__dict__ = {**other.__dict__, **hooks}
    return before


def counted_classes(modules: Iterable[Any]) -> str:
    """'2 LSTM, 1 ScaledLinear'."""
    counts = Counter(type(module).__name__ for module in modules)
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))


@dataclass
class ModuleCalls:
    """Modules by their place in `all_modules`."""

    called: set[int] = field(default_factory=set)
    outermost: set[int] = field(default_factory=set)  # called by code that is in no module of the model
    inside: dict[int, set[int]] = field(default_factory=dict)  # module -> modules that it calls
    looping: set[int] = field(default_factory=set)  # one call of it calls a layer with weights several times


def observe_calls(model: Model, inputs: list[Any]) -> ModuleCalls:
    """What happens while the model runs, seen in a fork."""

    def work() -> ModuleCalls:
        with recorded_calls(model) as calls:
            run_all(model, inputs)
        return calls

    return trial(model, work, ModuleCalls)


@contextmanager
def recorded_calls(model: Model) -> Iterator[ModuleCalls]:
    """Calls of modules while the body runs."""
    from torch.nn.modules import module as hooks

    modules = all_modules(model)
    place = {id(module): number for number, module in enumerate(modules)}
    weighted = {number for number, module in enumerate(modules) if owns_weights(module)}
    calls = ModuleCalls()
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

    before, after = hooks.register_module_forward_pre_hook, hooks.register_module_forward_hook
    with hooked([before(enter), after(leave, always_call=True)]):
        yield calls
