"""What is not counted: operators that the convention leaves out, and work that torch does not see, which is named.

An operator that is not free and has no formula is named too, by the count itself.
"""

from __future__ import annotations

import functools
import importlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

# Products and transforms of numpy, which some feature extractors use. The operator `@` does not pass there.
NUMPY = """
    numpy.dot numpy.einsum numpy.inner numpy.tensordot numpy.fft.fft numpy.fft.ifft numpy.fft.rfft numpy.fft.irfft
    numpy.fft.fftn numpy.fft.ifftn numpy.fft.rfftn numpy.fft.irfftn
"""
# What `torch.jit.optimize_for_inference` makes of a convolution: it goes from the interpreter straight to the kernel.
UNSEEN_IN_SCRIPTS = "prim::mkldnn_convolution"

_ATEN = """
    _local_scalar_dense _to_copy _unsafe_view _reshape_copy _conj_physical _lazy_clone _has_same_storage_numel
    alias clone copy lift lift_fresh detach dequantize int_repr q_scale q_zero_point quantize_per_tensor
    quantize_per_tensor_dynamic quantize_per_channel to_mkldnn _to_dense to_padded_tensor
    _mkldnn_reshape _mkldnn_transpose
    is_pinned is_same_size is_set_to allclose equal _is_all_true _is_any_true _assert_async _functional_assert_async
    _assert_tensor_metadata isin _fused_sdp_choice _choose_qparams_per_tensor choose_qparams_optimized
    resize resize_as set fill zero new_empty new_empty_strided new_full new_ones new_zeros
    empty_like full_like ones_like zeros_like rand_like randn_like randint_like
    bernoulli exponential geometric log_normal multinomial normal poisson random uniform native_dropout
    cat stack _stack _chunk_cat split unsafe_split split_with_sizes unsafe_split_with_sizes unbind chunk
    repeat repeat_interleave flip roll rot90 transpose t squeeze unsqueeze as_strided
    block_diag diag_embed tril triu pixel_shuffle pixel_unshuffle channel_shuffle im2col col2im unfold_backward
    constant_pad_nd reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d
    replication_pad2d replication_pad3d
    as_strided_scatter diagonal_scatter select_scatter slice_scatter gather take put
    index _unsafe_index _unsafe_masked_index index_add index_copy index_fill
    index_put _unsafe_index_put _index_put_impl
    index_reduce index_select masked_fill masked_scatter masked_select scatter scatter_add scatter_reduce where
    embedding embedding_renorm _embedding_bag _embedding_bag_forward_only nonzero nonzero_static
    _pack_padded_sequence _nested_tensor_from_mask _nested_tensor_from_mask_left_aligned _nested_from_padded
    _nested_tensor_size _nested_tensor_strides _nested_tensor_storage_offsets _nested_tensor_from_tensor_list
    sort topk kthvalue median nanmedian mode _aminmax aminmax bucketize searchsorted bincount histc
    _unique _unique2 unique_consecutive unique_dim unique_dim_consecutive count_nonzero
    cummax cummin _cummax_helper _cummin_helper cumprod cumsum _logcumsumexp logcumsumexp
    all any amax amin argmax argmin max min logsumexp nansum std var ldexp selu
    prod sum mean norm native_norm renorm std_mean var_mean segment_reduce trace dist linalg_vector_norm linalg_cross
    _softmax _log_softmax _safe_softmax _masked_softmax softmax log_softmax
    native_layer_norm native_group_norm native_batch_norm _native_batch_norm_legit
    _native_batch_norm_legit_no_training
    _native_batch_norm_legit_functional _batch_norm_no_update _batch_norm_with_update _fused_rms_norm
    quantized_batch_norm _weight_norm_interface
    adaptive_avg_pool1d _adaptive_avg_pool2d _adaptive_avg_pool3d adaptive_max_pool2d adaptive_max_pool3d
    avg_pool1d avg_pool2d avg_pool3d max_pool2d_with_indices max_pool3d_with_indices mkldnn_max_pool2d
    quantized_max_pool1d quantized_max_pool2d
    upsample_linear1d upsample_nearest1d upsample_nearest2d upsample_bilinear2d upsample_bicubic2d
    _upsample_nearest_exact1d _upsample_nearest_exact2d
    add sub rsub mul div floor_divide remainder addr abs relu gelu elu celu glu mish hardtanh hardswish hardsigmoid
    hardshrink softshrink softplus threshold leaky_relu rrelu_with_noise _prelu_kernel log_sigmoid_forward
    eq ne gt ge lt le isnan isinf bitwise_and bitwise_or bitwise_xor complex polar xlogy
    _thnn_fused_lstm_cell _thnn_fused_gru_cell _ctc_loss nll_loss_forward nll_loss2d_forward mse_loss
    _thnn_fused_lstm_cell_backward_impl _thnn_fused_gru_cell_backward _ctc_loss_backward nll_loss_backward
    nll_loss2d_backward mse_loss_backward _softmax_backward_data _log_softmax_backward_data
    native_layer_norm_backward native_group_norm_backward native_batch_norm_backward batch_norm_backward
    native_dropout_backward embedding_dense_backward glu_backward _weight_norm_interface_backward
    _prelu_kernel_backward rrelu_with_noise_backward log_sigmoid_backward leaky_relu_backward elu_backward mish_backward
    threshold_backward hardtanh_backward hardswish_backward hardsigmoid_backward softplus_backward silu_backward
    gelu_backward sigmoid_backward tanh_backward
    select_backward slice_backward diagonal_backward index_select_backward value_selecting_reduction_backward
    max_pool2d_with_indices_backward max_pool3d_with_indices_backward avg_pool2d_backward avg_pool3d_backward
    _adaptive_avg_pool2d_backward _adaptive_avg_pool3d_backward adaptive_max_pool2d_backward
    reflection_pad1d_backward reflection_pad2d_backward replication_pad1d_backward replication_pad2d_backward
    upsample_linear1d_backward upsample_nearest1d_backward upsample_nearest2d_backward upsample_bilinear2d_backward
    _fused_adam _fused_adamw _fused_sgd
"""

