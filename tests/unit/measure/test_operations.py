"""MACs of small modules against values worked out by hand, on the road that each module takes by itself."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils import flop_counter

from profiler.measure.operations.formulas import FORMULAS, INSTEAD_OF_TORCHS, SAME_AS
from profiler.measure.operations.uncounted import FREE
from profiler.measure.passes.operations import CONVENTION
from profiler.results.types import Operations
from tests.helpers.operations import count_operations

BATCH, TIME, WIDTH = 2, 7, 8
VECTORS = BATCH * TIME
X = torch.zeros(BATCH, TIME, WIDTH)
SHORT, LONG = 4, 7  # lengths of the rows where they differ
PACKED = pack_padded_sequence(X, torch.tensor([LONG, SHORT]), batch_first=True)


def counted(module: nn.Module, *inputs: Any) -> Operations:
    return count_operations(lambda value: module(*value), inputs, {"part": module.eval()}, 2.0)


def counted_call(call: Callable[[Any], Any], value: Any, **components: nn.Module) -> Operations:
    return count_operations(call, value, components, 1.0)


# Two layers of 5 in both directions: the second hears both directions of the first.
LSTM_PER_STEP = 2 * (4 * 5 * (WIDTH + 5) + 4 * 5 * (2 * 5 + 5))
GRU_PER_STEP = 3 * 5 * (WIDTH + 5)
PROJECTED_PER_STEP = 4 * 5 * (WIDTH + 3) + 5 * 3
ATTENTION = VECTORS * 4 * WIDTH * WIDTH + BATCH * 2 * TIME * TIME * WIDTH  # 4 projections; scores and weighted sum
ENCODER_LAYER = ATTENTION + VECTORS * 2 * WIDTH * 16
SIGNAL = torch.zeros(BATCH, 4, 10)

BY_HAND: dict[str, tuple[Callable[[], nn.Module], tuple[Any, ...], int]] = {
    "linear": (lambda: nn.Linear(WIDTH, 5), (X,), VECTORS * WIDTH * 5),
    "linear without bias": (lambda: nn.Linear(WIDTH, 5, bias=False), (X,), VECTORS * WIDTH * 5),
    # 4 outputs of 6 channels, each a sum over 4 / 2 channels and 3 taps.
    "convolution": (lambda: nn.Conv1d(4, 6, 3, stride=2, groups=2), (SIGNAL,), BATCH * 4 * 6 * (2 * 3)),
    "padded convolution": (lambda: nn.Conv1d(4, 6, 3, padding=1), (SIGNAL,), BATCH * 10 * 6 * (4 * 3)),
    "depthwise convolution": (lambda: nn.Conv1d(4, 4, 3, groups=4), (SIGNAL,), BATCH * 8 * 4 * 3),
    "convolution in 2 dimensions": (lambda: nn.Conv2d(1, 6, 3), (SIGNAL[:, None],), BATCH * (2 * 8) * 6 * 9),
    "transposed convolution": (
        # Each of 10 x 4 inputs is multiplied into 6 / 2 channels and 3 taps.
        lambda: nn.ConvTranspose1d(4, 6, 3, stride=2, groups=2),
        (SIGNAL,),
        BATCH * 10 * 4 * (3 * 3),
    ),
    "convolution with weight norm": (
        lambda: nn.utils.parametrizations.weight_norm(nn.Conv1d(4, 6, 3)),
        (SIGNAL,),
        BATCH * 8 * 6 * (4 * 3),
    ),
    "LSTM": (lambda: nn.LSTM(WIDTH, 5, 2, bidirectional=True, batch_first=True), (X,), VECTORS * LSTM_PER_STEP),
    "LSTM, packed": (lambda: nn.LSTM(WIDTH, 5, 2, bidirectional=True), (PACKED,), (LONG + SHORT) * LSTM_PER_STEP),
    "LSTM with projection": (lambda: nn.LSTM(WIDTH, 5, proj_size=3), (X,), VECTORS * PROJECTED_PER_STEP),
    "LSTM cell": (lambda: nn.LSTMCell(WIDTH, 5), (X[0],), TIME * 4 * 5 * (WIDTH + 5)),
    "GRU": (lambda: nn.GRU(WIDTH, 5, batch_first=True), (X,), VECTORS * GRU_PER_STEP),
    "GRU cell": (lambda: nn.GRUCell(WIDTH, 5), (X[0],), TIME * GRU_PER_STEP),
    "plain RNN": (lambda: nn.RNN(WIDTH, 5), (X,), VECTORS * 5 * (WIDTH + 5)),
    "attention": (lambda: nn.MultiheadAttention(WIDTH, 2, batch_first=True), (X, X, X), ATTENTION),
    "encoder layer": (lambda: nn.TransformerEncoderLayer(WIDTH, 2, 16, batch_first=True), (X,), ENCODER_LAYER),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_a_module_counts_what_is_worked_out_by_hand(name: str) -> None:
    make, inputs, macs = BY_HAND[name]
    found = counted(make(), *inputs)
    assert found.macs == macs
    assert found.flops == 2 * macs
    assert found.per_second == macs / 2.0
    assert found.components == {"part": macs}
    assert found.uncounted == []
    assert sum(found.by_operator.values()) == macs


@pytest.mark.parametrize("name", sorted(BY_HAND.keys() - {"LSTM, packed"}))  # whose lengths are data
def test_the_meta_device_gives_the_same_count(name: str) -> None:
    make, inputs, macs = BY_HAND[name]
    assert counted(make().to("meta"), *(value.to("meta") for value in inputs)).macs == macs


@pytest.fixture
def _plain_kernels() -> Iterator[None]:
    torch.backends.mha.set_fastpath_enabled(False)
    with torch.backends.mkldnn.flags(enabled=False), nn.attention.sdpa_kernel(nn.attention.SDPBackend.MATH):
        yield
    torch.backends.mha.set_fastpath_enabled(True)


@pytest.mark.usefixtures("_plain_kernels")
@pytest.mark.parametrize("name", BY_HAND)
def test_fused_kernels_count_as_their_parts(name: str) -> None:
    make, inputs, macs = BY_HAND[name]
    found = counted(make(), *inputs)
    assert found.macs == macs
    assert not {operator for operator in found.by_operator if "fwd" in operator or "mkldnn" in operator}


def test_counting_takes_the_fused_road_of_the_timed_call() -> None:
    for name, kernel in (
        ("LSTM", "aten::mkldnn_rnn_layer"),
        ("attention", "aten::_native_multi_head_attention"),
        ("encoder layer", "aten::_transformer_encoder_layer_fwd"),
    ):
        make, inputs, macs = BY_HAND[name]
        assert counted(make(), *inputs).by_operator == {kernel: macs}


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_do_not_change_the_count(threads: int) -> None:
    make, inputs, macs = BY_HAND["LSTM"]
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        assert counted(make(), *inputs).macs == macs
    finally:
        torch.set_num_threads(before)


def test_inference_mode_gives_the_same_count() -> None:
    """There composite operators arrive whole, and weight norm is where others stumble."""

    class Inside(nn.Module):
        def __init__(self, module: nn.Module) -> None:
            super().__init__()
            self.module = module

        def forward(self, *inputs: Any) -> Any:
            with torch.inference_mode():
                return self.module(*inputs)

    for name, (make, inputs, macs) in BY_HAND.items():
        assert counted(Inside(make()), *inputs).macs == macs, name


def test_scaled_dot_product_attention_counts_scores_and_weighted_sum_in_full() -> None:
    query, key = torch.zeros(BATCH, 3, TIME, 4), torch.zeros(BATCH, 3, 5, 4)
    value = torch.zeros(BATCH, 3, 5, 4)
    attend = nn.functional.scaled_dot_product_attention
    macs = BATCH * 3 * TIME * 5 * (4 + 4)
    assert counted_call(lambda _: attend(query, key, value), None).macs == macs
    mask = torch.ones(TIME, 5, dtype=torch.bool).tril()
    assert counted_call(lambda _: attend(query, key, value, attn_mask=mask), None).macs == macs
    full = BATCH * 3 * TIME * TIME * (4 + 4)
    assert counted_call(lambda _: attend(query, query, query, is_causal=True), None).macs == full


def test_a_padded_batch_that_is_packed_counts_what_is_left() -> None:
    """In evaluation torch's encoder drops padding before its fused layers; only the scores are padded again."""
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(WIDTH, 2, 16, batch_first=True), 1).eval()
    padding = torch.arange(TIME)[None] >= torch.tensor([[LONG], [SHORT]])
    found = counted_call(lambda x: encoder(x, src_key_padding_mask=padding), X, encoder=encoder)
    scores = BATCH * 2 * TIME * TIME * WIDTH
    assert found.macs == (LONG + SHORT) * (4 * WIDTH * WIDTH + 2 * WIDTH * 16) + scores
    assert found.uncounted == []


