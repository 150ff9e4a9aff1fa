"""What tensors held over time, in as many points as a chart has pixels, with nothing of its peaks lost."""

from __future__ import annotations

from typing import Any

import numpy as np

from profiler.tensorboard_plugin.trace.columns import Columns, Floats
from profiler.tensorboard_plugin.trace.search import path_at

DEEP = 1000  # levels: all there are


def memory_over_time(columns: Columns, begin: float, end: float, width: int) -> dict[str, Any]:
    """For each device: points of a staircase between two times, and the peak of the window with what ran then."""
    devices = {}
    for device, (times, held) in columns.memory.items():
        low = max(0, int(np.searchsorted(times, begin, "right")) - 1)
        high = int(np.searchsorted(times, end, "right"))
        x, y = _thinned(times[low:high], held[low:high], max(width, 10))
        devices[device] = {"times": np.round(x, 3).tolist(), "bytes": y.tolist(), "events": high - low}
        if high > low:
            place = low + int(np.argmax(held[low:high]))
            devices[device]["peak"] = {
                "bytes": float(held[place]),
                "time": float(times[place]),
                "path": _running(columns, float(times[place])),
            }
    return {"begin": begin, "end": end, "devices": devices}


def _running(columns: Columns, time: float) -> list[str]:
    """The longest chain of spans over a time: on a CPU that of the thread that allocated."""
    paths = [path_at(columns, track, time, DEEP) for track in range(len(columns.tracks))]
    return max(paths, key=len, default=[])


def _thinned(times: Floats, held: Floats, width: int) -> tuple[Floats, Floats]:
    """At most four points a pixel: the first, the lowest, the highest and the last of those that fall on it."""
    if len(times) <= 4 * width:
        return times, held
    pixel = ((times - times[0]) / (times[-1] - times[0] or 1.0) * width).astype(np.int64)
    groups = np.flatnonzero(np.diff(pixel, prepend=-1))
    group = np.repeat(np.arange(len(groups)), np.diff(np.append(groups, len(times))))
    lowest, highest = np.lexsort((held, group))[groups], np.lexsort((-held, group))[groups]
    kept = np.unique(np.concatenate((groups, np.append(groups[1:], len(times)) - 1, lowest, highest)))
    return times[kept], held[kept]
