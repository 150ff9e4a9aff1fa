"""Which modules an engine is tried with, by how they were called."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from profiler.runtimes import engine
from profiler.runtimes.base import Options
from profiler.runtimes.part import Runtime
from profiler.runtimes.tensors import given
from profiler.variants.layers import ModuleCalls
from profiler.variants.parts import Example, Seen, SeenCalls, _Exporter
from profiler.variants.program import _flat, _without_unused

WHOLE, ENCODER, DECODER, HEAD = range(4)
STEPS = 12


def exporter(name: str) -> Any:
    """Of an encoder-decoder whose search calls the encoder by itself, and the whole in each step."""
    whole = torch.nn.Sequential(torch.nn.Linear(1, 1), torch.nn.Linear(1, 1), torch.nn.Linear(1, 1))
    calls = {WHOLE: SeenCalls(STEPS, steps=True), ENCODER: SeenCalls(1), HEAD: SeenCalls(STEPS)}
    calls[DECODER] = SeenCalls(STEPS, steps=True)
    modules = ModuleCalls({*calls}, {WHOLE, ENCODER}, {WHOLE: {DECODER, HEAD}})
    made: Any = _Exporter.__new__(_Exporter)
    made.modules, made.names = [whole, *whole], {WHOLE: "whole", ENCODER: "encoder", DECODER: "decoder", HEAD: "head"}
    made.runtime = Runtime(name, engine(name), Options())
    made.examples = [Example(None, Seen(calls, modules, set()))]
    made.parts, made.refused = {}, {}
    made._export = lambda number: made.names[number]
    made.attempt()
    return made


@pytest.mark.parametrize("name", ["onnxruntime", "openvino"])
def test_steps_of_a_search_are_parts_where_a_file_takes_a_cache_of_any_length(name: str) -> None:
    made = exporter(name)
    assert sorted(made.parts.values()) == ["decoder", "encoder", "head"]
    assert made.refused == {WHOLE: "whole: modules in it are called by themselves too"}


@pytest.mark.parametrize("name", ["aot_inductor", "executorch"])
def test_an_engine_of_one_shape_gets_the_encoder_and_says_why(name: str) -> None:
    made = exporter(name)
    assert list(made.parts.values()) == ["encoder"]
    assert "its cache grows with every step, and a file of " in made.refused[DECODER]
    assert made.refused[HEAD] == f"head: it is called {STEPS} times in a call"


class Sized(torch.nn.Module):
    """As a decoder in later steps: of the encoder's output it asks for the batch size alone."""

    def forward(self, value: torch.Tensor, encoded: torch.Tensor) -> torch.Tensor:
        return value.reshape(encoded.shape[0], -1) + 1


def test_an_input_that_nothing_uses_is_left_out_and_has_the_sizes_of_the_others() -> None:
    shapes: tuple[tuple[Any, ...], ...] = (("rows", 3, 4), ("rows", 5))
    nodes = [SimpleNamespace(op="placeholder", meta={"val": SimpleNamespace(shape=shape)}) for shape in shapes]
    program = SimpleNamespace(graph=SimpleNamespace(nodes=nodes))
    takes = _without_unused(program, [0], 2)
    assert takes == {0: None, 1: [(0, 0), 5]}
    flat = _flat(Sized(), given((torch.rand(2, 3, 4), torch.rand(2, 5)), {}), takes)
    (made,) = flat(torch.rand(6, 3, 4))
    assert made.shape == (6, 12)
