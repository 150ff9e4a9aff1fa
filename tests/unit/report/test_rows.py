"""results.csv: one row per cell, flat, with units in the names of its columns."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from profiler.report import rows
from profiler.report.rows import cell_rows, columns
from profiler.results.types import Accuracy, Phase, StepFigures
from tests.unit.report.test_tables import absent, ok, results, unstable


def read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_a_row_a_cell_with_units_in_the_names() -> None:
    first, second = read(rows.render(results(ok(1, 1, 0.1, 0.02), ok(2, 4, 0.05, memory=1_500_000_000))))
    assert (first["audio_s"], first["batch_size"], first["status"]) == ("1.0", "1", "ok")
    assert float(second["latency_median_s"]) == pytest.approx(0.4)
    assert float(second["peak_memory_process_bytes"]) == 1.5e9
    assert (float(first["rtf_ci95_low"]), float(first["rtf_ci95_high"])) == pytest.approx((0.098, 0.102))
    assert (second["model"], second["recipe"]) == ("a/b", "r")


def test_random_weights_are_named_in_every_row() -> None:
    made = results(ok(1, 1, 0.1), absent(2, 1, "failed", "out of memory"))
    assert {row["weights"] for row in read(rows.render(made))} == {"random weights"}


def test_what_was_not_measured_is_empty_and_not_zero() -> None:
    made = results(absent(2, 1, "failed", 'it said "no",\nthen died'))
    (row,) = read(rows.render(made))
    assert row["reason"] == 'it said "no",\nthen died'
    assert [row[name] for name in ("rtf", "latency_median_s", "energy_per_call_j", "macs")] == [""] * 4


def test_an_unstable_cell_says_so() -> None:
    (row,) = cell_rows(results(unstable(1, 1, 0.1, 0.2, other_processes=1.5, throttled=3)))
    assert row["verdict"] == "unstable"
    assert row["verdict_reasons"] == (
        "Other processes used up to 1.5 CPUs meanwhile. The processor was throttled, by heat or by a CPU limit of the "
        "container."
    )


def test_training_and_error_rates_have_their_columns() -> None:
    made = results(ok(1, 1, 0.1), weights="pretrained")
    made.cells[0].training = StepFigures(phases={"backward": Phase(median_s=0.25)}, frames_per_second=900.0)
    rate = {"value": 0.05, "substitutions": 1, "insertions": 0, "deletions": 0, "units": 20}
    heard = {"variant": "float32", "dataset": "d", "of_utterances": 3, "normalisation": "basic", "wer": rate}
    made.accuracy = [Accuracy.model_validate(heard)]
    (row,) = cell_rows(made)
    assert (row["backward_median_s"], row["forward_median_s"], row["frames_per_s"]) == (0.25, None, 900.0)
    assert (row["wer_fraction"], row["cer_fraction"]) == (0.05, None)


def test_a_run_without_cells_has_the_whole_header(tmp_path: Path) -> None:
    rows.write(results(), tmp_path)
    assert (tmp_path / "results.csv").read_text().strip().split(",") == columns(results())
    assert list(cell_rows(results(ok(1, 1, 0.1)))[0]) == columns(results())


def test_no_text_is_a_formula_of_a_spreadsheet() -> None:
    made = results(absent(2, 1, "failed", '=HYPERLINK("x")'))
    (row,) = read(rows.render(made))
    assert row["reason"] == '\'=HYPERLINK("x")'
    assert cell_rows(made)[0]["reason"] == '=HYPERLINK("x")', "a data frame has it as it is"
