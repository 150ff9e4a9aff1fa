"""Families of speech models on engines: what an engine takes gives what torch gives, and the docs say what and why not.

All are tiny, and tried in forks of one process. Some pairs are tried each time, for a minute of CPU; the others were
when the table in the docs was written.
"""

from __future__ import annotations

import json
import re

import pytest

from tests.helpers import engine_families as families
from tests.helpers import warm
from tests.helpers.program import ROOT

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def answers() -> families.Answers:
    asked = json.dumps(families.AGAIN)
    ran = warm.run(["-m", "tests.helpers.engine_families", asked], ROOT, timeout=900, kind="models")
    found = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
    assert len(found) == len(families.AGAIN), ran.stderr
    return {(each["family"], each["engine"]): each for each in found}


@pytest.mark.parametrize(("family", "engine"), families.AGAIN)
def test_an_engine_gives_what_torch_gives_or_says_in_a_sentence_why_it_cannot(
    answers: families.Answers, family: str, engine: str
) -> None:
    """At a length and a batch size that it was not exported with, where its files take any."""
    answer = answers[family, engine]
    assert "failed" not in answer, answer
    if "parts" in answer:
        assert answer["difference"] < 1e-4, answer
    for said in (answer.get("reason", ""), *answer.get("refused", ())):
        assert not re.search(r"Traceback|File \"|\n|\{|<class|0x", said), said


def test_the_table_in_the_docs_is_what_was_found(answers: families.Answers) -> None:
    told = families.read(families.documented())
    for pair, answer in answers.items():
        assert told[pair] == families.outcome(answer), "run: python -m tests.helpers.engine_families"
