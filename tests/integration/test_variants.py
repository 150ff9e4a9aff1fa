"""Each kind of variant on real, tiny models of each library: it converts, and then runs in a fork on two threads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import TinyModel
from tests.helpers.tiny import save_ctc
from tests.unit.variants.program import KINDS, Answer, converted

GetTiny = Callable[[str], TinyModel]
Answers = dict[str, Answer]

ONE_LAYER = {"num_hidden_layers": 1, "conv_dim": [8] * 2, "conv_kernel": [400, 3], "conv_stride": [160, 2]}
VARIANTS = {**KINDS, "dynamic-compiled": {"quantize": "dynamic", "compile": True}}

pytestmark = pytest.mark.slow


def answers_of(model: TinyModel, *names: str) -> Answers:
    request = {"source": str(model.folder), "type": model.type, "folder": str(model.folder)}
    variants = [{"name": name, **VARIANTS[name]} for name in names or VARIANTS]
    return converted([{"request": request, "variants": variants}])[str(model.folder)]


def made(answers: Answers) -> set[str]:
    """Those that were converted; each of them has run."""
    done = {name for name, answer in answers.items() if "conversion" in answer}
    assert {name: answers[name]["ended"] for name in done} == dict.fromkeys(done, 0)
    assert {name: answers[name]["tasks"] for name in done} == dict.fromkeys(done, 1)
    return done


def test_a_wav2vec2_of_transformers(tiny_model: GetTiny, tmp_path: Path) -> None:
    """What is compiled is smaller still: each of its layers is C++ that takes seconds."""
    save_ctc(tmp_path / "smaller", **ONE_LAYER)
    smaller = TinyModel(tmp_path / "smaller", "AutoModelForCTC", {})
    compiled = [name for name, settings in VARIANTS.items() if "compile" in settings]
    answers = answers_of(tiny_model("ctc"), *(name for name in VARIANTS if name not in compiled))
    answers |= answers_of(smaller, *compiled)
    assert set(VARIANTS) - made(answers) == {"recurrent", "channels_last"}
    assert "no recurrent layer" in answers["recurrent"]["not_supported"]
    for kind in ("dynamic", "static", "weight_only"):
        assert answers[kind]["conversion"]["layers_converted"] == 14  # 6 a block, projection, head
    for kind in ("bfloat16", "float16"):
        sizes = answers[kind]["conversion"]
        assert sizes["bytes_after"]["total"] * 2 == sizes["bytes_before"]["total"]
    assert "2 before, 0 after" in answers["eager"]["conversion"]["notes"][0]
    assert answers["compile"]["conversion"]["graphs"] >= 1
    assert answers["dynamic-compiled"]["conversion"]["engine"] == "torchao"
    for name in made(answers):
        apart = answers[name]["difference"]
        assert apart["compared"] == "lm_head output"
        assert apart["texts"] == 2
        exact = name in ("math", "eager", "compile")
        assert apart["relative"] < 1e-4 if exact else 1e-5 < apart["relative"] < 0.1


def test_a_crdnn_of_speechbrain_with_beam_search_and_language_model(tiny_model: GetTiny) -> None:
    answers = answers_of(tiny_model("crdnn"), "dynamic", "recurrent", "static", "bfloat16", "channels_last", "eager")
    assert {"dynamic", "recurrent", "static", "channels_last"} <= made(answers)
    linear, recurrent = (answers[name]["conversion"] for name in ("dynamic", "recurrent"))
    assert 0 < linear["layers_converted"] < recurrent["layers_converted"] < linear["layers_total"]
    assert recurrent["bytes_after"]["total"] < linear["bytes_after"]["total"] < linear["bytes_before"]["total"]
    assert answers["dynamic"]["difference"]["compared"] == "encoder output"
    assert "never calls" in answers["eager"]["not_supported"]


def test_a_whisper_whose_head_is_tied_to_its_embedding(tiny_model: GetTiny) -> None:
    answers = answers_of(tiny_model("whisper"), "dynamic", "bfloat16", "eager")
    assert made(answers) == {"dynamic", "bfloat16", "eager"}
    assert any("share" in note for note in answers["dynamic"]["conversion"]["notes"])
