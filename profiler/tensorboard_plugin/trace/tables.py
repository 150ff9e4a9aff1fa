"""Tables from a trace alone, for traces that have no breakdown beside them: labels and operators, with their times.

Times of the CPU and of devices stand apart. A row has the device time of what was launched in it; annotations that a
trace also draws on a device are not rows. What calls itself counts with its outermost call, so that no row is larger
than what is around it.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from profiler.tensorboard_plugin.trace.columns import ANNOTATION, OPERATOR, Columns, Ints, nest
from profiler.tensorboard_plugin.trace.gpu import MICRO, activity, launchers


def rows_from_trace(columns: Columns, by: str) -> list[dict[str, Any]]:
    """Rows of the same shape as those of a breakdown; what a trace does not tell is None. Sums over the whole trace."""
    ran = activity(columns)
    found = launchers(columns, ran, columns.of(ANNOTATION if by == "label" else OPERATOR), among_all=by == "label")
    places, parent = found.place, found.parent
    device_own, device_total = found.device_time(columns, ran)
    duration, name = columns.duration[places], columns.name[places]
    own_time = nest(columns.track_of(places), columns.start[places], duration)[1]  # of one kind among its own
    outer = _outermost(name, parent)
    size = len(columns.names)

    def sums(values: Any, where: Any = slice(None)) -> Any:
        return np.bincount(name[where], values[where], minlength=size) * MICRO

    calls = np.bincount(name, minlength=size)
    total, own = sums(duration, outer), sums(own_time)
    on_device, on_device_own = sums(device_total, outer), sums(device_own)
    whole = columns.length * MICRO or 1.0
    rows = []
    for one in np.lexsort((-total, -own, -on_device_own)).tolist():
        if calls[one]:
            row = {"name": columns.names[one], "calls": int(calls[one]), "total_s": float(total[one])}
            row |= {"own_s": float(own[one]), "share": float(total[one]) / whole, "own_share": float(own[one]) / whole}
            if len(ran.place):
                row |= {"device_s": float(on_device[one]), "device_own_s": float(on_device_own[one])}
            rows.append(row | {"memory_bytes": None, "macs": None})
    return rows


def _outermost(name: Ints, parent: Ints) -> NDArray[np.bool_]:
    """Whether none of the spans around one has its name. Spans come in the order in which they nest."""
    names, outer, open_ = name.tolist(), [], list[int]()
    within: Counter[int] = Counter()
    for place, around in enumerate(parent.tolist()):
        while open_ and open_[-1] != around:
            within[names[open_.pop()]] -= 1
        outer.append(within[names[place]] == 0)
        open_.append(place)
        within[names[place]] += 1
    return np.array(outer, bool)
