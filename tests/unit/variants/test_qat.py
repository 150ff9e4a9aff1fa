"""Quantisation-aware training: a copy of a trained model is fine-tuned in a fork, and its linear layers become int8."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Answer]]:
    def shipped(name: str, **more: Any) -> dict[str, Any]:
        folder = str(tiny.RECIPES / "models" / f"{name.partition(',')[0]}-commands")
        return {"source": name, "type": "EncoderDecoderASR", "folder": folder, **more}

    bare = {"source": "networks.Linears", "type": "Module", "base": str(Path(__file__).parent)}
    dynamic, qat = {"name": "dynamic", "quantize": "dynamic"}, {"name": "qat", "quantize": "qat", "qat": TWO_STEPS}
    jobs = [
        {
            "request": shipped("lstm"),
            "variants": [dynamic, qat, qat | {"name": "other", "qat": TWO_STEPS | {"seed": 1}}],
        },
        {"request": shipped("lstm, CTC alone", overrides={"ctc_weight": 1.0}), "variants": [qat]},
        {"request": shipped("conformer"), "variants": [dynamic, qat]},
        {"request": bare, "variants": [qat]},
    ]
    return converted(jobs, tmp_path_factory.mktemp("trained"))


@pytest.mark.parametrize(("model", "layers"), [("lstm", 9), ("conformer", 33)])
def test_the_same_layers_become_int8_as_without_training(
    answers: dict[str, dict[str, Answer]], model: str, layers: int
) -> None:
    plain, trained = (answers[model][name]["conversion"] for name in ("dynamic", "qat"))
    assert trained["layers_converted"] == plain["layers_converted"] == layers
    assert trained["bytes_after"]["total"] < trained["bytes_before"]["total"]
    assert "after quantisation-aware training" in trained["kind"]


def test_the_notes_say_what_it_was_trained_on_and_how_its_loss_went(answers: dict[str, dict[str, Answer]]) -> None:
    notes = " ".join(answers["lstm"]["qat"]["conversion"]["notes"])
    assert "Fine-tuned for 2 steps of 2 utterances on train.csv (96 utterances" in notes
    assert "loss " in notes


def test_searches_share_what_was_trained_and_other_options_do_not(answers: dict[str, dict[str, Answer]]) -> None:
    first, search, other = (
        answers[model][name]["conversion"]["notes"]
        for model, name in (("lstm", "qat"), ("lstm, CTC alone", "qat"), ("lstm", "other"))
    )
    assert "from the file cache" not in " ".join(first + other)
    assert "from the file cache" in " ".join(search)
    assert [note for note in first if note.startswith("Fine-tuned")] == [
        note for note in search if note.startswith("Fine-tuned")
    ]  # the losses, and how long it took


@pytest.mark.parametrize("model", ["lstm", "conformer"])
def test_the_process_with_the_model_computes_nothing_itself(answers: dict[str, dict[str, Answer]], model: str) -> None:
    assert answers[model]["qat"]["tasks"] == 1  # one thread: cells can be forked from it
    assert answers[model]["qat"]["ended"] == 0


@pytest.mark.parametrize("model", ["lstm", "conformer"])
def test_the_output_is_that_of_other_weights(answers: dict[str, dict[str, Answer]], model: str) -> None:
    plain, trained = (answers[model][name]["difference"] for name in ("dynamic", "qat"))
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
