"""Views that are up to date are left as they are; any change makes them anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler.report import stamp, write
from profiler.results.types import Results
from tests.unit.report.test_tables import ok, results


def left(folder: Path) -> dict[str, int]:
    """When each view was written."""
    return {file.name: file.stat().st_mtime_ns for file in folder.rglob("*") if file.is_file()}


def written_anew(made: Results, folder: Path) -> bool:
    before = left(folder)
    write.write_views(made, folder)
    after = left(folder)
    changed = {name for name in after if before.get(name) != after[name]}
    assert changed in (set(), set(after)), "all views, or none"
    return bool(changed)


def test_views_are_written_once_and_again_after_any_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = results(ok(1, 1, 0.1), ok(2, 1, 0.2))
    assert written_anew(made, tmp_path)
    assert not written_anew(made, tmp_path)

    assert written_anew(results(ok(1, 1, 0.1), ok(2, 1, 0.3)), tmp_path), "another figure"
    assert written_anew(made, tmp_path)
    (tmp_path / "rtfx.png").unlink()
    assert written_anew(made, tmp_path), "a plot is gone"
    assert (tmp_path / "rtfx.png").is_file()
    (tmp_path / "tables.md").write_text("notes")
    assert written_anew(made, tmp_path), "a file was edited"
    assert "notes" not in (tmp_path / "tables.md").read_text()
    for text in ("", "[]", "{}", '{"made_from": 1, "files": 2}'):
        (tmp_path / write.STAMP).write_text(text)
        assert written_anew(made, tmp_path), "nobody knows"
    write.write_views(made, tmp_path, titles=True)
    assert "over the length of the audio</text>" in (tmp_path / "rtfx.svg").read_text()
    assert written_anew(made, tmp_path), "without titles"
    assert "over the length of the audio</text>" not in (tmp_path / "rtfx.svg").read_text()
    monkeypatch.setattr(stamp, "__version__", "99")
    assert written_anew(made, tmp_path), "another version of the program"


def test_a_change_of_the_program_is_one_also_within_a_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    room = tmp_path / "report" / "plots"
    room.mkdir(parents=True)
    (room / "rtf.py").write_text("a plot")
    monkeypatch.setattr(stamp, "PACKAGE", tmp_path)
    before = stamp.digest("the same results")
    assert stamp.digest("the same results") == before
    (room / "rtf.py").write_text("a better plot")
    assert stamp.digest("the same results") != before
