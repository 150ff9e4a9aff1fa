"""results.json: whole at any time, readable again, and clear about what is wrong when it is damaged."""

from __future__ import annotations

import functools
import json
import operator
import statistics
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from profiler.errors import StorageError, UserError
from profiler.results.store import ResultsFile, read_results, write_atomically
from profiler.results.types import JOURNAL, SCHEMA, CellResult, Latency, ModelResult, PeakMemory, Results, Run

ROOT = Path(__file__).resolve().parents[3]


def latency(median: float) -> Latency:
    samples = [median * 0.99, median, median * 1.01]
    return Latency(
        median=median,
        mean=median,
        std=median * 0.01,
        min=samples[0],
        ci95=(samples[0], samples[2]),
        n=3,
        samples=samples,
        rounds=[3],
        warmup=[median * 2],
        stopped_by="width",
    )


def cell(seconds: float = 1.0, batch: int = 1, **more: Any) -> CellResult:
    return CellResult(variant="float32", seconds=seconds, batch_size=batch, status="ok", **more)


def results() -> Results:
    return Results(
        run=Run(id="x", recipe="r", recipe_sha256="0" * 64, command="profile.py r.yaml", started="2026-01-01"),
        environment={"cpu": "Żółw 3000", "packages": {"torch": "2.13"}},
        models=[ModelResult(variant="float32", source="a/b", type="AutoModel", weights="random")],
    )


# --- writing ---


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    file = ResultsFile(tmp_path, results())
    file.put(cell(1.0, rtf=0.1, latency_s=latency(0.1), peak_memory_bytes=PeakMemory(process=10**9)))
    file.put(cell(0.25, 4))
    read = read_results(tmp_path)
    assert read.cells[0].latency_s == latency(0.1)
    assert not hasattr(file.head, "cells"), "cells are kept on disk alone"
    assert (read.run, read.environment) == (file.head.run, file.head.environment)
    assert [found.key for found in read_results(tmp_path / "results.json").cells] == [found.key for found in read.cells]
    assert read_results(tmp_path).environment.cpu == "Żółw 3000"


def test_the_file_has_the_documented_shape(tmp_path: Path) -> None:
    ResultsFile(tmp_path, results()).put(cell(latency_s=latency(0.1), rtf=0.1, rtfx=10.0, verdict="stable"))
    data = json.loads((tmp_path / "results.json").read_text())
    assert data["schema"] == SCHEMA
    assert {"id", "recipe", "recipe_sha256", "command", "started", "finished", "status"} <= data["run"].keys()
    assert {"variant", "source", "type", "weights", "parameters", "size_bytes"} <= data["models"][0].keys()
    (row,) = data["cells"]
    assert (row["variant"], row["seconds"], row["batch_size"], row["status"]) == ("float32", 1.0, 1, "ok")
    assert {"median", "mean", "std", "min", "ci95", "n", "samples", "stopped_by"} <= row["latency_s"].keys()
    assert (row["rtf"], row["rtfx"], row["verdict"]) == (0.1, 10.0, "stable")


def test_the_file_is_whole_after_every_cell(tmp_path: Path) -> None:
    file = ResultsFile(tmp_path, results())
    file.write()
    for number in range(1, 6):
        assert len(read_results(tmp_path).cells) == number - 1
        file.put(cell(number))
    file.write()
    file.close()
    assert [path.name for path in tmp_path.iterdir()] == ["results.json"]
    assert len(json.loads((tmp_path / "results.json").read_text())["cells"]) == 5


def test_a_cell_that_is_measured_again_is_replaced_in_its_place(tmp_path: Path) -> None:
    file = ResultsFile(tmp_path, results())
    for seconds in (1.0, 2.0, 1.0):
        file.put(cell(seconds, rtf=seconds))
    file.put(cell(2.0, rtf=9.0))
    assert [(c.seconds, c.rtf) for c in read_results(tmp_path).cells] == [(1.0, 1.0), (2.0, 9.0)]


def test_a_run_that_is_taken_up_again_keeps_its_cells(tmp_path: Path) -> None:
    ResultsFile(tmp_path, results()).put(cell(1.0, rtf=0.5))
    again = ResultsFile(tmp_path, read_results(tmp_path))
    again.put(cell(2.0))
    assert [c.seconds for c in read_results(tmp_path).cells] == [1.0, 2.0]


def test_keys_of_a_newer_version_survive(tmp_path: Path) -> None:
    made = results()
    made.run = Run.model_validate({**made.run.model_dump(), "cluster": "four"})
    file = ResultsFile(tmp_path, made)
    file.put(CellResult.model_validate({**cell().model_dump(), "input": {"audio": "a.wav", "microphone": 2}}))
    again = read_results(tmp_path).model_dump(mode="json")
    assert again["run"]["cluster"] == "four"
    assert again["cells"][0]["input"]["microphone"] == 2


