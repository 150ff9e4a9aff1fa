"""Tells when modules are called, without changing how they are called.

Hooks are global, not the modules' own: modules with hooks of their own leave their fused kernels unused. Of labelled
modules other methods than `forward` are seen too, such as the step of a decoder that a search calls.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
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

    wrapped = [_wrap_methods(tree.modules[place], place, enter, leave) for place in dict.fromkeys(labelled)]
    hooks = (register_module_forward_pre_hook(before), register_module_forward_hook(after, always_call=True))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
        for unwrap in wrapped:
            unwrap()


def _wrap_methods(module: torch.nn.Module, place: int, enter: Enter, leave: Leave) -> Callable[[], None]:
    names = [] if isinstance(module, torch.jit.ScriptModule) else _methods(type(module))
    names = [name for name in names if name not in module.__dict__]

    def wrap(method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def call(*arguments: Any, **more: Any) -> Any:
            enter(place, "method")
            try:
                return method(*arguments, **more)
            finally:
                leave()

        return call

    for name in names:
        module.__dict__[name] = wrap(getattr(module, name))

    def unwrap() -> None:
        for name in names:
            module.__dict__.pop(name, None)

    return unwrap


def _methods(kind: type) -> list[str]:
    """Public methods that the model's own classes add to torch's."""
    own: dict[str, Any] = {}
    for owner in reversed(kind.__mro__):
        if not owner.__module__.startswith("torch.") and owner is not object:
            own |= vars(owner)
    return [
        name
        for name, value in own.items()
        if isinstance(value, FunctionType) and not name.startswith("_") and not hasattr(torch.nn.Module, name)
    ]


def is_compiled(tree: Tree) -> bool:
    """Compiled code has no modules to watch, and hooks would have it compiled anew."""
    return any(getattr(module, "_compiled_call_impl", None) is not None for module in tree.modules)
