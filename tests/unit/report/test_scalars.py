"""Event files, read back as TensorBoard reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from profiler.report import scalars
from profiler.report.markdown import render
from profiler.results.types import CellResult
from tests.unit.report.test_tables import absent, ok, results


def read(folder: Path) -> EventAccumulator:
    accumulator = EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0})
    accumulator.Reload()
    return accumulator


def points(accumulator: EventAccumulator, tag: str) -> list[tuple[int, Any]]:
    return [(event.step, pytest.approx(event.value)) for event in accumulator.Scalars(tag)]


def grid() -> list[CellResult]:
    return [ok(1, 1, 0.1), ok(1, 4, 0.2), ok(5, 1, 0.3, memory=2 * 10**9), ok(5, 4, 0.4)]


def test_there_is_a_curve_over_seconds_for_each_batch_size_and_the_other_way(tmp_path: Path) -> None:
    scalars.write(results(*grid()), tmp_path)
    read_back = read(tmp_path / "float32")
    assert set(read_back.Tags()["scalars"]) == {
        "RTF over seconds of audio/batch 1",
        "RTF over seconds of audio/batch 4",
        "RTF over batch size/1 s",
        "RTF over batch size/5 s",
        "peak memory, MB over seconds of audio/batch 1",
        "peak memory, MB over seconds of audio/batch 4",
        "peak memory, MB over batch size/1 s",
        "peak memory, MB over batch size/5 s",
    }
    assert points(read_back, "RTF over seconds of audio/batch 4") == [(1, 0.2), (5, 0.4)]
    assert points(read_back, "RTF over batch size/5 s") == [(1, 0.3), (4, 0.4)]
    assert points(read_back, "peak memory, MB over seconds of audio/batch 1") == [(1, 1000.0), (5, 2000.0)]


def test_fractions_of_seconds_keep_their_places(tmp_path: Path) -> None:
    """A step is a whole number, so the axis is in milliseconds."""
    scalars.write(results(ok(0.1, 1, 0.5), ok(0.25, 1, 0.4), ok(1.5, 1, 0.3)), tmp_path)
    read_back = read(tmp_path / "float32")
    expected = [(100, 0.5), (250, 0.4), (1500, 0.3)]
    assert points(read_back, "RTF over milliseconds of audio/batch 1") == expected
    assert points(read_back, "RTF over batch size/0.25 s") == [(1, 0.4)]


def test_the_tables_are_there_as_text(tmp_path: Path) -> None:
    made = results(*grid())
    scalars.write(made, tmp_path)
    read_back = read(tmp_path / "float32")
    (event,) = read_back.Tensors("tables")
    (text,) = event.tensor_proto.string_val
    assert text.decode() == render(made)
    assert "random weights" in text.decode()
    assert read_back.SummaryMetadata("tables").plugin_data.plugin_name == "text"


def test_cells_without_figures_leave_no_points(tmp_path: Path) -> None:
    scalars.write(results(ok(1, 1, 0.1), absent(2, 1, "failed", "x"), absent(4, 1, "skipped", "y")), tmp_path)
    assert points(read(tmp_path / "float32"), "RTF over seconds of audio/batch 1") == [(1, 0.1)]


def test_each_variant_is_a_run_of_its_own_in_tensorboard(tmp_path: Path) -> None:
    other = ok(1, 1, 0.2).model_copy(update={"variant": "int8"})
    written = scalars.write(results(ok(1, 1, 0.1), other), tmp_path)
    assert sorted(path.parent.name for path in written) == ["float32", "int8"]
    assert points(read(tmp_path / "int8"), "RTF over seconds of audio/batch 1") == [(1, 0.2)]


def test_writing_again_replaces_what_was_there(tmp_path: Path) -> None:
    for rtf in (0.1, 0.2):
        (written,) = scalars.write(results(ok(1, 1, rtf)), tmp_path)
        assert list((tmp_path / "float32").iterdir()) == [written]
    assert points(read(tmp_path / "float32"), "RTF over seconds of audio/batch 1") == [(1, 0.2)]
