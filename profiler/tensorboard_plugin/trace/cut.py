"""A window of a trace -> what a page can draw of it: spans that are wide enough, and runs of those that are not."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from profiler.tensorboard_plugin.trace.columns import Columns
from profiler.tensorboard_plugin.trace.search import matching_names

ALL = 256  # spans of a row that are sent as they are
PIXELS = 2.0  # narrower spans are drawn together
MOST_ROWS = 200
WIDEST = 8192  # pixels


def outline(columns: Columns) -> dict[str, Any]:
    """What the page needs to lay out the timeline: its length, its tracks and how deep each is."""
    depths = np.bincount(columns.row_track, minlength=len(columns.tracks)).tolist()
    return {
        "length": columns.length,
        "spans": len(columns.start),
        "categories": columns.categories,
        "tracks": [{"name": name, "rows": rows} for name, rows in zip(columns.tracks, depths, strict=True)],
        "device": bool(columns.on_device.any()),
        "memory": list(columns.memory),
    }


def cut(
    columns: Columns, begin: float, end: float, width: int, first: int, last: int, search: str = ""
) -> dict[str, Any]:
    """The rows from `first` to before `last`, between two times, for a drawing so many pixels wide.

    Each row has parallel lists: start, duration, name (a place in `names`), category, how many spans it stands for, and
    whether one of these is searched for.
    """
    rows = len(columns.row_track)
    first, last = max(0, first), min(rows, last, max(0, first) + MOST_ROWS)
    end = max(end, begin + 1e-3)
    pixel = (end - begin) / min(max(width, 1), WIDEST)
    wanted = np.isin(np.arange(len(columns.names)), matching_names(columns, search))
    used: dict[int, int] = {}
    cuts = [_row(columns, number, begin, end, pixel, wanted, used) for number in range(first, last)]
    return {
        "begin": begin,
        "end": end,
        "first": first,
        "names": [columns.shown_names[name] for name in used],
        "rows": cuts,
    }


def _row(
    columns: Columns,
    number: int,
    begin: float,
    end: float,
    pixel: float,
    wanted: NDArray[np.bool_],
    used: dict[int, int],
) -> dict[str, Any]:
    whole = columns.row(number)
    starts = columns.start[whole]
    # Nothing overlaps in a row, so its ends are sorted too.
    low = int(np.searchsorted(starts + columns.duration[whole], begin, "left")) + whole.start
    high = int(np.searchsorted(starts, end, "right")) + whole.start
    start, duration = columns.start[low:high], columns.duration[low:high]
    name, category = columns.name[low:high], columns.category[low:high]
    count = np.ones(len(start), np.int32)
    match = wanted[name] if len(wanted) else np.zeros(0, bool)
    if len(start) > ALL:
        start, duration, name, category, count, match = _joined(
            start, duration, name, category, match, begin, PIXELS * pixel
        )
    return {
        "start": np.round(start, 3).tolist(),
        "duration": np.round(duration, 3).tolist(),
        "name": [used.setdefault(one, len(used)) for one in name.tolist()],
        "category": category.tolist(),
        "count": count.tolist(),
        "match": match.astype(int).tolist(),
    }


def _joined(start: Any, duration: Any, name: Any, category: Any, match: Any, begin: float, narrow: float) -> Any:
    """Narrow spans that begin in the same stretch of that width become one, named after the longest of them."""
    bucket = np.floor((start - begin) / narrow).astype(np.int64)
    wide = duration >= narrow
    # A wide span is a group of its own: it begins one, and what follows it begins another.
    new = np.concatenate(([True], (np.diff(bucket) != 0) | wide[1:] | wide[:-1]))
    groups = np.flatnonzero(new)
    count = np.diff(np.append(groups, len(start))).astype(np.int32)
    group = np.repeat(np.arange(len(groups)), count)
    longest = np.lexsort((-duration, group))[groups]
    begins = start[groups]
    ends = np.maximum.reduceat(start + duration, groups)
    return begins, ends - begins, name[longest], category[longest], count, np.logical_or.reduceat(match, groups)
