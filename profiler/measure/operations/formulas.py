"""MACs of an operator, from the shapes of its arguments and its result: `formula(arguments, result)`.

Arguments come in the order of the operator's schema. A formula that does not fit what it gets raises, and the operator
is then named as uncounted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

Formula = Callable[[tuple[Any, ...], Any], int]

FFT_MACS = 2.5  # per point and doubling, complex: 5 n log2 n FLOPs, the count by which FFT libraries are compared
LSTM_GATES, GRU_GATES = 4, 3


def _width(tensor: Any) -> int:
    """The last dimension; of a state with several tensors, that of the first."""
    return int((tensor[0] if isinstance(tensor, list | tuple) else tensor).shape[-1])


def _vectors(tensor: Any) -> int:
    """How many vectors of that width there are."""
    return math.prod(int(size) for size in tensor.shape[:-1])


def _product(left: Any, right: Any) -> int:
    """A matrix product, batched or not. A complex multiply-accumulate is four real ones."""
    columns = right.shape[-1] if right.dim() > 1 else 1
    return int(left.numel()) * int(columns) * (4 if left.is_complex() else 1)


def _factors_at(first: int) -> Formula:
    return lambda arguments, result: _product(arguments[first], arguments[first + 1])


def _linear(arguments: tuple[Any, ...], result: Any) -> int:
    """Each number of the result is a sum over the input's last dimension; weights may be packed."""
    return int(result.numel()) * _width(arguments[0])


def _convolved(points: Any, weight_shape: Iterable[int]) -> int:
    """Each point (of the output; of the input where transposed) meets one filter: all dimensions but the first."""
    _, *filter_shape = weight_shape
    return int(points.numel()) * math.prod(int(size) for size in filter_shape)


def _convolution(arguments: tuple[Any, ...], result: Any) -> int:
    transposed = arguments[6]
    return _convolved(arguments[0] if transposed else result, arguments[1].shape)


def _plain_convolution(arguments: tuple[Any, ...], result: Any) -> int:
    return _convolved(result, arguments[1].shape)


def _convolution_time_first(arguments: tuple[Any, ...], result: Any) -> int:
    kernel, channels_in, _ = arguments[1].shape
    return int(result.numel()) * int(kernel) * int(channels_in)


def _quantized_convolution(arguments: tuple[Any, ...], result: Any) -> int:
    packed = arguments[1]
    weight = packed.weight() if hasattr(packed, "weight") else packed.unpack()[0]
    return _convolved(arguments[0] if packed.transpose() else result, weight.shape)


def _attention(arguments: tuple[Any, ...], result: Any) -> int:
    query, key, value = arguments[:3]
    return _vectors(query) * int(key.shape[-2]) * (_width(query) + _width(value))


def _convolution_backward(arguments: tuple[Any, ...], result: Any) -> int:
    """As often as the convolution itself for each of the two gradients that are wanted: of the input, of the weight."""
    gradient, source, weight = arguments[:3]
    transposed, wanted = arguments[7], arguments[10]
    return _convolved(source if transposed else gradient, weight.shape) * (bool(wanted[0]) + bool(wanted[1]))


def _attention_backward(arguments: tuple[Any, ...], result: Any) -> int:
    """Scores once more, as fused kernels do not keep them, and the gradients of query, key, value and weights."""
    _, query, key, value = arguments[:4]
    return _vectors(query) * int(key.shape[-2]) * (3 * _width(query) + 2 * _width(value))


def _linear_backward(arguments: tuple[Any, ...], result: Any) -> int:
    """mkldnn's: input, gradient, weight, and which gradients are wanted."""
    wanted = arguments[3]
    return int(arguments[1].numel()) * _width(arguments[0]) * (bool(wanted[0]) + bool(wanted[1]))


def _recurrent_layer_backward(arguments: tuple[Any, ...], result: Any) -> int:
    """As often as forward for the gradient of what came in, and once more for that of the weights."""
    steps, from_input, from_state = arguments[:3]
    return 2 * _vectors(steps) * int(from_input.numel() + from_state.numel())


def _lengths(rows: Any) -> list[int]:
    """Lengths of a batch (batch, time, width); the rows of a nested tensor have their own."""
    if rows.is_nested:
        return [int(row[0]) for row in rows._nested_tensor_size().tolist()]
    return [int(rows.shape[1])] * int(rows.shape[0])


def _fused_attention(query: Any, key: Any, value: Any, width: int) -> int:
    """Projections of what is there; scores and sums over the batch padded to its longest row, as the kernel does it."""
    queries, keys, values = _lengths(query), _lengths(key), _lengths(value)
    projections = (2 * sum(queries) + sum(keys) + sum(values)) * width * width
    return projections + len(queries) * max(queries) * max(keys) * 2 * width


def _multi_head_attention(arguments: tuple[Any, ...], result: Any) -> int:
    query, key, value, width = arguments[:4]
    return _fused_attention(query, key, value, width)


def _encoder_layer(arguments: tuple[Any, ...], result: Any) -> int:
    source, width, feed_forward = arguments[0], arguments[1], arguments[14]
    return _fused_attention(source, source, source, width) + 2 * sum(_lengths(source)) * int(feed_forward.numel())


