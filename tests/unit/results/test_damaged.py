"""As much of a damaged results.json as is whole is shown, and what is lost is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler.errors import UserError
from profiler.results.store import ResultsFile, read_as_much
from tests.unit.report.test_tables import ok, results


@pytest.fixture
def file(tmp_path: Path) -> Path:
    ResultsFile(tmp_path, results(ok(1, 1, 0.1), ok(2, 1, 0.2), ok(4, 1, 0.3))).write()
    return tmp_path / "results.json"


def test_a_whole_file_has_no_problem(file: Path) -> None:
    read, problem = read_as_much(file.parent)
    assert problem is None
    assert len(read.cells) == 3


def test_a_file_that_was_cut_off_shows_the_cells_before(file: Path) -> None:
    text = file.read_text()
    file.write_text(text[: text.index('"seconds": 4') + 5])
    read, problem = read_as_much(file.parent)
    assert [cell.seconds for cell in read.cells] == [1, 2]
    assert read.models[0].source == "a/b"
    assert problem is not None
    assert "is damaged" in problem
    assert "1 of its cells cannot be read" in problem


def test_a_broken_cell_in_the_middle_costs_that_cell_alone(file: Path) -> None:
    lines = file.read_text().splitlines(keepends=True)
    place = next(number for number, line in enumerate(lines) if '"seconds": 2' in line)
    lines[place] = lines[place].replace('"seconds"', '"secon\x00', 1)
    file.write_text("".join(lines))
    read, problem = read_as_much(file)
    assert [cell.seconds for cell in read.cells] == [1, 4]
    assert "1 of its cells cannot be read" in str(problem)


def test_a_cell_of_the_wrong_shape_costs_that_cell_alone(file: Path) -> None:
    file.write_text(file.read_text().replace('"status": "ok"', '"status": "fine"', 1))
    read, problem = read_as_much(file)
    assert [cell.seconds for cell in read.cells] == [2, 4]
    assert "damaged at cells.0.status" in str(problem)


@pytest.mark.parametrize("share", [0.0, 0.02])
def test_without_the_run_itself_nothing_is_shown(file: Path, share: float) -> None:
    text = file.read_text()
    file.write_text(text[: int(len(text) * share)])
    with pytest.raises(UserError, match="damaged"):
        read_as_much(file)


def test_a_newer_schema_is_not_guessed_at(file: Path) -> None:
    text = (
        file.read_text()
        .replace('"schema": 2', '"schema": 7')
        .replace('"profiler_version": ""', '"profiler_version": "9.1"')
    )
    file.write_text(text)
    with pytest.raises(UserError, match=r"schema 7; this version reads 1 to 2.*written by version 9\.1"):
        read_as_much(file)


@pytest.mark.parametrize("text", ["", "[]", "null", "{", '{"schema": 1}', "[" * 10_000, "\x00" * 100])
def test_what_is_no_run_stays_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "results.json").write_text(text)
    with pytest.raises(UserError):
        read_as_much(tmp_path)
