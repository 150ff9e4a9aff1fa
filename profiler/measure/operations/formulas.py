"""MACs of operators that torch has no formula for, or one that does not fit. All others have torch's own.

A formula is called with the operator's arguments, in the order of its schema, and with its result as `out_val`. One
that does not fit what it gets raises, and the operator is then named as uncounted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch
from torch.utils import flop_counter

from profiler.measure.operations import FLOPS_PER_MAC

Formula = Callable[..., int]

FFT_MACS = 2.5  # per point and doubling, complex: 5 n log2 n FLOPs, the count by which FFT libraries are compared
LSTM_GATES, GRU_GATES = 4, 3
FORMULAS: dict[str, Formula] = {}  # those below, by the name of the operator


def _of(*names: str) -> Callable[[Formula], Formula]:
    """The formula of these operators; without a namespace, they are of aten."""

    def register(formula: Formula) -> Formula:
        FORMULAS.update({name if "::" in name else f"aten::{name}": formula for name in names})
        return formula

    return register


def _width(tensor: Any) -> int:
    """The last dimension; of a state with several tensors, that of the first."""
    return int((tensor[0] if isinstance(tensor, list | tuple) else tensor).shape[-1])


def _vectors(tensor: Any) -> int:
    """How many vectors of that width there are."""
    return math.prod(int(size) for size in tensor.shape[:-1])


def _real(tensor: Any) -> int:
    """A complex multiply-accumulate is four real ones."""
    return 4 if tensor.is_complex() else 1


@_of("mv", "dot", "vdot")
def _by_vector(left: Any, *rest: Any, **more: Any) -> int:
    return int(left.numel()) * _real(left)


@_of("addmv")
def _by_vector_added(to: Any, left: Any, *rest: Any, **more: Any) -> int:
    return _by_vector(left)


@_of("linear", "mkldnn_linear", "_weight_int8pack_mm", "_weight_int4pack_mm", "_weight_int4pack_mm_for_cpu")
@_of("onednn::qlinear_pointwise", *(f"quantized::linear{relu}" for relu in ("", "_relu")))
@_of(*(f"quantized::linear{relu}_dynamic{half}" for relu in ("", "_relu") for half in ("", "_fp16")))
def _linear(source: Any, *rest: Any, out_val: Any, **more: Any) -> int:
    """Each number of the result is a sum over the input's last dimension; weights may be packed."""
    return int(out_val.numel()) * _width(source)


@_of("mkldnn_linear_backward")
def _linear_backward(source: Any, gradient: Any, weight: Any, wanted: Any, **more: Any) -> int:
    return int(gradient.numel()) * _width(source) * (bool(wanted[0]) + bool(wanted[1]))


def _convolved(points: Any, weight: Any) -> int:
    """Each point (of the output; of the input where transposed) meets one filter: all dimensions but the first."""
    return int(points.numel()) * math.prod(int(size) for size in weight.shape[1:])


@_of("mkldnn_convolution", "cudnn_convolution", "_slow_conv2d_forward", "_conv_depthwise2d")
def _convolution(source: Any, weight: Any, *rest: Any, out_val: Any, **more: Any) -> int:
    return _convolved(out_val, weight)


@_of("conv_tbc")
def _convolution_time_first(source: Any, weight: Any, *rest: Any, out_val: Any, **more: Any) -> int:
    return int(out_val.numel()) * int(weight.shape[0]) * int(weight.shape[1])


@_of(*(f"quantized::conv{size}d{ending}" for size in (1, 2, 3) for ending in ("", "_relu", "_dynamic")))
@_of(*(f"quantized::conv_transpose{size}d{ending}" for size in (1, 2, 3) for ending in ("", "_dynamic")))
def _quantized_convolution(source: Any, packed: Any, *rest: Any, out_val: Any, **more: Any) -> int:
    weight = packed.weight() if hasattr(packed, "weight") else packed.unpack()[0]
    return _convolved(source if packed.transpose() else out_val, weight)


@_of("convolution_backward", "convolution_backward_overrideable")
def _convolution_backward(gradient: Any, source: Any, weight: Any, *rest: Any, **more: Any) -> int:
    """As often as the convolution itself for each of the two gradients that are wanted: of the input, of the weight."""
    transposed, wanted = rest[4], rest[7]
    return _convolved(source if transposed else gradient, weight) * (bool(wanted[0]) + bool(wanted[1]))


def _lengths(rows: Any) -> list[int]:
    """Lengths of a batch (batch, time, width); the rows of a nested tensor have their own."""
    if rows.is_nested:
        return [int(row[0]) for row in rows._nested_tensor_size().tolist()]
    return [int(rows.shape[1])] * int(rows.shape[0])


@_of("_native_multi_head_attention")
def _fused_attention(query: Any, key: Any, value: Any, width: int, *rest: Any, **more: Any) -> int:
    """Projections of what is there; scores and sums over the batch padded to its longest row, as the kernel does it."""
    queries, keys, values = _lengths(query), _lengths(key), _lengths(value)
    projections = (2 * sum(queries) + sum(keys) + sum(values)) * width * width
    return projections + len(queries) * max(queries) * max(keys) * 2 * width


