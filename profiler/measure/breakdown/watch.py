"""Tells when modules are called, without changing how they are called.

Hooks are global, not the modules' own: modules with hooks of their own leave their fused kernels unused. Of labelled
modules other methods than `forward` are seen too, such as the step of a decoder that a search calls.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from types import FunctionType
from typing import Any, Literal

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from profiler.measure.breakdown.tree import Tree

# A method that calls no module of the tree was no work of the part: a look at a size, a state to begin with.
Kind = Literal["forward", "method"]
OUTSIDE = -1  # a module that is not in the tree
Enter = Callable[[int, Kind], None]
Leave = Callable[[], None]


@contextmanager
def watching(tree: Tree, labelled: Iterable[int], enter: Enter, leave: Leave) -> Iterator[None]:
    """`enter(place, kind)` and `leave()` around every call while this lasts, in the thread that calls."""
    place_of = tree.index.get

    def before(module: torch.nn.Module, arguments: Any) -> None:
        enter(place_of(id(module), OUTSIDE), "forward")

    def after(module: torch.nn.Module, arguments: Any, output: Any) -> None:
        leave()

    def method(module: torch.nn.Module) -> None:
        enter(tree.index[id(module)], "method")

    with watching_methods([tree.modules[place] for place in labelled], method, leave), ExitStack() as hooks:
        hooks.callback(register_module_forward_pre_hook(before).remove)
        hooks.callback(register_module_forward_hook(after, always_call=True).remove)
        yield


@contextmanager
def watching_methods(
    modules: Iterable[torch.nn.Module], enter: Callable[[torch.nn.Module], None], leave: Leave
) -> Iterator[None]:
    def wrap(module: torch.nn.Module, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def call(*arguments: Any, **more: Any) -> Any:
            enter(module)
            try:
                return method(*arguments, **more)
            finally:
                leave()

        return call

    with ExitStack() as wrapped:
        for module in modules:
            for name in _methods(module):
                module.__dict__[name] = wrap(module, getattr(module, name))
                wrapped.callback(module.__dict__.pop, name, None)
        yield


def _methods(module: torch.nn.Module) -> list[str]:
    """Public methods that the model's own classes add to torch's. A script has none that can be seen."""
    own: dict[str, Any] = {}
    for owner in reversed(type(module).__mro__ if not isinstance(module, torch.jit.ScriptModule) else ()):
        if not owner.__module__.startswith("torch.") and owner is not object:
            own |= vars(owner)
    return [
        name
        for name, value in own.items()
        if isinstance(value, FunctionType)
        and not name.startswith("_")
        and not hasattr(torch.nn.Module, name)
        and name not in module.__dict__
    ]


def is_compiled(tree: Tree) -> bool:
    """Compiled code has no modules to watch, and hooks would have it compiled anew."""
    return any(getattr(module, "_compiled_call_impl", None) is not None for module in tree.modules)
