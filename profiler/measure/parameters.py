"""Parameters and bytes of a loaded model, in total and by component; what is shared counts once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from profiler.models.model import Model

REST = "other"


def count_parameters(model: Model) -> dict[str, Any]:
    """{total, trainable, components{}} with each parameter counted once, in the first component that has it."""
    seen: set[int] = set()
    components = {
        name: sum(p.numel() for p in _unseen(part.parameters(), seen)) for name, part in model.components.items()
    }
    rest = sum(p.numel() for p in _unseen(model.module.parameters(), seen))
    if rest:
        components[REST] = rest
    unique = {id(p): p for p in model.module.parameters()}.values()
    return {
        "total": sum(p.numel() for p in unique),
        "trainable": sum(p.numel() for p in unique if p.requires_grad),
        "components": {name: count for name, count in components.items() if count},
    }


def size_bytes(model: Model) -> dict[str, Any]:
    """Bytes of parameters and buffers as they are saved: {total, components{}}."""
    seen: set[int] = set()
    components = {name: _bytes(part, seen) for name, part in model.components.items()}
    rest = _bytes(model.module, seen)
    if rest:
        components[REST] = rest
    return {
        "total": sum(components.values()),
        "components": {name: count for name, count in components.items() if count},
    }


def _bytes(module: torch.nn.Module, seen: set[int]) -> int:
    tensors = _unseen(module.state_dict(keep_vars=True).values(), seen)
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors if hasattr(tensor, "element_size"))


def _unseen(tensors: Iterable[Any], seen: set[int]) -> list[Any]:
    found = []
    for tensor in tensors:
        if id(tensor) not in seen:
            seen.add(id(tensor))
            found.append(tensor)
    return found
