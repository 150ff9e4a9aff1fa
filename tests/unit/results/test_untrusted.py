"""Names, links and sizes of files that somebody else may have written."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from profiler.errors import UserError
from profiler.results import untrusted
from profiler.results.store import ResultsFile, read_as_much, read_results, write_atomically
from profiler.results.types import CellResult, Results, Run
from profiler.results.untrusted import inside, parse_json, read_bytes
from tests.helpers.synthetic import Made, make


def saved(folder: Path, results: Results) -> Path:
    file = ResultsFile(folder, results)
    file.write()
    file.close()
    return folder / "results.json"


def test_a_run_of_ten_thousand_cells_is_far_below_the_limits(tmp_path: Path) -> None:
    results = make(Made(rounds=40))
    each = len(saved(tmp_path, results).read_bytes()) / len(results.cells)
    assert 10_000 * each < untrusted.LARGEST / 2
    assert 10_000 * json.dumps(results.cells[0].model_dump(mode="json")).count(",") < untrusted.MOST_VALUES / 2
    assert untrusted.MOST_CELLS >= 10_000


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[" * 100_000, "recursion limit"),
        (b'{"a":' * 100_000, "recursion limit"),
        (b"NaN", "expected value"),
        (b'"\\ud800"', "hex escape"),
        (b"9" * 5000, "out of range"),
        (b"[" + b"0," * untrusted.MOST_VALUES + b"0]", "more than 12,000,000 values"),
    ],
)
def test_json_that_nobody_of_us_writes_is_refused(content: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_json(content)


def test_files_are_read_up_to_a_limit(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 100)
    assert read_bytes(tmp_path / "a", 100) == b"x" * 100
    with pytest.raises(UserError, match="larger than"):
        read_bytes(tmp_path / "a", 99)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match="not a file"):
        read_bytes(tmp_path / "pipe")
    with pytest.raises(UserError, match="not a file"):
        read_bytes(Path("/dev/zero"), 1000)


def test_a_million_wrong_entries_are_one_message(tmp_path: Path) -> None:
    """Of each kind: cells, samples, keys."""
    good = json.loads(saved(tmp_path, make(Made())).read_text())
    cases: list[dict[str, Any]] = [
        {"cells": [{}] * 300_000},
        {"cells": [good["cells"][0] | {"latency_s": good["cells"][0]["latency_s"] | {"samples": ["a"] * 300_000}}]},
        {"cells": [good["cells"][0] | {"work_s": dict.fromkeys(map(str, range(300_000)), "a")}]},
    ]
    for wrong in cases:
        (tmp_path / "results.json").write_text(json.dumps(good | wrong))
        with pytest.raises(UserError, match=r"damaged at cells") as error:
            read_results(tmp_path)
        assert len(str(error.value)) < 500
        results, problem = read_as_much(tmp_path)
        assert results.cells == []
        assert problem


def test_a_damaged_file_of_entries_that_never_end_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("profiler.results.store.PATIENCE_S", 0.2)
    head = saved(tmp_path, make(Made())).read_text().split('"cells"')[0]
    (tmp_path / "results.json").write_text(head + '"cells": [' + "[\n" * 300 + "1," * 300_000)
    results, problem = read_as_much(tmp_path)
    assert results.cells == []
    assert problem


def test_texts_and_numbers_have_limits() -> None:
    for wrong in ({"reason": "x" * 2_000_000}, {"rtf": float("inf")}, {"seconds": float("nan")}):
        with pytest.raises(ValueError, match="1 validation error"):
            CellResult.model_validate({"variant": "a", "seconds": 1, "batch_size": 1, "status": "ok"} | wrong)


@pytest.mark.parametrize("measure", ["fast", {"rounds": "many"}, {"width": None}])
def test_settings_that_reports_write_out_are_checked(measure: object) -> None:
    with pytest.raises(ValueError, match="measure"):
        Run.model_validate(
            {
                "id": "a",
                "recipe": "r",
                "recipe_sha256": "",
                "command": "",
                "started": "",
                "resolved": {"measure": measure},
            }
        )


def test_links_do_not_lead_out_when_read(tmp_path: Path) -> None:
    run, secret = tmp_path / "run", tmp_path / "secret.json"
    run.mkdir()
    saved(tmp_path, make(Made())).rename(secret)
    (run / "results.json").symlink_to(secret)
    with pytest.raises(UserError, match="leads out"):
        read_results(run)
    with pytest.raises(UserError, match="leads out"):
        inside(run, "results.json")
    (run / "results.json").unlink()
    secret.rename(run / "kept.json")
    (run / "results.json").symlink_to("kept.json")
    assert read_results(run).cells
    (tmp_path / "linked").symlink_to(run)  # a run's folder may lie elsewhere
    assert read_results(tmp_path / "linked").cells


def test_links_do_not_lead_out_when_written(tmp_path: Path) -> None:
    run, canary = tmp_path / "run", tmp_path / "canary"
    run.mkdir()
    canary.write_text("mine")
    for name in (".tables.md.part", "tables.md", ".results.json.part", "results.journal"):
        (run / name).symlink_to(canary)
    write_atomically(run / "tables.md", "text")
    file = ResultsFile(run, make(Made()))
    file.put(*make(Made()).cells[:1])
    file.close()
    assert canary.read_text() == "mine"
    assert read_results(run).cells
