"""Weights move to new memory, and nothing else about a model changes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import nn

from profiler.measure.layout import move_weights


class Tied(nn.Module):
    """The embedding's weights are those of the output layer; a buffer is there too."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 16)
        self.output = nn.Linear(16, 20, bias=False)
        self.output.weight = self.embedding.weight
        self.norm = nn.BatchNorm1d(16)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.output(self.norm(self.embedding(tokens)))
        return found


@pytest.fixture
def model() -> nn.Module:
    torch.manual_seed(0)
    return Tied().eval()


def tensors(module: nn.Module) -> Iterator[torch.Tensor]:
    yield from module.parameters()
    yield from module.buffers()


def test_every_weight_lies_elsewhere_and_has_the_same_values(model: nn.Module) -> None:
    kept = [tensor.detach() for tensor in tensors(model)]  # keeps the old memory in use
    move_weights([model])
    for before, after in zip(kept, tensors(model), strict=True):
        assert torch.equal(before, after)
        assert before.data_ptr() != after.data_ptr()


def test_the_model_answers_as_before(model: nn.Module) -> None:
    tokens = torch.arange(10)
    before = model(tokens)
    move_weights([model])
    assert torch.equal(model(tokens), before)


def test_tied_weights_stay_tied(model: nn.Module) -> None:
    move_weights([model])
    assert isinstance(model, Tied)
    assert model.embedding.weight is model.output.weight
    with torch.no_grad():
        model.embedding.weight[0, 0] = 42.0
    assert model.output.weight[0, 0] == 42.0


def test_a_part_that_several_models_share_stays_shared(model: nn.Module) -> None:
    encoder = nn.Linear(4, 4)
    first, second = nn.Sequential(encoder, nn.ReLU()), nn.Sequential(encoder)
    move_weights([first, second])
    assert first[0].weight is second[0].weight
    assert first[0].weight.data_ptr() == second[0].weight.data_ptr()


def test_two_parameters_of_one_memory_go_on_sharing_it() -> None:
    """As some libraries tie weights: another parameter, transposed, on the memory of the first."""
    module = nn.Module()
    module.first = nn.Parameter(torch.arange(6.0).reshape(2, 3))
    module.second = nn.Parameter(module.first.data.t())
    kept = module.first.detach()
    move_weights([module, module])
    assert module.first.data_ptr() == module.second.data_ptr() != kept.data_ptr()
    assert torch.equal(module.second, module.first.t())
    with torch.no_grad():
        module.first[0, 1] = 42.0
    assert module.second[1, 0] == 42.0


def test_a_parameter_is_the_same_object_so_an_optimiser_still_knows_it(model: nn.Module) -> None:
    before = list(model.parameters())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    move_weights([model])
    assert all(one is other for one, other in zip(before, model.parameters(), strict=True))
    model(torch.arange(10)).sum().backward()
    values = [parameter.detach().clone() for parameter in model.parameters()]
    optimizer.step()
    assert any(not torch.equal(one, other) for one, other in zip(values, model.parameters(), strict=True))


def test_a_view_of_something_larger_stays_where_it_is() -> None:
    """The rows of one table, as two parts of a model see them."""
    table = torch.arange(12.0).reshape(4, 3)
    module = nn.Module()
    module.register_buffer("upper", table[:2])
    module.register_buffer("lower", table[2:])
    places = [tensor.data_ptr() for tensor in module.buffers()]
    move_weights([module])
    assert [tensor.data_ptr() for tensor in module.buffers()] == places
    table[0, 0] = 99.0
    assert next(module.buffers())[0, 0] == 99.0


def test_the_order_in_memory_is_kept() -> None:
    """A kernel may be chosen by it: a copy in another order would be another model."""
    layer = nn.Conv2d(3, 8, 3).to(memory_format=torch.channels_last)
    strides = layer.weight.stride()
    move_weights([layer])
    assert layer.weight.stride() == strides
    assert layer.weight.is_contiguous(memory_format=torch.channels_last)


def test_weights_made_in_inference_mode_are_no_error() -> None:
    with torch.inference_mode():
        module = nn.Linear(3, 3)
    value = torch.ones(1, 3)
    with torch.inference_mode():
        before = module(value)
        move_weights([module])
        assert torch.equal(module(value), before)


@pytest.mark.filterwarnings("ignore")  # torch would rather have another library do it
def test_packed_int8_weights_are_left_alone() -> None:
    plain = nn.Sequential(nn.Linear(8, 8), nn.LSTM(8, 8))
    converted = torch.ao.quantization.quantize_dynamic(plain, {nn.Linear, nn.LSTM}, torch.qint8)
    value = torch.randn(4, 1, 8)
    before = converted(value)[0]
    move_weights([converted])
    assert torch.equal(converted(value)[0], before)


def test_a_module_without_weights_is_no_error() -> None:
    move_weights([nn.ReLU(), nn.Module()])


def test_an_lstm_computes_as_before_although_its_weights_lay_in_one_piece() -> None:
    torch.manual_seed(0)
    layer = nn.LSTM(8, 8, num_layers=2)
    value = torch.randn(5, 2, 8)
    before = layer(value)[0]
    move_weights([layer])
    assert torch.equal(layer(value)[0], before)
