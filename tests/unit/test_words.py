"""What people read says it in the field's words: self time, an ASR model, trained weights, one row per cell."""

from __future__ import annotations

import re

from tests.helpers.program import ROOT

FOLDERS = ("profiler", "docs", "recipes", "samples", "benchmarks", "tests")
OLD = re.compile(
    r"(?<!reader's )\b[Oo]wn time\b|(?<![\"'])\brecognisers?\b|\b[Uu]nlearned\b|\blearned weights\b|\bmended\b"
    r"|\b(row|line) an? (cell|utterance)\b|\bGMAC a call\b|\d us\b"
)


def test_no_old_word_is_left() -> None:
    files = [file for name in FOLDERS for kind in ("*.py", "*.md") for file in (ROOT / name).rglob(kind)]
    assert len(files) > 500
    found = [
        f"{file.relative_to(ROOT)}:{number}: {old[0]}"
        for file in [*files, *ROOT.glob("*.md")]
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if (old := OLD.search(line))
    ]
    assert found == []
