"""What a model wrote, kept in a file that survives a kill."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler.accuracy.transcripts import Transcript, append, read
from profiler.errors import UserError


def transcript(name: str, hypothesis: str = "yes") -> Transcript:
    return Transcript(name, "Ja, „genau“", hypothesis, 1.5, 0.1, 0, 1)


def test_what_is_appended_is_read(tmp_path: Path) -> None:
    file = tmp_path / "transcripts.jsonl"
    append(file, [transcript("a"), transcript("b", "two\nlines")])
    append(file, [transcript("c"), transcript("a", "once more")])
    found = read(file)
    assert list(found) == ["a", "b", "c"]
    assert found["b"] == transcript("b", "two\nlines")
    assert found["a"].hypothesis == "once more"
    assert "„genau“" in file.read_text(), "a person can read it"


def test_a_line_cut_off_by_a_kill_is_no_utterance_and_hurts_no_other(tmp_path: Path) -> None:
    file = tmp_path / "transcripts.jsonl"
    append(file, [transcript("a"), transcript("b")])
    whole = file.read_bytes()
    file.write_bytes(whole[:-10])
    assert list(read(file)) == ["a"]
    append(file, [transcript("c")])
    assert list(read(file)) == ["a", "c"]


@pytest.mark.parametrize("line", ["nonsense", "[]", '{"id": "a"}', '{"id": 1}'])
def test_damage_is_named_by_its_line(tmp_path: Path, line: str) -> None:
    file = tmp_path / "transcripts.jsonl"
    append(file, [transcript("a")])
    file.write_text(file.read_text() + line + "\n")
    with pytest.raises(UserError, match="line 2: is damaged"):
        read(file)


def test_a_file_that_is_not_there_is_explained(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="did not keep what its model wrote"):
        read(tmp_path / "transcripts.jsonl")
