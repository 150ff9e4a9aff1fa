"""The embedded ASR model through the real program: a model with real weights is loaded, scored, quantised, compared."""

from __future__ import annotations

import json
from typing import Any

import pytest

from profiler.accuracy import transcripts
from profiler.accuracy.transcripts import Transcript
from tests.helpers import program
from tests.helpers.road import QUICK, Done, go
from tests.helpers.shipped import load_variants

KEPT = ("lstm-hybrid", "lstm-hybrid-int8", "conformer-ctc")
UTTERANCES = 36


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Done:
    """Three variants of the shipped recipe on a part of the test speech."""
    kept = [variant.model_dump(exclude_defaults=True) for variant in load_variants("accuracy") if variant.name in KEPT]
    settings = (f"variants={json.dumps(kept)}", f"dataset.limit={UTTERANCES}", "measure.operations=false")
    return go("recipes/accuracy.yaml", tmp_path_factory.mktemp("logs"), *settings, *QUICK, "--quiet")


def of_variant(done: Done, part: str, name: str) -> dict[str, Any]:
    (found,) = [entry for entry in done.results[part] if entry["variant"] == name]
    return dict(found)


def texts(done: Done, variant: str) -> dict[str, Transcript]:
    return transcripts.read(done.folder / variant / "transcripts.jsonl")


@pytest.mark.slow
def test_it_has_learned_to_hear(done: Done) -> None:
    for name in KEPT:
        found = of_variant(done, "accuracy", name)
        assert of_variant(done, "models", name)["weights"] == "pretrained"
        assert (found["utterances"], found["of_utterances"]) == (UTTERANCES, UTTERANCES)
        assert found["wer"]["ci95"][0] <= found["wer"]["value"] <= found["wer"]["ci95"][1]
        assert found["wer"]["value"] < 0.4, "a model that knows nothing is near 1"
    best = min(of_variant(done, "accuracy", name)["wer"]["value"] for name in KEPT)
    assert best < 0.15
    heard = texts(done, "lstm-hybrid")
    exact = sum(transcript.hypothesis == transcript.reference for transcript in heard.values())
    assert exact > UTTERANCES / 3, "whole sentences"


@pytest.mark.slow
def test_int8_changes_the_weights_and_hardly_the_texts(done: Done) -> None:
    conversion = of_variant(done, "models", "lstm-hybrid-int8")["conversion"]
    assert conversion["layers_converted"] > 0
    assert conversion["bytes_after"]["total"] < conversion["bytes_before"]["total"]
    assert conversion["difference"]["max"] > 0
    plain, small = texts(done, "lstm-hybrid"), texts(done, "lstm-hybrid-int8")
    same = sum(plain[name].hypothesis == small[name].hypothesis for name in plain)
    assert same > 0.7 * UTTERANCES
    difference = of_variant(done, "accuracy", "lstm-hybrid-int8")["difference"]
    assert difference["to"] == "lstm-hybrid"
    assert abs(difference["value"]) < 0.1


@pytest.mark.slow
def test_variants_are_compared_in_one_table(done: Done) -> None:
    rows = [line for line in done.tables.splitlines() if line.startswith("|")]
    (header,) = [line for line in rows if "on the front with" in line]
    assert all(name in header for name in ("WER, %", "RTF", "median batch, ms", "peak memory, MB", "size, MB"))
    shown = program.run("tradeoff", done.folder, "--json")
    points = json.loads(shown.stdout)
    assert [point["name"] for point in points] == list(KEPT)
    assert all(point["rtf"] > 0 and point["memory_bytes"] > 1e8 and point["size_bytes"] > 1e6 for point in points)
    assert {cost for point in points for cost in point["front"]} == {"rtf", "memory", "size"}


@pytest.mark.slow
def test_the_texts_can_be_scored_by_another_rule(done: Done) -> None:
    """Numbers are words here; the English normaliser writes digits on both sides, so that little changes."""
    before = of_variant(done, "accuracy", "conformer-ctc")["wer"]["value"]
    again = program.run("tradeoff", done.folder, "--json", "--normalise", "english")
    after = {point["name"]: point["wer"]["value"] for point in json.loads(again.stdout)}["conformer-ctc"]
    assert after == pytest.approx(before, abs=0.1)