_ELSEWHERE = """
    quantized::add quantized::add_relu quantized::add_scalar quantized::mul quantized::mul_scalar quantized::cat
    quantized::relu6 quantized::leaky_relu quantized::hardswish quantized::elu quantized::celu quantized::sigmoid
    quantized::layer_norm quantized::group_norm quantized::instance_norm quantized::batch_norm1d quantized::batch_norm2d
    prim::device prim::layout prims::convert_element_type
    torchaudio::rnnt_loss torchaudio::rnnt_loss_forward
"""

FREE = frozenset(f"aten::{name}" for name in _ATEN.split()) | frozenset(_ELSEWHERE.split())
FREE_TAGS = frozenset({"pointwise", "reduction", "view_copy"})
FREE_NAMESPACES = frozenset({"profiler"})
FREE_PREFIXES = ("aten::_foreach_",)  # elementwise, over lists of tensors, as optimizers do it


@functools.cache
def operator_of(overload: Any) -> Any:
    """What formulas are for: an operator with all its overloads, `add` for `add_` too, which computes the same."""
    operator = getattr(overload, "_overloadpacket", overload)
    namespace, _, name = name_of(operator).partition("::")
    return getattr(getattr(torch.ops, namespace), name, operator) if name else operator


def name_of(operator: Any) -> str:
    return str(getattr(operator, "_qualified_op_name", operator)).rstrip("_")


@functools.cache
def is_free(overload: Any) -> bool:
    name = name_of(operator_of(overload))
    if name in FREE or name.partition("::")[0] in FREE_NAMESPACES or name.startswith(FREE_PREFIXES):
        return True
    return getattr(overload, "is_view", False) or any(tag.name in FREE_TAGS for tag in getattr(overload, "tags", ()))


def hidden_in(module: torch.nn.Module) -> dict[str, int]:
    """What a script computes without dispatching it, with the number of calls."""
    is_script = isinstance(module, torch.jit.ScriptModule)
    hidden = len(module.inlined_graph.findAllNodes(UNSEEN_IN_SCRIPTS)) if is_script else 0
    return {UNSEEN_IN_SCRIPTS: hidden} if hidden else {}


@contextmanager
def numpy_tallied(calls: Counter[str]) -> Iterator[None]:
    def tallied(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*arguments: Any, **more: Any) -> Any:
            calls[name] += 1
            return function(*arguments, **more)

        return call

    with ExitStack() as originals:
        for name in NUMPY.split():
            path, _, attribute = name.rpartition(".")
            module = importlib.import_module(path)
            originals.callback(setattr, module, attribute, getattr(module, attribute))
            setattr(module, attribute, tallied(name, getattr(module, attribute)))
        yield