def test_cells_are_found_by_their_place() -> None:
    made = results()
    made.cells = [cell(1.0, 2), cell(2.0, 1, reason="x")]
    found = made.cell("float32", 2.0, 1)
    assert found is not None
    assert found.reason == "x"
    assert made.cell("float32", 2.0, 2) is None
    assert made.cell("other", 2.0, 1) is None


# --- the journal: cells that are finished and not yet in results.json ---


@pytest.fixture
def never_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ResultsFile:
    """As in a run of thousands of cells, between two replacements of results.json."""
    file = ResultsFile(tmp_path, results())
    file.put(cell(1.0, rtf=0.1))
    file.write()
    monkeypatch.setattr(ResultsFile, "write", lambda self: None)
    return file


def in_whole_file(folder: Path) -> list[float]:
    return [each["seconds"] for each in json.loads((folder / "results.json").read_text())["cells"]]


def test_a_run_that_is_killed_between_two_replacements_loses_nothing(
    tmp_path: Path, never_replaced: ResultsFile
) -> None:
    never_replaced.put(cell(2.0, rtf=0.2, latency_s=latency(0.2)))
    never_replaced.put(cell(4.0))
    never_replaced.put(cell(1.0, rtf=0.11))  # the next round
    assert in_whole_file(tmp_path) == [1.0]
    read = read_results(tmp_path)
    assert [(c.seconds, c.rtf) for c in read.cells] == [(1.0, 0.11), (2.0, 0.2), (4.0, None)]
    assert read.cells[1].latency_s == latency(0.2)


def test_a_program_that_is_killed_by_a_signal_leaves_what_it_had(tmp_path: Path) -> None:
    code = f"""
        import os, signal
        from pathlib import Path
        from tests.unit.results.test_store import cell, results
        from profiler.results.store import ResultsFile

        file = ResultsFile(Path({str(tmp_path)!r}), results())
        for number in range(1, 501):
            file.put(cell(number))
        os.kill(os.getpid(), signal.SIGKILL)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], cwd=ROOT, check=False)
    assert done.returncode == -9
    assert [c.seconds for c in read_results(tmp_path).cells] == list(range(1, 501))


@pytest.mark.parametrize("cut", [1, 30, 100])
def test_a_last_line_that_was_cut_off_is_not_a_cell(tmp_path: Path, never_replaced: ResultsFile, cut: int) -> None:
    never_replaced.put(cell(2.0))
    never_replaced.put(cell(4.0))
    journal = tmp_path / JOURNAL
    journal.write_bytes(journal.read_bytes()[:-cut])
    assert [c.seconds for c in read_results(tmp_path).cells] == [1.0, 2.0]


def test_a_run_that_is_taken_up_after_a_cut_off_line_loses_nothing_more(
    tmp_path: Path, never_replaced: ResultsFile
) -> None:
    never_replaced.put(cell(2.0))
    never_replaced.put(cell(4.0))
    journal = tmp_path / JOURNAL
    journal.write_bytes(journal.read_bytes()[:-30])
    again = ResultsFile(tmp_path, read_results(tmp_path))
    again.put(cell(8.0))
    again.put(cell(16.0))
    assert [c.seconds for c in read_results(tmp_path).cells] == [1.0, 2.0, 8.0, 16.0]


def test_a_run_that_is_taken_up_puts_the_journal_into_results_json(tmp_path: Path) -> None:
    file = ResultsFile(tmp_path, results())
    file.write()
    file._append(("float32", 2.0, 1), json.dumps(cell(2.0, rtf=0.2).model_dump(mode="json")).encode())
    again = ResultsFile(tmp_path, read_results(tmp_path))
    again.write()
    again.close()
    assert in_whole_file(tmp_path) == [2.0]
    assert not (tmp_path / JOURNAL).exists()


def test_a_damaged_line_costs_that_cell_alone(tmp_path: Path, never_replaced: ResultsFile) -> None:
    for seconds in (2.0, 4.0, 8.0):
        never_replaced.put(cell(seconds))
    journal = tmp_path / JOURNAL
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(lines[0] + b"\x00\xff[[[\n" + lines[2])
    assert [c.seconds for c in read_results(tmp_path).cells] == [1.0, 2.0, 8.0]


@pytest.mark.parametrize("count", [50, 200, 800])
def test_replacing_the_whole_file_takes_a_small_share_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """On a clock of its own: a cell takes 20 ms, and a replacement 1 ms for each cell that is in the file."""
    now, spent = 1000.0, 0.0
    monkeypatch.setattr("profiler.results.store.time.monotonic", lambda: now)
    file = ResultsFile(tmp_path, results())
    replace = file._replace

    def slow(to_disk: bool) -> None:
        nonlocal now, spent
        replace(to_disk)
        cost = 0.001 * len(file._cells)
        now, spent = now + cost, spent + cost

    monkeypatch.setattr(file, "_replace", slow)
    for number in range(1, count + 1):
        now += 0.02
        file.put(cell(number))
    assert spent < 0.08 * (now - 1000.0)
    assert len(read_results(tmp_path).cells) == count


def test_the_more_cells_there_are_the_seldomer_the_whole_file_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr("profiler.results.store.time.monotonic", lambda: now)
    file = ResultsFile(tmp_path, results())
    replace, replaced_at = file._replace, []

    def slow(to_disk: bool) -> None:
        nonlocal now
        replace(to_disk)
        now += 0.001 * len(file._cells)
        replaced_at.append(len(file._cells))

    monkeypatch.setattr(file, "_replace", slow)
    for number in range(1, 1601):
        now += 0.02
        file.put(cell(number))
    upto = [sum(place <= count for place in replaced_at) for count in (100, 400, 1600)]
    assert upto[1] < 2.5 * upto[0], upto
    assert upto[2] < 2.5 * upto[1], upto


def test_an_ordinary_run_has_its_cells_in_results_json_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second between two cells: the journal is never long."""
    now = 1000.0
    monkeypatch.setattr("profiler.results.store.time.monotonic", lambda: now)
    file = ResultsFile(tmp_path, results())
    for number in range(1, 10):
        now += 1.0
        file.put(cell(number))
        assert in_whole_file(tmp_path) == list(range(1, number + 1))


