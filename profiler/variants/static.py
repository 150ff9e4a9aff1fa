"""Static int8: each linear layer takes float, computes in int8 with scales found on sample speech, and gives float.

Whole-graph tools need a model that can be exported, which few speech models can; layer by layer works for any.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from profiler.errors import NotSupported
from profiler.processes import TrialFailed, run_all, trial
from profiler.variants.engine import use_engine
from profiler.variants.quantize import choose_linear, plain_linear, require_cpu, swap
from profiler.variants.step import Step

if TYPE_CHECKING:
    from profiler.models.model import Model

Scale = tuple[float, int]  # scale and zero point


def static(model: Model, inputs: list[Any], engine: str | None) -> Step:
    """Linear layers that the sample speech reaches, with int8 weights and activations."""
    require_cpu(model)
    engine = use_engine(engine)
    chosen, notes = choose_linear(model)
    try:
        scales = trial(model, lambda: _calibrate(model, inputs, chosen, engine))
    except TrialFailed as error:
        raise NotSupported(f"the calibration failed: {error}") from error
    found = {id(layer): pair for layer, pair in zip(chosen, scales, strict=True) if pair is not None}
    reached = [layer for layer in chosen if id(layer) in found]
    if len(reached) < len(chosen):
        notes.append(f"Linear layers that the speech does not reach stay in float: {len(chosen) - len(reached)}.")

    def make(layer: Any) -> Any:
        return static_layer(layer, *found[id(layer)], engine)

    step = swap(model, inputs, reached, make, "static int8 of linear layers", notes)
    step.engine = engine
    return step


def _calibrate(model: Model, inputs: list[Any], chosen: list[Any], engine: str) -> list[tuple[Scale, Scale] | None]:
    """Scale and zero point of what goes in and out of each layer, None for one that is never called."""
    make = observer_of(engine)
    observers: dict[int, tuple[Any, Any]] = {}

    def watch(layer: Any, arguments: tuple[Any, ...], output: Any) -> None:
        before, after = observers.setdefault(id(layer), (make(), make()))
        before(arguments[0].float())
        after(output.float())

    handles = [layer.register_forward_hook(watch) for layer in chosen]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # observers advise on settings that the engine's own defaults chose
            run_all(model, inputs)
            return [
                (_scale(observers[id(layer)][0]), _scale(observers[id(layer)][1])) if id(layer) in observers else None
                for layer in chosen
            ]
    finally:
        for handle in handles:
            handle.remove()


def observer_of(engine: str) -> Callable[[], Any]:
    """What finds the scale of an activation: the engine's default, in a range that its kernels can multiply here.

    Without VNNI an x86 processor adds two products of 8 bits in 16, which saturates when activations take all 8. Those
    of fbgemm and x86 take 7 by default; oneDNN's take 8 on every processor, and torch only warns.
    """
    import torch
    from torch.ao.quantization import get_default_qconfig

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        make: Callable[..., Any] = get_default_qconfig(engine).activation
    if engine == "onednn" and not torch.cpu._is_vnni_supported():
        return functools.partial(make, reduce_range=True)
    return make


def _scale(observer: Any) -> Scale:
    scale, zero_point = observer.calculate_qparams()
    return float(scale), int(zero_point)


def static_layer(layer: Any, before: Scale, after: Scale, engine: str) -> Any:
    """A linear layer that takes and gives float, with the scales of what goes in and out."""
    import torch
    from torch.ao.nn import quantized
    from torch.ao.quantization import FixedQParamsObserver, get_default_qconfig

    plain = plain_linear(layer)
    plain.qconfig = get_default_qconfig(engine)
    plain.activation_post_process = FixedQParamsObserver(*after, dtype=torch.quint8)

    made: Any = torch.nn.Sequential(
        quantized.Quantize(*before, dtype=torch.quint8), quantized.Linear.from_float(plain), quantized.DeQuantize()
    )
    made.in_features, made.out_features = layer.in_features, layer.out_features
    return made.eval()
