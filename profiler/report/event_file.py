"""The tables of a run as text in an event file, which TensorBoard shows without any plugin of ours.

Text and no scalars: TensorBoard smooths scalars over their steps, and a grid smoothed over lengths of audio shows
figures that nobody measured. No torch is imported.
"""

from __future__ import annotations

import time
from pathlib import Path

from profiler.report.markdown import render
from profiler.results.types import Results
from profiler.results.untrusted import inside

PATTERN = "events.out.tfevents.*"


def write(results: Results, folder: Path) -> Path:
    """Write the run's event file anew. Those of its variants, which earlier versions wrote, held scalars: they go."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.plugins.text.metadata import create_summary_metadata
    from tensorboard.summary.writer.event_file_writer import EventFileWriter
    from tensorboard.util.tensor_util import make_tensor_proto

    for place in (folder, *(inside(folder, variant) for variant in results.variants)):
        for old in place.glob(PATTERN):
            old.unlink()
    metadata = create_summary_metadata(display_name="tables", description="")
    text = Summary.Value(tag="tables", metadata=metadata, tensor=make_tensor_proto(render(results).encode()))
    writer = EventFileWriter(str(folder))
    writer.add_event(Event(wall_time=time.time(), step=0, summary=Summary(value=[text])))
    writer.close()
    # TensorBoard's own name for it has the name of the host in it.
    return next(folder.glob(PATTERN)).rename(folder / f"events.out.tfevents.{int(time.time())}.speech-profiler.0")
