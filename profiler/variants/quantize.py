"""int8 weights: dynamic, with torch's own engines or compiled; weight-only; and static.

torchao is the successor of torch.ao.quantization and is used where it has one: weight-only, and dynamic under
torch.compile, for which it is made. It knows no engines and no recurrent layers, and its dynamic layers are slower than
float ones unless compiled; for these torch's own int8 layers are used.

Static: each linear layer takes float, computes in int8 with scales found on sample speech, and gives float. Whole-graph
tools need a model that can be exported, which few speech models can; layer by layer works for any.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from profiler.errors import NotSupported
from profiler.processes import TrialFailed, device_of, run_all, trial
from profiler.variants import layers

if TYPE_CHECKING:
    import torch

    from profiler.models.model import Model


NEEDS_CPU = "torch's int8 layers run on a CPU only"
FAST_PATH_OFF = "torch's fast path for TransformerEncoderLayer takes float weights only, and is off."
Scale = tuple[float, int]  # scale and zero point
Make = Callable[[Any], Any]  # of a layer, another one


def dynamic(model: Model, inputs: list[Any], recurrent: bool, engine: str | None) -> layers.Step:
    """Linear layers, and recurrent ones if wanted, with int8 weights and activations scaled call by call."""
    require_cpu(model)
    engine = use_engine(engine)
    chosen, notes = choose_linear(model)
    if recurrent:
        cells, more = _choose_recurrent(model)
        if not cells:
            raise NotSupported("the model has no recurrent layer that torch has an int8 form of; use layers: linear")
        chosen, notes = chosen + cells, notes + more
    what = "linear and recurrent layers" if recurrent else "linear layers"
    return swap(model, inputs, chosen, dynamic_layer, f"dynamic int8 of {what}", notes, engine)


def weight_only(model: Model, inputs: list[Any]) -> layers.Step:
    """Linear layers with int8 weights, turned to float again in each call."""
    return _with_torchao(model, inputs, "Int8WeightOnlyConfig", "weight-only int8")


def dynamic_compiled(model: Model, inputs: list[Any]) -> layers.Step:
    """Linear layers with int8 weights and activations, in a form that torch.compile makes kernels of."""
    return _with_torchao(model, inputs, "Int8DynamicActivationInt8WeightConfig", "dynamic int8")


def require_cpu(model: Model) -> None:
    if (device := device_of(model)) != "cpu":
        raise NotSupported(f"{NEEDS_CPU}, and the model is on {device}")


# -- which layers


def choose_linear(model: Model) -> tuple[list[Any], list[str]]:
    """The layers that compute as nn.Linear does, and notes on those that are nn.Linear by name only."""
    from torch import nn
    from torch.nn.utils.parametrize import is_parametrized

    modules = layers.all_modules(model)
    linear = [module for module in modules if isinstance(module, nn.Linear)]
    chosen = [
        layer
        for layer in linear
        if type(layer).forward is nn.Linear.forward
        and not isinstance(layer, nn.modules.linear.NonDynamicallyQuantizableLinear)
        and ("weight" in layer._parameters or is_parametrized(layer, "weight"))
    ]
    left = [layer for layer in linear if not any(layer is one for one in chosen)]
    attention = [module for module in modules if isinstance(module, nn.MultiheadAttention)]
    notes = []
    if attention:
        notes.append(
            f"{len(attention)} MultiheadAttention stay in float: torch's own attention uses its weights directly."
        )
        left = [layer for layer in left if not any(layer is module.out_proj for module in attention)]
    if left:
        notes.append(f"Linear layers that compute in a way of their own stay in float: {layers.counted_classes(left)}.")
    return chosen, notes


def _choose_recurrent(model: Model) -> tuple[list[Any], list[str]]:
    """torch's int8 recurrent layers know neither projections nor a layer without bias, and would compute nonsense."""
    from torch import nn

    recurrent = [module for module in layers.all_modules(model) if isinstance(module, (nn.RNNBase, nn.RNNCellBase))]
    kinds = (nn.LSTM, nn.GRU, nn.LSTMCell, nn.GRUCell, nn.RNNCell)
    chosen = [cell for cell in recurrent if type(cell) in kinds and cell.bias and not getattr(cell, "proj_size", 0)]
    left = [cell for cell in recurrent if not any(cell is one for one in chosen)]
    named = layers.counted_classes(left)
    return chosen, [f"Recurrent layers that torch has no int8 form of stay in float: {named}."] if left else []


# -- conversion


def swap(
    model: Model, inputs: list[Any], chosen: list[Any], make: Make, kind: str, notes: list[str], engine: str
) -> layers.Step:
    """Turn each layer into what `make` makes of it, and see that the model still runs.

    Some code takes a layer's weight without calling the layer, which an int8 layer cannot serve. When the model does
    not run with all layers converted, only those that are called are.
    """
    if not chosen:
        raise NotSupported(" ".join([f"the model has no layer for {kind}.", *notes]))
    notes = _without_fast_path(model) + notes
    originals = [(layer, layers.become(layer, make(layer))) for layer in chosen]
    try:
        trial(model, lambda: run_all(model, inputs), None)
    except TrialFailed as failure:
        for layer, original in originals:
            layers.become(layer, original)
        originals = _swap_called(model, inputs, chosen, make, str(failure))
        left_out = len(chosen) - len(originals)
        notes.append(f"Layers that stay in float because their weights are used without calling them: {left_out}.")
    still_there = layers.unique_parameters(model)
    weights = {id(p): p for _, original in originals for p in layers.own_parameters(original) if p.dim() > 1}
    gone = sum(weight.numel() for key, weight in weights.items() if key not in still_there)
    if shared := [weight for key, weight in weights.items() if key in still_there]:
        notes.append(f"Weights that other layers share, and that are kept in float for them: {len(shared)}.")
    return layers.Step(kind, [layer for layer, _ in originals], gone, engine, notes=notes)