def _recurrent_layer(arguments: tuple[Any, ...], result: Any) -> int:
    """One layer in one direction: every step multiplies with all of both weights."""
    steps, from_input, from_state = arguments[:3]
    return _vectors(steps) * int(from_input.numel() + from_state.numel())


def _quantized_recurrence(gates: int) -> Formula:
    """All layers and directions at once, weights packed: sizes are taken from the input and the state."""

    def macs(arguments: tuple[Any, ...], result: Any) -> int:
        if not isinstance(arguments[3], bool):  # of a packed sequence, whose second argument are its batch sizes
            arguments = (arguments[0], *arguments[2:])
        steps, state, _, _, layers, _, _, bidirectional, *_ = arguments
        hidden, directions = _width(state), 1 + bool(bidirectional)
        inputs = _width(steps) + (int(layers) - 1) * directions * hidden
        return _vectors(steps) * directions * gates * hidden * (inputs + int(layers) * hidden)

    return macs


def _quantized_cell(gates: int) -> Formula:
    def macs(arguments: tuple[Any, ...], result: Any) -> int:
        steps, state = arguments[:2]
        return _vectors(steps) * gates * _width(state) * (_width(steps) + _width(state))

    return macs


def _fourier(points: Any, dimensions: Iterable[int], share: float = 1.0) -> int:
    size = math.prod(points.shape[dimension] for dimension in dimensions)
    return round(share * FFT_MACS * int(points.numel()) * math.log2(size))


FORMULAS: dict[str, Formula] = {
    **dict.fromkeys(("mm", "bmm", "mv", "dot", "vdot", "_int_mm", "_scaled_mm"), _factors_at(0)),
    **dict.fromkeys(("addmm", "addmv", "baddbmm", "addbmm", "_addmm_activation"), _factors_at(1)),
    **dict.fromkeys(
        ("linear", "mkldnn_linear", "_weight_int8pack_mm", "_weight_int4pack_mm", "_weight_int4pack_mm_for_cpu"),
        _linear,
    ),
    **dict.fromkeys(("convolution", "_convolution", "convolution_overrideable"), _convolution),
    **dict.fromkeys(("mkldnn_convolution", "_slow_conv2d_forward", "_conv_depthwise2d"), _plain_convolution),
    "conv_tbc": _convolution_time_first,
    **dict.fromkeys(
        (
            "_scaled_dot_product_flash_attention_for_cpu",
            "_scaled_dot_product_flash_attention",
            "_scaled_dot_product_efficient_attention",
            "_scaled_dot_product_cudnn_attention",
            "_scaled_dot_product_fused_attention_overrideable",
        ),
        _attention,
    ),
    **dict.fromkeys(
        (
            "_scaled_dot_product_flash_attention_for_cpu_backward",
            "_scaled_dot_product_flash_attention_backward",
            "_scaled_dot_product_efficient_attention_backward",
            "_scaled_dot_product_cudnn_attention_backward",
            "_scaled_dot_product_fused_attention_overrideable_backward",
        ),
        _attention_backward,
    ),
    **dict.fromkeys(("convolution_backward", "convolution_backward_overrideable"), _convolution_backward),
    "mkldnn_linear_backward": _linear_backward,
    "mkldnn_rnn_layer_backward": _recurrent_layer_backward,
    "_native_multi_head_attention": _multi_head_attention,
    "_transformer_encoder_layer_fwd": _encoder_layer,
    "mkldnn_rnn_layer": _recurrent_layer,
    "quantized_lstm": _quantized_recurrence(LSTM_GATES),
    "quantized_gru": _quantized_recurrence(GRU_GATES),
    "_fft_c2c": lambda arguments, result: _fourier(arguments[0], arguments[1]),
    "_fft_r2c": lambda arguments, result: _fourier(arguments[0], arguments[1], share=0.5),
    "_fft_c2r": lambda arguments, result: _fourier(result, arguments[1], share=0.5),
}
FORMULAS = {f"aten::{name}": formula for name, formula in FORMULAS.items()}
FORMULAS |= dict.fromkeys(
    (
        "quantized::linear",
        "quantized::linear_relu",
        "quantized::linear_dynamic",
        "quantized::linear_relu_dynamic",
        "quantized::linear_dynamic_fp16",
        "quantized::linear_relu_dynamic_fp16",
        "onednn::qlinear_pointwise",
    ),
    _linear,
)
FORMULAS |= {
    f"quantized::{name}{size}d{ending}": _quantized_convolution
    for name, endings in (("conv", ("", "_relu", "_dynamic")), ("conv_transpose", ("", "_dynamic")))
    for ending in endings
    for size in (1, 2, 3)
}
FORMULAS |= {
    "quantized::quantized_lstm_cell_dynamic": _quantized_cell(LSTM_GATES),
    "quantized::quantized_gru_cell_dynamic": _quantized_cell(GRU_GATES),
    "quantized::quantized_rnn_tanh_cell_dynamic": _quantized_cell(1),
    "quantized::quantized_rnn_relu_cell_dynamic": _quantized_cell(1),
}
