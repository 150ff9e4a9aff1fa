"""Counting: what is shared counts once and is named; buffers and frozen parameters are told apart."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from profiler.measure.parameters import count_parameters, shared_names, size_bytes
from profiler.models.model import Model
from profiler.report.variants import parameter_table
from profiler.results.types import ComponentCounts


class Tied(torch.nn.Module):
    """A language model whose output layer is its embedding, with a layer that is used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(10, 4)
        self.first = torch.nn.Linear(4, 4)
        self.norm = torch.nn.BatchNorm1d(4)
        self.again = self.first
        self.output = torch.nn.Linear(4, 10, bias=False)
        self.output.weight = self.embedding.weight
        self.norm.weight.requires_grad_(False)


def as_model(module: torch.nn.Module, components: dict[str, Any] | None = None) -> Model:
    parts = dict(module.named_children()) if components is None else components
    return Model(module, lambda batch: batch, module, "output", 16000, parts)


def test_tied_embeddings_count_once_and_are_named() -> None:
    counts = count_parameters(as_model(Tied()))
    assert counts.total == 40 + 20 + 8
    assert sorted(counts.shared) == [["embedding.weight", "output.weight"], ["first", "again"]]
    assert counts.components == {"embedding": 40, "first": 20, "norm": 8}
    assert sum(counts.components.values()) == counts.total


def test_frozen_parameters_and_buffers_are_told_apart() -> None:
    counts = count_parameters(as_model(Tied()))
    assert counts.total is not None
    assert counts.trainable == counts.total - 4
    assert counts.buffers == 4 + 4 + 1, "running mean, running variance, number of batches"
    assert counts.details["norm"] == ComponentCounts(trainable=4, buffers=9)
    assert counts.details["embedding"] == ComponentCounts(trainable=40, buffers=0)


def test_saved_bytes_count_what_is_shared_once() -> None:
    size = size_bytes(as_model(Tied()))
    assert size.total == 4 * (40 + 20 + 8) + 4 * 8 + 8
    assert size.components == {"embedding": 160, "first": 80, "norm": 32 + 32 + 8}


def test_what_no_component_holds_is_other() -> None:
    module = Tied()
    counts = count_parameters(as_model(module, {"embedding": module.embedding}))
    assert counts.components == {"embedding": 40, "other": 28}
    assert counts.details["other"] == ComponentCounts(trainable=24, buffers=9)


def test_a_shared_layer_is_named_whole_not_weight_by_weight() -> None:
    layer = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    module = torch.nn.ModuleDict({"a": layer, "b": layer, "c": torch.nn.Linear(2, 2)})
    assert shared_names(module) == [["a", "b"]]


def test_nothing_shared_is_an_empty_list() -> None:
    assert shared_names(torch.nn.Linear(3, 3)) == []


def test_a_model_without_parameters_is_counted_too() -> None:
    counts = count_parameters(as_model(torch.nn.Identity()))
    assert counts.total == counts.trainable == counts.buffers == 0
    assert counts.components == {}


def test_the_same_on_the_meta_device() -> None:
    with torch.device("meta"):
        counts = count_parameters(as_model(Tied()))
    assert counts == count_parameters(as_model(Tied()))


@pytest.mark.parametrize("text", ["embedding.weight = output.weight", "first = again", "total |", "58.8%"])
def test_the_table_says_it(text: str) -> None:
    model = as_model(Tied())
    table = parameter_table("Parameters", count_parameters(model), size_bytes(model)).markdown()
    assert text in table