# --- files of earlier versions ---


@pytest.mark.parametrize("name", ["schema-1-first.json", "schema-1-breakdown.json"])
def test_a_file_of_schema_1_has_the_figure_of_today(name: str) -> None:
    """It took the median of all calls; the figure is the median over rounds of the rounds' medians."""
    file = ROOT / "tests" / "data" / name
    before = json.loads(file.read_text())
    read = read_results(file)
    assert (before["schema"], read.results_schema) == (1, SCHEMA)
    measured = [pair for pair in zip(before["cells"], read.cells, strict=True) if pair[0]["latency_s"]]
    assert measured
    for then, now in measured:
        assert now.latency_s is not None
        samples, medians = list(then["latency_s"]["samples"]), []
        for count in then["latency_s"]["rounds"]:
            medians.append(statistics.median(samples[:count]))
            samples = samples[count:]
        assert now.latency_s.median == statistics.median(medians)
        assert now.latency_s.round_medians == medians
        assert now.latency_s.samples == then["latency_s"]["samples"]
        assert now.latency_s.ci95 is None, "there were fewer than 6 rounds"
        assert now.latency_s.cpu == []
        assert now.verdict == "unstable"
        assert now.rtf == pytest.approx(then["rtf"] * now.latency_s.median / then["latency_s"]["median"])
        assert now.rtf is not None
        assert now.rtfx == pytest.approx(1 / now.rtf)
        assert not hasattr(now, "spread")


def test_a_cell_of_schema_1_with_many_rounds_has_an_interval(tmp_path: Path) -> None:
    rounds = [[1.0 + 0.001 * number] * 5 for number in range(10)]
    old = cell(1.0, rtf=1.0, rtfx=1.0).model_dump(mode="json")
    timing = latency(1.0).model_dump(mode="json")
    timing |= {
        "samples": functools.reduce(operator.iadd, rounds, []),
        "rounds": [5] * 10,
        "ci95": [1.0, 1.0],
        "median": 1.0,
        "n": 50,
    }
    data = results().model_dump(mode="json", by_alias=True)
    data |= {"schema": 1, "cells": [old | {"latency_s": timing, "verdict": "noisy", "spread": 0.4}]}
    (tmp_path / "results.json").write_text(json.dumps(data))
    (read,) = read_results(tmp_path).cells
    assert read.latency_s is not None
    assert read.latency_s.median == pytest.approx(1.0045)
    assert read.latency_s.ci95 == (1.001, 1.008)
    assert read.verdict == "stable"


