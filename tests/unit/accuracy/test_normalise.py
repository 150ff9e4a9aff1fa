"""The named normalisations, on texts that people compare."""

from __future__ import annotations

import subprocess
import sys

import pytest

from profiler.accuracy.normalise import NORMALISATIONS, SENTENCES, made_by, normaliser


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("none", "  Hello,\tWorld! ", "Hello, World!"),
        ("basic", "Hello, World! [laughs]", "hello world"),
        ("basic", "Grüße aus KÖLN", "grüße aus köln"),
        ("english", "He's twenty-one, I'll say, Mr. Jones.", "he is 21 i will say mister jones"),
        ("english", "grey colours", "gray colors"),
        ("english", "it costs twenty dollars", "it costs $20"),
    ],
)
def test_examples(name: str, text: str, expected: str) -> None:
    assert normaliser(name)(text) == expected


def test_each_is_explained_and_says_who_made_it() -> None:
    assert set(SENTENCES) == set(NORMALISATIONS)
    assert made_by("none") is None
    assert str(made_by("english")).startswith("whisper-normalizer ")


def test_no_torch_is_needed() -> None:
    script = (
        "import sys, profiler.accuracy.normalise as n; n.normaliser('english')('one'); print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "False", done.stderr