def test_fourier_transforms() -> None:
    signal, window = torch.zeros(BATCH, 400), torch.ones(64)
    frames = 400 // 16 + 1
    real = int(1.25 * 64 * 6)  # 64 points, 6 doublings, half of the complex count

    def spectrum(x: Any) -> Any:
        return torch.stft(x, 64, 16, window=window, return_complex=True)

    assert counted_call(spectrum, signal).macs == BATCH * frames * real
    there_and_back = counted_call(lambda x: torch.istft(spectrum(x), 64, 16, window=window), signal)
    assert there_and_back.macs == 2 * BATCH * frames * real
    assert there_and_back.uncounted == []
    assert counted_call(torch.fft.fft, torch.zeros(3, 64, dtype=torch.complex64)).macs == 3 * 2 * real
    # Not a power of two: rounded once, over the whole call.
    assert counted_call(torch.fft.rfft, torch.zeros(5, 400)).macs == round(5 * 1.25 * 400 * math.log2(400))


def test_products_without_modules() -> None:
    a, b = torch.zeros(3, 4), torch.zeros(4, 5)
    assert counted_call(lambda _: a @ b, None).macs == 60
    assert counted_call(lambda _: a @ b[:, 0], None).macs == 12
    assert counted_call(lambda _: torch.einsum("bij,bkj->bik", X, X), None).macs == BATCH * TIME * TIME * WIDTH
    assert counted_call(lambda _: torch.baddbmm(X, X, torch.zeros(BATCH, WIDTH, WIDTH)), None).macs == VECTORS * 64
    complex_product = counted_call(lambda _: a.to(torch.complex64) @ b.to(torch.complex64), None)
    assert complex_product.macs == 4 * 60, "a complex product is four real ones"