@pytest.mark.parametrize(("before", "now"), [("arithmetic", "compute"), ("memory", "memory"), ("overhead", "overhead")])
def test_what_bounds_a_cell_of_schema_1_has_its_name_of_today(before: str, now: str, tmp_path: Path) -> None:
    data = results().model_dump(mode="json", by_alias=True)
    data |= {
        "schema": 1,
        "cells": [cell(1.0).model_dump(mode="json") | {"operations": {"macs": 1, "per_second": 1.0, "bound": before}}],
    }
    (tmp_path / "results.json").write_text(json.dumps(data))
    (read,) = read_results(tmp_path).cells
    assert read.operations is not None
    assert read.operations.bound == now


# --- when writing fails ---


def test_a_folder_that_is_gone_is_said_plainly(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"Cannot write .*results\.json: No such file") as caught:
        ResultsFile(tmp_path / "gone", results()).write()
    assert "The folder is gone" in str(caught.value)
    assert "intact" not in str(caught.value)


def test_a_file_in_the_way_of_the_new_one_leaves_the_old_one(tmp_path: Path) -> None:
    ResultsFile(tmp_path, results()).put(cell())
    before = (tmp_path / "results.json").read_bytes()
    (tmp_path / ".results.json.part").mkdir()
    with pytest.raises(StorageError, match="What was written before is intact"):
        write_atomically(tmp_path / "results.json", "new")
    assert (tmp_path / "results.json").read_bytes() == before


def test_a_full_disk_leaves_the_last_whole_file_and_nothing_else(tmp_path: Path) -> None:
    """The limit on a file's size stands for the end of a disk: a write fails in the middle."""
    code = f"""
        import resource, signal
        from pathlib import Path
        from profiler.errors import StorageError
        from tests.unit.results.test_store import cell, results
        from profiler.results.store import ResultsFile

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
        file = ResultsFile(Path({str(tmp_path)!r}), results())
        for number in range(1, 1000):
            try:
                file.put(cell(number))
                file.write()
            except StorageError as error:
                print(number, error)
                break
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    number, message = done.stdout.split(maxsplit=1)
    assert "File too large" in message
    assert "--resume" in message
    assert int(number) > 10
    assert len(json.loads((tmp_path / "results.json").read_text())["cells"]) == int(number) - 1
    assert len(read_results(tmp_path).cells) == int(number), "the one that did not fit any more is in the journal"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["results.journal", "results.json"]


def test_a_figure_that_is_no_number_is_not_written(tmp_path: Path) -> None:
    file = ResultsFile(tmp_path, results())
    file.put(cell(1.0, rtf=0.1))
    with pytest.raises(ValueError):
        file.put(cell(2.0, rtf=float("nan")))
    assert [c.seconds for c in read_results(tmp_path).cells] == [1.0]


# --- reading what is damaged ---


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is damaged: it is not JSON"),
        (b'{"schema": 1, "run": {"id"', "is damaged: it is not JSON"),
        (b"\xff\xfe\x00binary", "is damaged: it is not JSON"),
        (b"[1, 2]", "has the schema None"),
        (b'"text"', "has the schema None"),
        (b"null", "has the schema None"),
        (b'{"name": "package", "version": "1.0"}', "has the schema None"),
        (b'{"schema": 99, "run": {}}', "has the schema 99; this version reads 1 to 2"),
        (b'{"schema": "1"}', "has the schema '1'"),
        (b'{"schema": 1}', "is damaged at run: Field required"),
        (b'{"schema": 1, "run": {"id": "x"}}', "is damaged at run.recipe"),
    ],
)
def test_what_is_no_results_file_is_said_plainly(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "results.json").write_bytes(content)
    with pytest.raises(UserError) as error:
        read_results(tmp_path)
    assert message in str(error.value)
    assert "results.json" in str(error.value)


def test_a_damaged_cell_is_named(tmp_path: Path) -> None:
    ResultsFile(tmp_path, results()).put(cell())
    file = tmp_path / "results.json"
    file.write_text(file.read_text().replace('"status": "ok"', '"status": "fine"'))
    with pytest.raises(UserError, match=r"damaged at cells\.0\.status"):
        read_results(tmp_path)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_a_file_that_was_copied_in_part_is_damaged(tmp_path: Path, share: float) -> None:
    ResultsFile(tmp_path, results()).put(cell(latency_s=latency(0.1)))
    whole = (tmp_path / "results.json").read_text().rstrip()
    (tmp_path / "results.json").write_text(whole[: int(len(whole) * share)])
    with pytest.raises(UserError, match="damaged"):
        read_results(tmp_path)


def test_a_folder_without_results_is_not_a_run(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not a run"):
        read_results(tmp_path)


def test_deep_nesting_does_not_crash_the_reader(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text("[" * 100_000)
    with pytest.raises(UserError, match="damaged"):
        read_results(tmp_path)
