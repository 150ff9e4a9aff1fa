"""The counter: sees each operator as it is dispatched, below autograd and above the kernels."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from profiler.measure.operations.formulas import FORMULAS
from profiler.measure.operations.free import FREE, FREE_NAMESPACES, FREE_PREFIXES, FREE_TAGS
from profiler.measure.operations.owners import Owners
from profiler.measure.operations.traffic import bytes_touched
from profiler.measure.parameters import REST


class OperationCounter(TorchDispatchMode):
    """Sums MACs by operator and by component, and tallies the calls of what it has no formula for."""

    supports_higher_order_operators = True

    def __init__(self, owners: Owners) -> None:
        super().__init__()
        self.by_operator: Counter[str] = Counter()
        self.unknown: Counter[str] = Counter()
        self.bytes_moved = 0
        self._owners = owners
        self._macs: Counter[str] = Counter()

    @property
    def by_component(self) -> dict[str, int]:
        """Every component that was called, also with zero, and the rest."""
        return dict.fromkeys(self._owners.called, 0) | dict(self._macs)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = _name(func)
        formula = FORMULAS.get(name)
        if formula is None and not _is_free(func, name):
            # Under inference_mode composite operators arrive whole; their parts are what can be counted.
            with self:
                result = func.decompose(*args, **kwargs) if hasattr(func, "decompose") else NotImplemented
            if result is not NotImplemented:
                return result
        result = func(*args, **kwargs)
        self.bytes_moved += bytes_touched(func, name, args, result)
        if formula is not None:
            self._count(name, formula, args, result)
        elif not _is_free(func, name) and _has_tensor(args, kwargs):
            self.unknown[name] += 1
        return result

    def _count(self, name: str, formula: Any, args: Any, result: Any) -> None:
        tensors = [leaf for leaf in tree_leaves(args) if isinstance(leaf, torch.Tensor)]
        owner = self._owners.of(tensors)
        try:
            if any("sparse" in str(tensor.layout) for tensor in tensors):
                raise ValueError("zeros that are not stored are not multiplied")
            macs = formula(args, result)
        except (AttributeError, IndexError, RuntimeError, TypeError, ValueError):
            self.unknown[name] += 1
            return
        self.by_operator[name] += macs
        self._macs[owner or REST] += macs


def _name(func: Any) -> str:
    """`aten::add` for `add_` too: in place or not, it computes the same."""
    if not hasattr(func, "_schema"):
        return str(func)
    namespace, _, name = func._schema.name.partition("::")
    return f"{namespace}::{name.rstrip('_')}"


def _is_free(func: Any, name: str) -> bool:
    if name in FREE or name.partition("::")[0] in FREE_NAMESPACES or name.startswith(FREE_PREFIXES):
        return True
    if not hasattr(func, "_schema"):
        return False
    return func.is_view or any(tag.name in FREE_TAGS for tag in func.tags)


def _has_tensor(args: Any, kwargs: Any) -> bool:
    """Without one it makes something: there is nothing to multiply."""
    return any(isinstance(leaf, torch.Tensor) for leaf in tree_leaves((args, kwargs)))