DYNAMIC = torch.ao.quantization.quantize_dynamic


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize("name", ["linear", "LSTM", "LSTM, packed", "LSTM cell", "GRU", "GRU cell"])
def test_dynamic_int8_counts_as_float(name: str) -> None:
    make, inputs, macs = BY_HAND[name]
    quantized = DYNAMIC(nn.Sequential(make()), {nn.Linear, nn.LSTM, nn.LSTMCell, nn.GRU, nn.GRUCell}, torch.qint8)
    found = counted(quantized, *inputs)
    assert found.macs == macs
    assert all("quantized" in operator for operator in found.by_operator)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_static_int8_convolutions_count_as_float() -> None:
    quantization = torch.ao.quantization
    stubs = quantization.QuantStub(), quantization.DeQuantStub()
    model = nn.Sequential(stubs[0], nn.Conv1d(4, 6, 3, groups=2), nn.ConvTranspose1d(6, 4, 3), stubs[1]).eval()
    model.qconfig = quantization.get_default_qconfig("qnnpack")  # per tensor: what transposed ones support
    quantization.prepare(model, inplace=True)
    model(SIGNAL)
    quantization.convert(model, inplace=True)
    found = counted(model, SIGNAL)
    assert found.macs == BATCH * 8 * 6 * (2 * 3) + BATCH * 8 * 6 * (4 * 3)
    assert set(found.by_operator) == {"quantized::conv1d", "quantized::conv_transpose1d"}


