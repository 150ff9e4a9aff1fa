"""What CTranslate2 is asked for in place of transformers' `generate`, and what it is not used for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from profiler.errors import NotSupported
from profiler.runtimes import ctranslate2, engine
from profiler.runtimes.base import Options
from profiler.runtimes.ctranslate2 import SearchPart, require_known, search_part, vocabulary
from profiler.runtimes.part import Export, Manifest, Runtime

TOKENS = {"lang_to_id": {"<|en|>": 2, "<|fr|>": 3}, "no_timestamps_token_id": 4, "eos_token_id": 0, "pad_token_id": 0}
SETTINGS = {**TOKENS, "max_length": 448, "suppress_tokens": [5], "num_beams": 1, "length_penalty": 1.0}


def whisper(**settings: Any) -> Any:
    config = SimpleNamespace(
        decoder_start_token_id=1, vocab_size=8, max_target_positions=448, max_source_positions=1500
    )
    return SimpleNamespace(config=config, generation_config=SimpleNamespace(**{**SETTINGS, **settings}))


def part(prompt: list[int], **settings: Any) -> SearchPart:
    manifest = Manifest(file="model.bin", output="", leaves=[], export_s=0, export_peak_bytes=0)
    runtime = Runtime("ctranslate2", engine("ctranslate2"), Options())
    return search_part(whisper(**settings), runtime, Export("", (), None, manifest, True), [prompt])  # type: ignore[arg-type]


def test_the_search_is_that_of_generate_in_other_words() -> None:
    how = part([1, 2, 4])._how({"num_beams": 5, "max_new_tokens": 30, "task": "transcribe"})
    assert how["beam_size"] == 5
    assert how["suppress_tokens"] == [5]
    assert part([1, 2, 4], num_beams=None)._how({})["beam_size"] == 1, "as transformers, where nothing is said"
    assert how["max_length"] == 60, "of which it writes half"
    assert part([1, 2, 4])._how({})["max_length"] == 2 * 445, "no more than there is room for"


def test_a_number_of_steps_is_written_without_an_end() -> None:
    how = part([1, 4])._how({"min_new_tokens": 8, "max_new_tokens": 8})
    assert how["suppress_tokens"] == [5, 0]
    assert how["max_length"] == 16


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"assistant_model": "other"}, "nothing for `assistant_model`"),
        ({"do_sample": True}, "has no do_sample"),
        ({"min_new_tokens": 2, "max_new_tokens": 8}, "no least number of tokens"),
    ],
)
def test_what_its_search_has_not_is_refused(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(NotSupported, match=sentence):
        part([1, 4])._how(given)


def test_a_language_that_is_not_given_is_told_from_each_row() -> None:
    made = part([1, 2, 4])
    made.session = SimpleNamespace(languages=lambda encoded: ["<|fr|>", "<|en|>"])  # type: ignore[assignment]
    encoded = torch.zeros(2, 3, 4)
    assert made._prompts(encoded, None) == [[1, 3, 4], [1, 2, 4]]
    assert made._prompts(encoded, "en") == [[1, 2, 4], [1, 2, 4]]


def test_tokens_that_it_looks_for_have_their_names() -> None:
    special = ["<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|fr|>", "<|notimestamps|>"]
    assert vocabulary(whisper()) == [*special, "<5>", "<6>", ""], "several languages: one token is empty"
    assert vocabulary(whisper(lang_to_id=None))[-3:] == ["<5>", "<6>", "<7>"]


def test_other_models_are_refused_with_what_they_are() -> None:
    with pytest.raises(NotSupported, match=r"CTranslate2 runs Whisper of transformers here.*is a Linear"):
        require_known(torch.nn.Linear(1, 1))
    with pytest.raises(NotSupported, match="asked for timestamps"):
        part([1, 2])


def test_int8_is_asked_for_by_name() -> None:
    assert ctranslate2.compute_type(Options(quantize="dynamic")) == "int8_float32"
    assert ctranslate2.compute_type(Options(precision="bfloat16")) == "bfloat16"
