"""Families of speech models on every engine: what the engine takes is what torch gives, and the docs say which and why.

All are tiny, and tried in forks of one process. AOTInductor compiles for minutes: its column in the docs was made once,
and test_engines.py has a model on it.
"""

from __future__ import annotations

import json
import re

import pytest

from tests.helpers import engine_families as families
from tests.helpers import warm
from tests.helpers.program import ROOT

pytestmark = pytest.mark.slow

TRIED = ("onnxruntime", "openvino", "executorch")
PAIRS = [(family, engine) for family in families.FAMILIES for engine in TRIED]


@pytest.fixture(scope="module")
def answers() -> families.Answers:
    asked = [json.dumps(TRIED), json.dumps(list(families.FAMILIES))]
    ran = warm.run(["-m", "tests.helpers.engine_families", *asked], ROOT, timeout=900, kind="models")
    found = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
    assert len(found) == len(PAIRS), ran.stderr
    return {(each["family"], each["engine"]): each for each in found}


@pytest.mark.parametrize(("family", "engine"), PAIRS)
def test_an_engine_gives_what_torch_gives_or_says_in_a_sentence_why_it_cannot(
    answers: families.Answers, family: str, engine: str
) -> None:
    """At a length and a batch size that it was not exported with, where its files take any."""
    answer = answers[family, engine]
    assert "failed" not in answer, answer
    if "parts" in answer:
        assert answer["difference"] is not None
        assert answer["difference"] < 1e-4, answer
    for said in (answer.get("reason", ""), *answer.get("refused", ())):
        assert not re.search(r"Traceback|File \"|\n|\{|<class|0x", said), said
        assert len(said) < 400


def test_the_table_in_the_docs_is_what_was_found(answers: families.Answers) -> None:
    told = families.read(families.documented())
    for pair, answer in answers.items():
        assert told[pair] == families.outcome(answer), "run: python -m tests.helpers.engine_families"
