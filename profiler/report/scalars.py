"""Event files for core TensorBoard: RTF and memory by duration and batch size, and the tables as text.

Works without any plugin and without torch. One event file a variant, in the variant's folder, written anew each time.
"""

from __future__ import annotations

import time
from pathlib import Path

from profiler.metrics import PEAK, RTF
from profiler.report.markdown import render
from profiler.results.types import CellResult, Results
from profiler.results.untrusted import inside

QUEUE = 1000


def write(results: Results, folder: Path) -> list[Path]:
    """Write the event files of all variants that have a measured cell."""
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    written = []
    tables = render(results)
    for variant in results.variants:
        cells = [cell for cell in results.cells if cell.variant == variant and cell.status == "ok"]
        target = inside(folder, variant)
        target.mkdir(exist_ok=True)
        for old in target.glob("events.out.tfevents.*"):
            old.unlink()
        writer = EventFileWriter(str(target), max_queue_size=QUEUE)
        for tag, step, value in _points(cells):
            writer.add_event(_event(Summary(value=[Summary.Value(tag=tag, simple_value=value)]), step))
        writer.add_event(_event(_text("tables", tables), 0))
        writer.close()
        for number, file in enumerate(sorted(target.glob("events.out.tfevents.*"))):
            # TensorBoard's own name for it has the name of the host in it.
            written.append(file.rename(target / f"events.out.tfevents.{int(time.time())}.speech-profiler.{number}"))
    return written


def _text(tag: str, markdown: str) -> object:
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.plugins.text.metadata import create_summary_metadata
    from tensorboard.util.tensor_util import make_tensor_proto

    metadata = create_summary_metadata(display_name=tag, description="")
    value = Summary.Value(tag=tag, metadata=metadata, tensor=make_tensor_proto(markdown.encode()))
    return Summary(value=[value])


def _event(summary: object, step: int) -> object:
    from tensorboard.compat.proto.event_pb2 import Event

    return Event(wall_time=time.time(), step=step, summary=summary)


def _points(cells: list[CellResult]) -> list[tuple[str, int, float]]:
    """(tag, step, value). A step is a whole number: milliseconds where some duration is a fraction of a second."""
    whole = all(cell.seconds == int(cell.seconds) for cell in cells)
    unit, scale = ("seconds", 1) if whole else ("milliseconds", 1000)
    points = []
    for cell in sorted(cells, key=lambda cell: (cell.batch_size, cell.seconds)):
        length = round(cell.seconds * scale)
        batch, audio = f"batch {cell.batch_size}", f"{cell.seconds:g} s"
        for metric in (RTF, PEAK):
            value = metric.in_cell(cell)
            if value is not None:
                shown = value / metric.shown.scale
                points.append((f"{metric.head} over {unit} of audio/{batch}", length, shown))
                points.append((f"{metric.head} over batch size/{audio}", cell.batch_size, shown))
    return points
