"""How far two runs are apart: numbers where there are any, else texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from profiler.errors import NotSupported
from profiler.models.model import Model
from profiler.variants.difference import ModelOutputs, capture_outputs, difference, load_outputs, save_outputs
from profiler.variants.quantize import use_engine


class Recogniser(nn.Module):
    """Features without weights, an encoder, and a search that calls its decoder step by step."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.ReLU()
        self.encoder = nn.Linear(4, 4, bias=False)
        self.search = Search()


class Search(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.step = nn.Linear(4, 3, bias=False)

    def forward(self, states: torch.Tensor) -> Any:
        scores = torch.stack([self.step(state) for state in states.unbind(1)], 1)
        return scores.argmax(2), scores


def asr_model(weight: float) -> Model:
    module = Recogniser()
    nn.init.constant_(module.encoder.weight, weight)
    nn.init.eye_(module.search.step.weight)

    def run(value: torch.Tensor) -> list[str]:
        tokens, _ = module.search(module.encoder(module.features(value)))
        return ["".join("abc"[token] for token in row) for row in tokens.tolist()]

    return Model(module, lambda batch: batch, run, "text", 16000, dict(module.named_children()))


def test_of_an_asr_model_the_encoder_is_compared_and_the_texts(tmp_path: Path) -> None:
    value = torch.ones(2, 5, 4)
    for name, weight in (("before", 1.0), ("after", 1.5)):
        save_outputs(asr_model(weight), value, tmp_path / name)
    found = difference(load_outputs(tmp_path / "before"), load_outputs(tmp_path / "after"))
    assert found.compared == "encoder output"
    assert (found.max, found.mean, found.relative) == (2.0, 2.0, 0.5)  # 4 x 1.5 against 4 x 1
    assert (found.texts, found.texts_changed) == (2, 0.0)
    assert list(found.components) == ["encoder"]  # neither what has no weights, nor a search


def test_texts_that_changed_are_a_share() -> None:
    one = ModelOutputs({}, ["a", "b"])
    other = ModelOutputs({}, ["a", "c"])
    found = difference(one, other)
    assert found.texts_changed == 0.5
    assert found.compared is None
    assert found.max is None


def test_an_overflow_is_no_difference() -> None:
    one = ModelOutputs({"encoder": torch.ones(3)}, [])
    other = ModelOutputs({"encoder": torch.tensor([1.0, float("nan"), 1.0])}, [])
    assert difference(one, other).max is None


def test_numbers_as_the_final_output_come_before_those_of_any_part() -> None:
    module = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    model = Model(module, lambda batch: batch, lambda value: module(value) + 1, "scores", 16000, {"first": module[0]})
    captured = capture_outputs(model, torch.ones(1, 4))
    assert list(captured.tensors) == ["first", "final output"]
    assert difference(captured, captured).compared == "final output"
    assert difference(captured, captured).max == 0.0


def test_an_engine_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(NotSupported, match=f"nosuch is not there: torch has .*{torch.backends.quantized.engine}"):
        use_engine("nosuch")


@pytest.mark.parametrize(
    ("one", "other", "agree"),
    [
        ("one two", "one tho", 6 / 7),
        ("[7, 8, 9]", "[7, 9]", 2 / 3),
        ("same", "same", 1.0),
        ("", "x", None),
    ],
)
def test_texts_say_how_many_of_their_tokens_agree(one: str, other: str, agree: float | None) -> None:
    """Ids where a model gives these, else letters: whether two texts are equal tells nothing of long ones."""
    found = difference(ModelOutputs({}, [one]), ModelOutputs({}, [other]))
    assert found.tokens_agree == (None if agree is None else pytest.approx(agree))