def test_autocast_counts_the_same() -> None:
    linear = nn.Linear(WIDTH, 5)
    with torch.autocast("cpu", torch.bfloat16):
        assert counted(linear, X).components == {"part": VECTORS * WIDTH * 5}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_scripts_are_counted() -> None:
    model = nn.Sequential(nn.Linear(WIDTH, 4), nn.Conv1d(TIME, 3, 1)).eval()
    macs = VECTORS * WIDTH * 4 + BATCH * 4 * 3 * TIME
    for script in (torch.jit.script(model), torch.jit.trace(model, X), torch.jit.freeze(torch.jit.script(model))):
        for _ in range(3):  # the interpreter optimises after the first calls
            assert counted(script, X).components == {"part": macs}


class TwoParts(nn.Module):
    """A front part that is called, and a back part of which methods are used, as searches do."""

    def __init__(self) -> None:
        super().__init__()
        self.front, self.back, self.unused = nn.Linear(WIDTH, WIDTH), Back(), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.back.score(self.front(x))
        return y @ y.transpose(1, 2)


class Back(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.matrix = nn.MultiheadAttention(WIDTH, 2), nn.Parameter(torch.zeros(WIDTH, 3))

    def score(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x, x, x.clone())[0] @ self.matrix[:, :2]


def test_components_own_what_is_done_with_their_weights() -> None:
    model = TwoParts().eval()
    found = counted_call(model, X, front=model.front, back=model.back, unused=model.unused)
    attention = VECTORS * 4 * WIDTH * WIDTH + TIME * 2 * BATCH * BATCH * WIDTH  # time is its batch: not batch first
    assert found.components == {
        "front": VECTORS * WIDTH * WIDTH,
        "back": attention + VECTORS * WIDTH * 2,
        "other": BATCH * TIME * TIME * 2,
    }
    assert sum(found.components.values()) == found.macs
    assert found.uncounted == [], "what was not called has nothing to count"


def test_the_inner_of_two_nested_components_owns_its_part() -> None:
    model = nn.Sequential(nn.Linear(WIDTH, 4), nn.Linear(4, 2))
    found = counted_call(model, X, whole=model, head=model[1])
    assert found.components == {"whole": VECTORS * WIDTH * 4, "head": VECTORS * 4 * 2}


def test_what_multiplies_and_has_no_formula_is_named() -> None:
    found = counted_call(lambda x: torch.cdist(x, x) + torch.cdist(x, x), X)
    assert found.uncounted[0] == "aten::_cdist_forward (2 calls)"
    found = counted_call(lambda x: numpy.fft.rfft(x.numpy()), X)
    assert found.uncounted[0] == "numpy.fft.rfft (1 call)"
    sparse = torch.eye(WIDTH).to_sparse()
    assert counted_call(lambda x: sparse @ x, X[0].T).uncounted[0] == "aten::mm (1 call)", "zeros are not multiplied"


def test_an_operator_from_elsewhere_is_named() -> None:
    @torch.library.custom_op("operations_test::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x @ torch.zeros(WIDTH, WIDTH)

    linear = nn.Linear(WIDTH, 3)
    found = counted_call(lambda x: linear(twice(x)), X, linear=linear)
    assert found.uncounted == ["operations_test::twice (1 call)"]
    assert found.macs == VECTORS * WIDTH * 3


@pytest.mark.parametrize(
    ("operator", "compute"),
    [
        ("addmm", lambda x: nn.functional.linear(x, torch.zeros(3, WIDTH), torch.zeros(3))),
        ("addmm", lambda x: torch.zeros(TIME, TIME).addmm_(x[0], x[1].T)),
        ("convolution", lambda x: nn.functional.conv1d(x, torch.zeros(3, TIME, 2))),
        ("_scaled_dot_product_flash_attention", lambda x: nn.functional.scaled_dot_product_attention(*[x[None]] * 3)),
    ],
)
def test_what_torch_has_a_formula_for_has_torchs(
    monkeypatch: pytest.MonkeyPatch, operator: str, compute: Callable[[Any], Any]
) -> None:
    """Also where the operator is not the same, but computes the same: in place, or on a CPU."""
    names = {operator, f"{operator}_for_cpu"}  # the second has a formula of its own from torch 2.15 on
    for known in [known for known in flop_counter.flop_registry if str(known).removeprefix("aten.") in names]:
        monkeypatch.setitem(flop_counter.flop_registry, known, lambda *_, **__: 246)
    assert counted_call(compute, X).macs == 123


def test_a_formula_that_someone_registers_with_torch_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    @torch.library.custom_op("operations_test::thrice", mutates_args=())
    def thrice(x: torch.Tensor) -> torch.Tensor:
        return x * 3

    monkeypatch.setattr(flop_counter, "flop_registry", dict(flop_counter.flop_registry))
    flop_counter.register_flop_formula(torch.ops.operations_test.thrice)(lambda shape, **_: 2 * math.prod(shape))
    found = counted_call(thrice, X)
    assert found.by_operator == {"operations_test::thrice": VECTORS * WIDTH}
    assert found.uncounted == []


def test_our_formulas_stand_where_torch_has_none_or_one_that_does_not_fit() -> None:
    torchs = {str(operator).replace(".", "::") for operator in flop_counter.flop_registry}
    replaced = set(FORMULAS) & torchs
    assert replaced
    assert replaced <= INSTEAD_OF_TORCHS, "older versions of torch have fewer to replace"
    assert set(SAME_AS.values()) <= torchs


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_convolutions_that_a_script_hides_are_named() -> None:
    hidden = torch.jit.optimize_for_inference(torch.jit.script(nn.Sequential(nn.Conv2d(1, 4, 3)).eval()))
    linear = nn.Linear(8, 8)
    found = counted_call(lambda x: linear(hidden(x)), SIGNAL[:, None], front=hidden, back=linear)
    assert found.uncounted[0] == "prim::mkldnn_convolution (1 call)"
    assert found.uncounted[1].startswith("front: ")
    assert found.components == {"front": 0, "back": BATCH * 4 * 2 * 8 * 8}


def test_a_zero_is_never_silent() -> None:
    norm, linear = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2)
    found = counted_call(nn.Sequential(norm, nn.Dropout(), linear), X, norm=norm, linear=linear, dropout=nn.Dropout())
    assert found.components == {"norm": 0, "linear": VECTORS * WIDTH * 2}
    assert [entry.partition(":")[0] for entry in found.uncounted] == ["norm"]
    nothing = counted_call(lambda x: x + 1, X)
    assert (nothing.macs, nothing.components) == (0, {})
    assert nothing.uncounted == ["the whole call: 0, for torch saw nothing in it that the convention counts"]


def test_nothing_is_left_behind() -> None:
    linear = nn.Linear(WIDTH, 2)
    rfft = numpy.fft.rfft

    def fails(x: Any) -> None:
        linear(x)
        raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"):
        counted_call(fails, X, part=linear)
    assert numpy.fft.rfft is rfft
    assert not torch.nn.modules.module._global_forward_hooks
    assert not torch.nn.modules.module._global_forward_pre_hooks
    assert linear(X).requires_grad


def test_the_result_goes_into_a_file() -> None:
    found = counted(nn.Linear(WIDTH, 2), X)
    assert Operations(**json.loads(json.dumps(found.model_dump()))) == found
    assert "2 FLOPs" in CONVENTION


def test_every_operator_of_the_tables_exists() -> None:
    for name in FREE | set(FORMULAS) | set(SAME_AS):
        namespace, _, operator = name.partition("::")
        if namespace == "torchaudio":
            continue  # they are there with its native library alone
        known = getattr(torch.ops, namespace)
        assert hasattr(known, operator) or hasattr(known, f"{operator}_"), name
    assert not FREE & (set(FORMULAS) | set(SAME_AS))


# -- bytes moved


def test_every_operator_moves_its_inputs_and_outputs_once() -> None:
    layer = torch.nn.Linear(8, 4)
    counted = count_operations(layer, torch.zeros(2, 8), {"layer": layer}, 1.0)
    assert counted.bytes_moved == 4 * (2 * 8 + 8 * 4 + 4 + 2 * 4)


def test_views_move_nothing() -> None:
    counted = count_operations(lambda x: x.t().reshape(4, 4)[1:].unsqueeze(0), torch.zeros(2, 8), {}, 1.0)
    assert counted.bytes_moved == 2 * 4 * 16, "only the copy that reshape makes: 16 numbers read, 16 written"
