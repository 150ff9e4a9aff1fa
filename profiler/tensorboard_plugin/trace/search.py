"""Find spans by name, and say what is at a place of the timeline."""

from __future__ import annotations

import re
from fnmatch import translate
from typing import Any

import numpy as np

from profiler.tensorboard_plugin.trace.columns import ON_DEVICE, Columns, Floats, Ints

LISTED = 50  # names


def matching_names(columns: Columns, search: str) -> Ints:
    """Numbers of the names that contain the text, in any case; `*` and `?` stand for anything, as in file names."""
    text = search.strip().lower()
    if not text:
        return np.empty(0, np.int32)
    pattern = re.compile(translate(f"*{text}*" if not set("*?") & set(text) else text))
    found = [number for number, name in enumerate(columns.names) if pattern.match(name.lower())]
    return np.array(found, np.int32)


def find(columns: Columns, search: str, after: float | None, backwards: bool = False) -> dict[str, Any]:
    """How many spans match, which names, and the next one after (or before) a time; from the other end at the end."""
    places = np.flatnonzero(np.isin(columns.name, matching_names(columns, search)))
    if not len(places):
        return {"count": 0, "names": [], "hit": None}
    places = places[np.argsort(columns.start[places], kind="stable")]
    starts = columns.start[places]
    if after is None:
        number = 0
    elif backwards:
        number = int(np.searchsorted(starts, after - 1e-3, "left")) - 1
    else:
        number = int(np.searchsorted(starts, after + 1e-3, "right"))
    number %= len(places)
    return {
        "count": len(places),
        "names": top_names(columns, places)[:LISTED],
        "number": number + 1,
        "hit": span(columns, int(places[number])),
    }


def top_names(
    columns: Columns, places: Ints | Any, own_time: Floats | None = None, total_time: Floats | None = None
) -> list[dict[str, Any]]:
    """Calls and time of the spans at these places, by name, most self time first; those of CPUs and devices apart."""
    names = 2 * columns.name[places] + columns.on_device[places]
    size = 2 * len(columns.names)
    calls = np.bincount(names, minlength=size)
    own = np.bincount(names, columns.own[places] if own_time is None else own_time, minlength=size)
    total = np.bincount(names, columns.duration[places] if total_time is None else total_time, minlength=size)
    order = [int(one) for one in np.lexsort((-total, -own)) if calls[one]]
    return [
        {"name": columns.names[one // 2], "short": columns.shown_names[one // 2], "device": one % 2 == 1}
        | {"calls": int(calls[one]), "own": float(own[one]), "total": float(total[one])}
        for one in order
    ]


def in_window(columns: Columns, begin: float, end: float, most: int = LISTED) -> dict[str, Any]:
    """What takes the time between two times. A span that reaches beyond them counts with its part in between."""
    stop = columns.start + columns.duration
    places = np.flatnonzero((columns.start < end) & ((stop > begin) | (columns.start >= begin)))
    total = np.minimum(stop[places], end) - np.maximum(columns.start[places], begin)
    own = columns.own[places]
    for one in np.flatnonzero((columns.start[places] < begin) | (stop[places] > end)):
        own[one] = _own_between(columns, int(places[one]), begin, end)
    names = top_names(columns, places, own, total)
    return {"spans": len(places), "names": names[:most], "left_out": max(0, len(names) - most)}


def _own_between(columns: Columns, place: int, begin: float, end: float) -> float:
    """Self time of one span between two times: without what the row below it holds there."""
    row = columns.row_of(place)
    low = max(begin, float(columns.start[place]))
    high = min(end, float(columns.start[place] + columns.duration[place]))
    if row + 1 == len(columns.row_track) or columns.row_track[row + 1] != columns.row_track[row]:
        return high - low
    inner = columns.row(row + 1)
    starts, stops = columns.start[inner], columns.start[inner] + columns.duration[inner]
    within = slice(int(np.searchsorted(stops, low, "right")), int(np.searchsorted(starts, high, "left")))
    covered = np.minimum(stops[within], high) - np.maximum(starts[within], low)
    return max(0.0, high - low - float(covered.sum()))


def at(columns: Columns, row: int, time: float) -> dict[str, Any] | None:
    """The span that covers a time in a row, or the nearest one to it."""
    if not 0 <= row < len(columns.row_track):
        return None
    whole = columns.row(row)
    place = int(np.searchsorted(columns.start[whole], time, "right")) - 1 + whole.start
    return span(columns, max(place, whole.start))


def span(columns: Columns, place: int) -> dict[str, Any]:
    """Everything about one span, with the names of those around it, outermost first."""
    row = columns.row_of(place)
    start = float(columns.start[place])
    category = columns.categories[columns.category[place]]
    on_device = category in ON_DEVICE
    return {
        "name": columns.names[columns.name[place]],
        "short": columns.shown_names[columns.name[place]],
        "category": category,
        "start": start,
        "duration": float(columns.duration[place]),
        "own": float(columns.own[place]),
        "detail": "" if on_device else columns.details[columns.detail[place]],
        "settings": columns.settings(place) if on_device else None,
        "linked": _linked(columns, place),
        "row": row,
        "depth": int(columns.row_depth[row]),
        "track": columns.tracks[columns.row_track[row]],
        "path": path_at(columns, int(columns.row_track[row]), start, int(columns.row_depth[row])),
    }


def _linked(columns: Columns, place: int) -> list[dict[str, Any]]:
    """Of something that ran on a device, its launch; of a launch, what it launched. `delay`: from one to the other."""
    number = columns.correlation[place]
    on_device = columns.on_device[place]
    if not number or (on_device and columns.categories[columns.category[place]] not in ON_DEVICE):
        return []
    others = np.flatnonzero(columns.correlation == number)
    others = others[columns.on_device[others] != on_device][:LISTED]
    sign = 1 if on_device else -1
    return [
        {
            "name": columns.shown_names[columns.name[other]],
            "row": (row := columns.row_of(int(other))),
            "start": float(columns.start[other]),
            "duration": float(columns.duration[other]),
            "delay": sign * float(columns.start[place] - columns.start[other]),
            "path": path_at(
                columns, int(columns.row_track[row]), float(columns.start[other]), int(columns.row_depth[row])
            ),
        }
        for other in others[np.argsort(columns.start[others], kind="stable")].tolist()
        if columns.categories[columns.category[other]] in ON_DEVICE or on_device
    ]


def path_at(columns: Columns, track: int, time: float, depth: int) -> list[str]:
    """Names of the spans of a track that cover a time, above a depth."""
    path = []
    for row in np.flatnonzero((columns.row_track == track) & (columns.row_depth < depth)):
        whole = columns.row(int(row))
        place = int(np.searchsorted(columns.start[whole], time, "right")) - 1 + whole.start
        if place >= whole.start and columns.start[place] + columns.duration[place] >= time:
            path.append(columns.names[columns.name[place]])
    return path
