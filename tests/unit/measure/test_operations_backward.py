"""Multiply-accumulates of backward passes, against values worked out by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

from tests.helpers.operations import count_operations


def backward_macs(compute: Callable[[Any], Any], value: torch.Tensor) -> tuple[int, list[str]]:
    """Of the backward pass alone, and what of it has no formula."""
    loss = compute(value).sum()
    counted = count_operations(lambda _: loss.backward(), None, {}, 1.0)
    return counted.macs, counted.uncounted


def attention(value: torch.Tensor) -> torch.Tensor:
    return functional.scaled_dot_product_attention(value, value * 2, value * 3)


BATCH, LENGTH, INPUT, OUTPUT = 2, 20, 6, 10
CASES: dict[str, tuple[Callable[[Any], Any], tuple[int, ...], int]] = {
    "linear": (torch.nn.Linear(INPUT, OUTPUT), (BATCH * LENGTH, INPUT), 2 * BATCH * LENGTH * INPUT * OUTPUT),
    "convolution": (
        torch.nn.Conv1d(INPUT, OUTPUT, 3, padding=1),
        (BATCH, INPUT, LENGTH),
        2 * BATCH * LENGTH * INPUT * OUTPUT * 3,
    ),
    "grouped convolution": (
        torch.nn.Conv1d(INPUT, INPUT, 3, padding=1, groups=INPUT),
        (BATCH, INPUT, LENGTH),
        2 * BATCH * LENGTH * INPUT * 3,
    ),
    # The scores again, and gradients of weights, values, queries and keys: five products of length x length x width.
    "attention": (attention, (BATCH, 2, LENGTH, 8), 5 * BATCH * 2 * LENGTH * LENGTH * 8),
}


@pytest.mark.parametrize("name", CASES)
def test_a_backward_pass_counts_what_is_worked_out_by_hand(name: str) -> None:
    compute, shape, expected = CASES[name]
    found, unknown = backward_macs(compute, torch.randn(shape, requires_grad=True))
    assert found == expected
    assert unknown == []


def test_gradients_that_nobody_wants_are_not_counted() -> None:
    layer = torch.nn.Conv1d(INPUT, OUTPUT, 3, padding=1)
    found, _ = backward_macs(layer, torch.randn(BATCH, INPUT, LENGTH))
    assert found == BATCH * LENGTH * INPUT * OUTPUT * 3, "of the weights alone: the input takes no gradients"


@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU])
def test_a_recurrent_layer_goes_back_over_every_step(kind: Any) -> None:
    layer = kind(INPUT, OUTPUT, batch_first=True)
    weights = sum(parameter.numel() for parameter in layer.parameters() if parameter.dim() == 2)
    found, unknown = backward_macs(lambda value: layer(value)[0], torch.randn(BATCH, LENGTH, INPUT, requires_grad=True))
    assert unknown == []
    assert found == pytest.approx(2 * BATCH * LENGTH * weights, rel=0.06), "for what came in, and for the weights"