def _swap_called(model: Model, inputs: list[Any], chosen: list[Any], make: Make, failure: str) -> list[tuple[Any, Any]]:
    with layers.failing("the model does not run with int8 layers"):
        modules = layers.all_modules(model)
        called = {id(modules[number]) for number in layers.observe_calls(model, inputs).called}
        some = [layer for layer in chosen if id(layer) in called]
        if len(some) in (0, len(chosen)):
            raise TrialFailed(failure)
        originals = [(layer, layers.become(layer, make(layer))) for layer in some]
        trial(model, lambda: run_all(model, inputs), None)
    return originals


def _without_fast_path(model: Model) -> list[str]:
    import torch

    if not any(isinstance(module, torch.nn.TransformerEncoderLayer) for module in layers.all_modules(model)):
        return []
    torch.backends.mha.set_fastpath_enabled(False)
    return [FAST_PATH_OFF]


def plain_linear(layer: Any) -> torch.nn.Linear:
    """An nn.Linear with the same weight, which int8 layers can be made from: they take no subclass."""
    from torch import nn

    plain = nn.Linear(1, 1, bias=layer.bias is not None)
    plain.in_features, plain.out_features = layer.in_features, layer.out_features
    plain.weight = nn.Parameter(layer.weight.detach(), requires_grad=False)
    if layer.bias is not None:
        plain.bias = nn.Parameter(layer.bias.detach(), requires_grad=False)
    return plain.eval()


def dynamic_layer(layer: Any, qconfig: Any = None) -> Any:
    """torch's int8 layer made from a float one, for the engine that is set; `qconfig`: with other scales than usual."""
    from torch import ao, nn

    kinds = ao.nn.quantized.dynamic
    source = plain_linear(layer) if isinstance(layer, nn.Linear) else layer
    source.qconfig = qconfig or ao.quantization.default_dynamic_qconfig
    converted = getattr(kinds, type(source).__name__).from_float(source).eval()
    if isinstance(layer, nn.RNNBase):
        converted.flatten_parameters = lambda: None  # libraries call it before each use; packed weights lie together
    return converted


def _with_torchao(model: Model, inputs: list[Any], config_class: str, kind: str) -> layers.Step:
    try:
        import torchao.quantization as ao
    except ImportError as error:
        raise NotSupported("it needs torchao, which is not installed: pip install torchao") from error
    config = getattr(ao, config_class)(set_inductor_config=False)

    def make(layer: Any) -> Any:
        plain = plain_linear(layer)
        ao.quantize_(plain, config, filter_fn=lambda module, name: True)
        return plain

    chosen, notes = choose_linear(model)
    return swap(model, inputs, chosen, make, f"{kind} of linear layers", notes, "torchao")


def use_engine(wanted: str | None) -> str:
    """Set the engine of this process, and so of its forks, and give its name; without a wish torch's own choice stays.

    Weights are packed in the layout of the engine that is set, so this comes before any conversion.
    """
    import torch

    quantized = torch.backends.quantized
    there = [name for name in quantized.supported_engines if name != "none"]
    if wanted is None:
        wanted = quantized.engine
        if wanted not in there:
            raise NotSupported("this build of torch has no engine for int8 on this machine")
    elif wanted not in there:
        raise NotSupported(f"the engine {wanted} is not there: torch has {', '.join(sorted(there)) or 'none'} here")
    quantized.engine = wanted
    return str(wanted)


def static(model: Model, inputs: list[Any], engine: str | None) -> layers.Step:
    """Linear layers that the sample speech reaches, with int8 weights and activations."""
    require_cpu(model)
    engine = use_engine(engine)
    chosen, notes = choose_linear(model)
    with layers.failing("the calibration failed"):
        scales = trial(model, lambda: _calibrate(model, inputs, chosen, engine), list[tuple[Scale, Scale] | None])
    found = {id(layer): pair for layer, pair in zip(chosen, scales, strict=True) if pair is not None}
    reached = [layer for layer in chosen if id(layer) in found]
    if len(reached) < len(chosen):
        notes.append(f"Linear layers that the speech does not reach stay in float: {len(chosen) - len(reached)}.")

    def make(layer: Any) -> Any:
        return static_layer(layer, *found[id(layer)], engine)

    return swap(model, inputs, reached, make, "static int8 of linear layers", notes, engine)


def _calibrate(model: Model, inputs: list[Any], chosen: list[Any], engine: str) -> list[tuple[Scale, Scale] | None]:
    """Scale and zero point of what goes in and out of each layer, None for one that is never called."""
    make = observer_of(engine)
    observers: dict[int, tuple[Any, Any]] = {}

    def watch(layer: Any, arguments: tuple[Any, ...], output: Any) -> None:
        before, after = observers.setdefault(id(layer), (make(), make()))
        before(arguments[0].float())
        after(output.float())

    with layers.hooked([layer.register_forward_hook(watch) for layer in chosen]), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # observers advise on settings that the engine's own defaults chose
        run_all(model, inputs)
        found = [observers.get(id(layer)) for layer in chosen]
        return [(_scale(pair[0]), _scale(pair[1])) if pair is not None else None for pair in found]


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
