"""bfloat16 and float16: weights are converted, and inputs where they meet them.

Layers with weights are converted, with their buffers; what has none (a filterbank, positions, a normalisation by stored
statistics) stays in float32, as the library computes it. Where float32 meets a converted layer it has to be cast; a
trial run finds these places, so that no others pay for a check.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from profiler.errors import NotSupported
from profiler.processes import TrialFailed, run_all, trial
from profiler.variants.layers import Step, all_modules, failing, hooked, layers, observe_calls, own_parameters

if TYPE_CHECKING:
    import torch

    from profiler.models.model import Model


def to_precision(model: Model, inputs: list[Any], name: str) -> Step:
    """The model with weights of this type. Every layer with floating-point weights is converted."""
    import torch

    dtype = getattr(torch, name)
    parts = _called_parts(model, inputs)
    converted = [layer for layer in layers(model) if any(p.is_floating_point() for p in own_parameters(layer))]
    if not converted:
        raise NotSupported("the model has no weights to convert")
    for layer in converted:
        _convert(layer, dtype)
    notes = []
    try:
        places = _place_casts(model, inputs, converted, dtype)
    except TrialFailed:
        # Code between the parts may be made for float32: a search that adds scores, a conversion to numpy.
        for part in parts:
            part.register_forward_hook(lambda module, arguments, output: cast(output, torch.float32))
        notes.append(f"What comes out of {len(parts)} parts is cast back to float32: the code around them needs it.")
        with failing(f"the model does not run in {name}"):
            places = _place_casts(model, inputs, converted, dtype)
    notes.append(f"Inputs are cast to {name} at {places} of {len(converted)} layers; what has no weights is float32.")
    unique = {id(p): p for layer in converted for p in own_parameters(layer) if p.is_floating_point()}
    return Step(name, converted, sum(p.numel() for p in unique.values()), notes=notes)


def cast(value: Any, dtype: torch.dtype) -> Any:
    """The same with floating-point tensors of this type, inside tuples, lists and dictionaries too."""
    import torch

    if isinstance(value, torch.Tensor):
        return value.to(dtype) if value.is_floating_point() and value.dtype != dtype else value
    if isinstance(value, torch.nn.utils.rnn.PackedSequence):
        return value.to(dtype)
    if isinstance(value, tuple):
        parts = [cast(part, dtype) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(value, list):
        return [cast(part, dtype) for part in value]
    if isinstance(value, dict):  # in place of a copy, so that a library's own kind of output stays what it is
        for key, part in value.items():
            value[key] = cast(part, dtype)
    return value


def _convert(layer: Any, dtype: torch.dtype) -> None:
    for parameter in own_parameters(layer):
        if parameter.is_floating_point():
            parameter.data = parameter.data.to(dtype)
    for name, buffer in layer.named_buffers(recurse=False):
        if buffer.is_floating_point():
            setattr(layer, name, buffer.to(dtype))


def _called_parts(model: Model, inputs: list[Any]) -> list[Any]:
    """The modules with weights that code outside of any module calls."""
    with failing("the model does not run as it is"):
        calls = observe_calls(model, inputs)
    modules = all_modules(model)
    return [
        modules[number] for number in sorted(calls.outermost) if next(modules[number].parameters(), None) is not None
    ]


def _place_casts(model: Model, inputs: list[Any], converted: list[Any], dtype: torch.dtype) -> int:
    """Cast inputs at the layers that get something else, and see that the model runs with that; gives how many."""

    def find() -> list[int]:
        needed: set[int] = set()

        def hook(number: int) -> Callable[..., Any]:
            def cast_and_tell(module: Any, arguments: Any, named: Any) -> Any:
                if _holds_other(arguments, dtype) or _holds_other(named, dtype):
                    needed.add(number)
                return cast(arguments, dtype), cast(dict(named), dtype)

            return cast_and_tell

        layers = enumerate(converted)
        with hooked([layer.register_forward_pre_hook(hook(number), with_kwargs=True) for number, layer in layers]):
            run_all(model, inputs)
        return sorted(needed)

    def cast_inputs(module: Any, arguments: Any, named: Any) -> Any:
        return cast(arguments, dtype), cast(dict(named), dtype)

    needed = trial(model, find, list[int])
    handles = [converted[number].register_forward_pre_hook(cast_inputs, with_kwargs=True) for number in needed]
    try:
        trial(model, lambda: run_all(model, inputs), None)
    except TrialFailed:
        for handle in handles:
            handle.remove()
        raise
    return len(needed)


def _holds_other(value: Any, dtype: torch.dtype) -> bool:
    import torch

    if isinstance(value, torch.Tensor):
        return bool(value.is_floating_point() and value.dtype != dtype)
    if isinstance(value, dict):
        return any(_holds_other(part, dtype) for part in value.values())
    if isinstance(value, (tuple, list)):
        return any(_holds_other(part, dtype) for part in value)
    return False
