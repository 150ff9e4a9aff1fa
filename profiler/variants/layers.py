"""The layers of a model: who owns weights, and how one layer becomes another without anyone who holds it noticing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from profiler.models.model import Model

HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_forward_hooks_with_kwargs", "_forward_pre_hooks_with_kwargs")


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