@_of("_transformer_encoder_layer_fwd")
def _encoder_layer(source: Any, width: int, *rest: Any, **more: Any) -> int:
    feed_forward = rest[12]
    return _fused_attention(source, source, source, width) + 2 * sum(_lengths(source)) * int(feed_forward.numel())


@_of("mkldnn_rnn_layer")
def _recurrent_layer(steps: Any, from_input: Any, from_state: Any, *rest: Any, **more: Any) -> int:
    """One layer in one direction: every step multiplies with all of both weights."""
    return _vectors(steps) * int(from_input.numel() + from_state.numel())


@_of("mkldnn_rnn_layer_backward")
def _recurrent_layer_backward(*arguments: Any, **more: Any) -> int:
    """As often as forward for the gradient of what came in, and once more for that of the weights."""
    return 2 * _recurrent_layer(*arguments)


def _quantized_recurrence(gates: int, steps: Any, state: Any, *rest: Any, **more: Any) -> int:
    """All layers and directions at once, weights packed: sizes are taken from the input and the state."""
    if not isinstance(rest[1], bool):  # of a packed sequence, whose second argument are its batch sizes
        state, *rest = rest  # type: ignore[assignment]
    layers, bidirectional = int(rest[2]), bool(rest[5])
    hidden, directions = _width(state), 1 + bidirectional
    inputs = _width(steps) + (layers - 1) * directions * hidden
    return _vectors(steps) * directions * gates * hidden * (inputs + layers * hidden)


def _quantized_cell(gates: int, steps: Any, state: Any, *rest: Any, **more: Any) -> int:
    return _vectors(steps) * gates * _width(state) * (_width(steps) + _width(state))


for _name, _gates in (("lstm", LSTM_GATES), ("gru", GRU_GATES)):
    _of(f"quantized_{_name}")(partial(_quantized_recurrence, _gates))
for _name, _gates in (("lstm", LSTM_GATES), ("gru", GRU_GATES), ("rnn_tanh", 1), ("rnn_relu", 1)):
    _of(f"quantized::quantized_{_name}_cell_dynamic")(partial(_quantized_cell, _gates))


@_of("_fft_c2c")
def _fourier(points: Any, dimensions: Iterable[int], *rest: Any, share: float = 1.0, **more: Any) -> int:
    size = math.prod(points.shape[dimension] for dimension in dimensions)
    return round(share * FFT_MACS * int(points.numel()) * math.log2(size))


_of("_fft_r2c")(partial(_fourier, share=0.5))


@_of("_fft_c2r")
def _fourier_to_real(points: Any, dimensions: Iterable[int], *rest: Any, out_val: Any, **more: Any) -> int:
    return _fourier(out_val, dimensions, share=0.5)


# Torch has formulas for these too. Of a grouped convolution, it counts the gradient of the weights `groups` times. The
# other two it reads as if their arguments were those of `convolution`: it raises, or takes them for transposed.
INSTEAD_OF_TORCHS = {"aten::convolution_backward", "aten::_slow_conv2d_forward", "aten::cudnn_convolution"}

# Operators that compute what another one does, for which torch has a formula. Products stand for themselves, because
# torch's formulas get shapes, which do not tell complex numbers from real ones.
_FLASH = "aten::_scaled_dot_product_flash_attention"
_OVERRIDEABLE = "aten::_scaled_dot_product_fused_attention_overrideable"
SAME_AS = {name: name for name in ("aten::mm", "aten::bmm", "aten::addmm", "aten::baddbmm")} | {
    "aten::_int_mm": "aten::mm",
    "aten::_addmm_activation": "aten::addmm",
    "aten::addbmm": "aten::baddbmm",
    f"{_FLASH}_for_cpu": _FLASH,
    f"{_FLASH}_for_cpu_backward": f"{_FLASH}_backward",
    _OVERRIDEABLE: _FLASH,
    f"{_OVERRIDEABLE}_backward": f"{_FLASH}_backward",
}


def flop_formulas() -> dict[Any, Formula]:
    """By operator, as FlopCounterMode takes them in addition to torch's own; in FLOPs, as torch's are."""
    torchs = flop_counter.flop_registry
    same = {name: partial(_torchs, torchs[_operator(other)]) for name, other in SAME_AS.items()}
    return {
        _operator(name): _flops(formula)
        for name, formula in (FORMULAS | same).items()
        if _operator(name) not in torchs or name in INSTEAD_OF_TORCHS or SAME_AS.get(name) == name
    }


def _operator(name: str) -> Any:
    """The name itself where this torch is built without the operator."""
    namespace, _, operator = name.partition("::")
    return getattr(getattr(torch.ops, namespace), operator, name)


def _torchs(formula: Formula, *arguments: Any, **more: Any) -> int:
    return formula(*arguments, **more) * _real(arguments[0]) // FLOPS_PER_MAC


def _flops(formula: Formula) -> Formula:
    def flops(*arguments: Any, **more: Any) -> int:
        return FLOPS_PER_MAC * formula(*arguments, **more)

    flops._get_raw = True  # type: ignore[attr-defined]  # else torch gives it shapes alone
    return flops
