"""The event file, read back as TensorBoard reads it."""

from __future__ import annotations

from pathlib import Path

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from profiler.report import event_file
from profiler.report.markdown import render
from tests.unit.report.test_tables import absent, ok, results


def read(folder: Path) -> EventAccumulator:
    accumulator = EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0})
    accumulator.Reload()
    return accumulator


def test_the_tables_are_there_as_text_and_nothing_as_scalars(tmp_path: Path) -> None:
    """TensorBoard would smooth scalars into figures that nobody measured."""
    made = results(ok(1, 1, 0.1), ok(1, 4, 0.2), ok(5, 1, 0.3), absent(5, 4, "failed", "x"))
    event_file.write(made, tmp_path)
    read_back = read(tmp_path)
    assert read_back.Tags()["scalars"] == []
    (event,) = read_back.Tensors("tables")
    (text,) = event.tensor_proto.string_val
    assert text.decode() == render(made)
    assert "random weights" in text.decode()
    assert read_back.SummaryMetadata("tables").plugin_data.plugin_name == "text"


def test_writing_again_replaces_what_was_there(tmp_path: Path) -> None:
    """Also the files of variants that earlier versions wrote, with scalars."""
    earlier = tmp_path / "float32" / "events.out.tfevents.1.host.1.0"
    earlier.parent.mkdir()
    earlier.touch()
    for rtf in (0.1, 0.2):
        written = event_file.write(results(ok(1, 1, rtf)), tmp_path)
        assert list(tmp_path.glob("events*")) == [written]
    assert not earlier.exists()
    (event,) = read(tmp_path).Tensors("tables")
    assert "0.200" in event.tensor_proto.string_val[0].decode()
