"""Bytes of the saved state, in total and by component, for float and for quantised layers alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from profiler.measure.parameters import REST
from profiler.results.types import Size

if TYPE_CHECKING:
    import torch

    from profiler.models.model import Model


def saved_bytes(model: Model) -> Size:
    """Of the values that torch.save would write; what is shared counts once, where it is first.

    A packed int8 layer counts as it is saved: int8 weights, scales, zero points, bias.
    """
    seen: set[int] = set()
    components = {name: _module_bytes(part, seen) for name, part in model.components.items()}
    components[REST] = _module_bytes(model.module, seen)
    return Size(total=sum(components.values()), components={name: count for name, count in components.items() if count})


def _module_bytes(root: torch.nn.Module, seen: set[int]) -> int:
    """Module by module, because a packed layer makes new tensors each time it is asked for its state."""
    total = 0
    for module in root.modules():
        if id(module) in seen:
            continue
        seen.add(id(module))
        state: dict[str, Any] = {}
        module._save_to_state_dict(state, "", keep_vars=True)
        held = {id(tensor) for tensor in (*module.parameters(recurse=False), *module.buffers(recurse=False))}
        for value in state.values():
            if id(value) not in seen:
                total += _bytes(value)
            if id(value) in held:
                seen.add(id(value))
    return total


def _bytes(value: Any) -> int:
    import torch

    if isinstance(value, (tuple, list)):
        return sum(_bytes(part) for part in value)
    if isinstance(value, torch.ScriptObject):  # packed weights of an engine
        return _bytes(value.__getstate__())
    if not isinstance(value, torch.Tensor):
        return 0
    if hasattr(value, "__tensor_flatten__"):  # torchao: a tensor made of several
        return sum(_bytes(getattr(value, name)) for name in value.__tensor_flatten__()[0])
    own = value.numel() * value.element_size()
    if value.is_quantized and value.qscheme() in (torch.per_channel_affine, torch.per_channel_symmetric):
        own += _bytes(value.q_per_channel_scales()) + _bytes(value.q_per_channel_zero_points())
    return int(own)
