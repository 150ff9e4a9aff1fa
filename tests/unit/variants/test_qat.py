"""Quantisation-aware training: a copy of a trained model is fine-tuned in a fork, and its linear layers become int8."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from profiler.dataset.finetuning import finetuning_set
from profiler.errors import UserError
from profiler.recipe.load import load_recipe
from profiler.recipe.schema import Variant
from tests.helpers import tiny
from tests.unit.variants.program import Answer, converted

COMMANDS = tiny.RECIPES.parent / "samples" / "commands"
SPEECH = COMMANDS.parent / "commands-finetuning" / "train.csv"
TWO_STEPS = {"source": str(SPEECH), "steps": 2, "batch_size": 2}


@pytest.fixture(scope="module")
def answers() -> dict[str, dict[str, Answer]]:
    trained = tiny.RECIPES / "models" / "lstm-commands"
    bare = {"source": "networks.Linears", "type": "Module", "base": str(Path(__file__).parent)}
    variants = [
        {"name": "dynamic", "quantize": "dynamic"},
        {"name": "qat", "quantize": "qat", "qat": TWO_STEPS},
    ]
    jobs = [
        {"request": {"source": "lstm", "type": "EncoderDecoderASR", "folder": str(trained)}, "variants": variants},
        {"request": bare, "variants": variants[1:]},
    ]
    return converted(jobs)


def test_the_same_layers_become_int8_as_without_training(answers: dict[str, dict[str, Answer]]) -> None:
    plain, trained = (answers["lstm"][name]["conversion"] for name in ("dynamic", "qat"))
    assert trained["layers_converted"] == plain["layers_converted"] == 9
    assert trained["bytes_after"]["total"] < trained["bytes_before"]["total"]
    assert "after quantisation-aware training" in trained["kind"]


def test_the_notes_say_what_it_was_trained_on_and_how_its_loss_went(answers: dict[str, dict[str, Answer]]) -> None:
    notes = " ".join(answers["lstm"]["qat"]["conversion"]["notes"])
    assert "Fine-tuned for 2 steps of 2 utterances on train.csv (96 utterances" in notes
    assert "loss " in notes


def test_the_process_with_the_model_computes_nothing_itself(answers: dict[str, dict[str, Answer]]) -> None:
    assert answers["lstm"]["qat"]["tasks"] == 1  # one thread: cells can be forked from it
    assert answers["lstm"]["qat"]["ended"] == 0


def test_the_output_is_that_of_other_weights(answers: dict[str, dict[str, Answer]]) -> None:
    plain, trained = (answers["lstm"][name]["difference"] for name in ("dynamic", "qat"))
    assert trained["max"] != plain["max"]


def test_a_model_without_a_tokenizer_says_so(answers: dict[str, dict[str, Answer]]) -> None:
    assert "tokenizer" in answers["networks.Linears"]["qat"]["not_supported"]


def test_what_to_train_on_must_be_said() -> None:
    with pytest.raises(ValidationError, match="go together"):
        Variant(name="a", quantize="qat")
    with pytest.raises(ValidationError, match="go together"):
        Variant.model_validate({"name": "a", "quantize": "dynamic", "qat": TWO_STEPS})


def test_speech_that_is_scored_is_not_trained_on(tmp_path: Path) -> None:
    recipe = tmp_path / "mine.yaml"
    text = (tiny.RECIPES / "quantization-accuracy.yaml").read_text()
    text = text.replace("../samples/commands-finetuning/train.csv", str(COMMANDS / "test.csv"))
    text = text.replace("../samples", str(COMMANDS.parent)).replace("./models", str(tiny.RECIPES / "models"))
    recipe.write_text(text)
    loaded = load_recipe(recipe, read_audio=False)
    trained = next(variant for variant in loaded.recipe.variants if variant.qat)
    with pytest.raises(UserError, match="144 such utterances"):
        finetuning_set(loaded, trained)


def test_the_shipped_speech_shares_no_voice_and_no_sentence_with_the_test_speech() -> None:
    import csv

    def column(name: str, file: Path) -> set[str]:
        with file.open() as rows:
            return {row[name] for row in csv.DictReader(rows)}

    for name in ("voice", "text"):
        assert not column(name, SPEECH) & column(name, COMMANDS / "test.csv")
