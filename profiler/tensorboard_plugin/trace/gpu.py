"""What the GPUs of a trace did: columns -> launches, steps, utilisation, kernels, copies, and what follows from them.

Times of a CPU and of a device are never added. Definitions are those of torch-tb-profiler, whose users know them:

    a step        from `ProfilerStep#n` on the CPU to the end of what it launched; without steps, all operators
    utilisation   of all steps, the part in which a kernel runs
    SM efficiency the same, weighted with how many of the SMs have a block: min(blocks per SM, 1), added over kernels
    occupancy     mean of the kernels' estimated achieved occupancy, weighted with their time
    breakdown     each moment of a step belongs to the first that applies: kernel, memcpy, memset, communication, then
                  what the CPU does while the device is idle: runtime call, DataLoader, operator, none of these
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from profiler.tensorboard_plugin.trace.advice import WHOLE, advice, is_launch_bound
from profiler.tensorboard_plugin.trace.columns import (
    ANNOTATION,
    COPY,
    FILL,
    KERNEL,
    LOADER,
    ON_DEVICE,
    OPERATOR,
    STEP,
    TOUCHING,
    Columns,
    Floats,
    Ints,
)
from profiler.tensorboard_plugin.trace.names import is_communication, short_name, uses_tensor_cores

Places = NDArray[np.intp]
Ranges = tuple[Floats, Floats]  # begins and ends, sorted, none touching another
MICRO = 1e-6
ROLES = ("kernel", "memcpy", "memset", "communication", "runtime", "dataloader", "operator", "other")
BUSY = ROLES[:4]  # the device does something
SHORT = 1000.0  # microseconds: a longer pause is not one between two launches
MOST_STEPS = 5000  # of a recording: the first ones; and as many kernels, those that take most time
COMPLETE = 0.8  # of what the step before it launched: the last step of a recording is often cut off
# What torch runs on tensor cores where the type of its numbers allows it.
ELIGIBLE = ("conv", "matmul", "linear", "mm", "lstm", "gru", "rnn", "attention")


@dataclass(frozen=True)
class Activity:
    """All that ran on devices, in order of its start, each with the call that launched it."""

    place: Places
    launch: Places  # -1 where the trace does not tell

    @property
    def launched(self) -> NDArray[np.bool_]:
        return self.launch >= 0


@dataclass(frozen=True)
class Step:
    name: str
    begin: float  # microseconds
    end: float
    parts: dict[str, float] = field(default_factory=dict)  # role -> microseconds; they add up to the step

    @property
    def idle(self) -> float:
        return self.end - self.begin - sum(self.parts[role] for role in BUSY)


def activity(columns: Columns) -> Activity:
    place = columns.of(*ON_DEVICE)
    place = place[np.argsort(columns.start[place], kind="stable")]
    calls = _runtime(columns)
    calls = calls[columns.correlation[calls] != 0]
    calls = calls[np.argsort(columns.correlation[calls], kind="stable")]
    launch = np.full(len(place), -1, np.intp)
    if len(calls) and len(place):
        wanted = columns.correlation[place]
        at = np.minimum(np.searchsorted(columns.correlation[calls], wanted), len(calls) - 1)
        found = (columns.correlation[calls][at] == wanted) & (wanted != 0)
        launch[found] = calls[at[found]]
    return Activity(place, launch)


def _runtime(columns: Columns) -> Places:
    """Calls of the driver or its runtime: cuda_runtime, cuda_driver, xpu_runtime, ..."""
    return columns.of(*(name for name in columns.categories if name.endswith(("_runtime", "_driver"))))


def _named(columns: Columns, places: Places, *prefixes: str) -> Places:
    return places[_with_name(columns, places, lambda name: name.startswith(prefixes))]


def _ends(columns: Columns, places: Places) -> Floats:
    ends: Floats = columns.start[places] + columns.duration[places]
    return ends


def steps(columns: Columns, ran: Activity) -> list[Step]:
    """The steps of a recording, each until the device has done what it launched; without the last if it was cut off."""
    marks = _named(columns, columns.of(ANNOTATION), STEP)
    marks = marks[np.argsort(columns.start[marks], kind="stable")]
    names = [columns.names[columns.name[mark]].removeprefix(STEP) for mark in marks]
    spans = list(zip(columns.start[marks].tolist(), _ends(columns, marks).tolist(), strict=True))
    if not spans:
        work = columns.of(OPERATOR)
        work = work if len(work) else np.arange(len(columns.start))
        if not len(work):
            return []
        names, spans = [WHOLE], [(float(columns.start[work].min()), float(_ends(columns, work).max()))]
    names, spans = names[:MOST_STEPS], spans[:MOST_STEPS]
    launched, calls = ran.place[ran.launched], ran.launch[ran.launched]
    begins, ends = columns.start[launched], _ends(columns, launched)
    step_begins, step_ends = (np.array(edge) for edge in zip(*spans, strict=True))
    of = np.searchsorted(step_begins, columns.start[calls], "right") - 1  # the step that each was launched in
    of[(of >= 0) & (_ends(columns, calls) > step_ends[of])] = -1
    if not (of >= 0).any():
        return _with_parts(columns, ran, [Step(name, *span) for name, span in zip(names, spans, strict=True)])
    before = spans[0][0]
    if (of == 0).any():
        unmatched = np.ones(len(ran.place), bool)
        unmatched[np.flatnonzero(ran.launched)[of >= 0]] = False
        earlier = _ends(columns, ran.place[unmatched])
        before = max([before, *earlier[earlier < begins[of == 0].min()].tolist()])
    done = np.full(len(spans), -np.inf)
    np.maximum.at(done, of[of >= 0], ends[of >= 0])
    found = []
    for name, (begin, end), last in zip(names, spans, done.tolist(), strict=True):
        first = max(before, begin)
        before = max(end, first, last)
        found.append(Step(name, first, before))
    return _with_parts(columns, ran, found[: _whole(np.bincount(of[of >= 0], minlength=len(spans)).tolist())])


def _whole(launches: list[int]) -> int:
    """How many of the steps were recorded to their end."""
    last = max(place for place, count in enumerate(launches) if count)
    return last if last and launches[last] < COMPLETE * launches[last - 1] else last + 1


def union(begins: Floats, ends: Floats) -> Ranges:
    """Ranges that overlap or touch become one."""
    if not len(begins):
        return np.empty(0), np.empty(0)
    order = np.argsort(begins, kind="stable")
    begins, reach = begins[order], np.maximum.accumulate(ends[order])
    new = np.concatenate(([True], begins[1:] > reach[:-1]))
    return begins[new], reach[np.append(np.flatnonzero(new)[1:] - 1, len(reach) - 1)]


def _covered(ranges: Ranges, times: Any) -> Any:
    """How much time the ranges cover until each of these times."""
    if not len(ranges[0]):
        return np.zeros(np.shape(times))
    lengths = ranges[1] - ranges[0]
    until = np.stack((np.cumsum(lengths) - lengths, np.cumsum(lengths)), 1)
    return np.interp(times, np.stack(ranges, 1).ravel(), until.ravel())


def _with_parts(columns: Columns, ran: Activity, found: list[Step]) -> list[Step]:
    covers = [union(columns.start[places], _ends(columns, places)) for places in _roles(columns, ran)]
    cuts = np.unique(np.concatenate([*(edge for cover in covers for edge in cover), _edges(found)]))
    middle, length = (cuts[1:] + cuts[:-1]) / 2, np.diff(cuts)
    role = np.full(len(middle), len(covers))
    for number in range(len(covers) - 1, -1, -1):
        begins, ends = covers[number]
        if len(begins):
            at = np.searchsorted(begins, middle) - 1
            role[(at >= 0) & (ends[at] > middle)] = number
    starts, stops = (np.array([getattr(step, edge) for step in found]) for edge in ("begin", "end"))
    of = np.searchsorted(starts, middle, "right") - 1
    inside = (of >= 0) & (middle < stops[of])
    sums = np.bincount(of[inside] * len(ROLES) + role[inside], length[inside], minlength=len(found) * len(ROLES))
    return [
        Step(step.name, step.begin, step.end, dict(zip(ROLES, parts, strict=True)))
        for step, parts in zip(found, sums.reshape(len(found), len(ROLES)).tolist(), strict=True)
    ]


def _edges(found: list[Step]) -> Floats:
    return np.array([edge for step in found for edge in (step.begin, step.end)], np.float64)


def _roles(columns: Columns, ran: Activity) -> list[Places]:
    """The spans of each role but the last, in the order of ROLES."""
    kinds = columns.category[ran.place]
    kernels, copies, fills = (ran.place[np.isin(kinds, _number(columns, kind))] for kind in (KERNEL, COPY, FILL))
    talking = _with_name(columns, kernels, is_communication)
    operators, marks = columns.of(OPERATOR), columns.of(ANNOTATION)
    collective = _named(columns, np.concatenate((operators, marks)), "nccl:", "gloo:")
    operators = np.setdiff1d(operators, collective)
    loading = _named(columns, marks, LOADER)
    communication = np.concatenate((kernels[talking], collective))
    return [kernels[~talking], copies, fills, communication, _runtime(columns), loading, operators]


def _number(columns: Columns, category: str) -> list[int]:
    return [number for number, name in enumerate(columns.categories) if name == category]


def _with_name(columns: Columns, places: Places, wanted: Callable[[str], bool]) -> NDArray[np.bool_]:
    """Which of the spans have a name that is wanted."""
    names = [number for number in np.unique(columns.name[places]).tolist() if wanted(columns.names[number])]
    return np.isin(columns.name[places], names)


@dataclass(frozen=True)
class Launchers:
    """Spans of CPUs in the order in which they nest, and which of them launched what."""

    place: Places
    parent: Ints  # the number of the span around each; -1: none
    of: Ints  # for each of Activity the number of the innermost span that launched it; -1: none

    def device_time(self, columns: Columns, ran: Activity) -> tuple[Floats, Floats]:
        """Of what each launched itself, and with what was launched inside of it."""
        known = self.of >= 0
        weights = columns.duration[ran.place[known]]
        own = np.asarray(np.bincount(self.of[known], weights, minlength=len(self.place)), np.float64)
        total, parent = own.tolist(), self.parent.tolist()
        for place in range(len(total) - 1, -1, -1):  # what is inside comes after what is around it
            if parent[place] >= 0:
                total[parent[place]] += total[place]
        return own, np.array(total, np.float64)


def around(track: Ints, start: Floats, duration: Floats) -> Ints:
    """Spans in order of track and start -> the place of the span around each (-1: none)."""
    parents = array("i")
    open_: list[tuple[float, int]] = []
    last = -1
    for place, (on, begin, length) in enumerate(zip(track.tolist(), start.tolist(), duration.tolist(), strict=True)):
        if on != last:
            open_.clear()
            last = on
        while open_ and open_[-1][0] <= begin + TOUCHING:
            open_.pop()
        parents.append(open_[-1][1] if open_ else -1)
        open_.append((begin + length, place))
    return np.array(parents, np.int32)


def launchers(columns: Columns, ran: Activity, places: Places, among_all: bool = False) -> Launchers:
    """`among_all`: what is launched by a thread in which none of these spans is open, such as autograd's, belongs to
    the span that is open in the thread that has most of them."""
    launched = np.flatnonzero(ran.launched)
    calls = ran.launch[launched]
    everything = np.concatenate((places, calls))
    is_call = np.arange(len(everything)) >= len(places)
    track, start = columns.track_of(everything), columns.start[everything]
    duration = np.where(is_call, 0.0, columns.duration[everything])  # a call is where it began

    def nested(track: Ints) -> tuple[Places, Ints]:
        order = np.lexsort((is_call, -duration, start, track))
        return order, around(track[order], start[order], duration[order])

    order, parent = nested(track)
    alone = order[is_call[order] & (parent < 0)]
    if among_all and len(places) and len(alone):
        track[alone] = np.argmax(np.bincount(columns.track_of(places)))
        order, parent = nested(track)
    spans, called = np.flatnonzero(~is_call[order]), np.flatnonzero(is_call[order])
    number = np.full(len(order) + 1, -1, np.int32)  # the last one stands for -1
    number[spans] = np.arange(len(spans))
    of = np.full(len(ran.place), -1, np.int32)
    of[launched[order[called] - len(places)]] = number[parent[called]]
    return Launchers(everything[order[spans]], number[parent[spans]], of)


def _setting(columns: Columns, places: Places, key: str) -> Floats:
    """A setting of each launch; NaN where the trace does not tell it."""
    numbers, of = np.unique(columns.detail[places], return_inverse=True)
    one_of = places[np.unique(of, return_index=True)[1]] if len(places) else places
    values = [columns.settings(int(place)).get(key) for place in one_of]
    plain = [float(value) if isinstance(value, int | float) else np.nan for value in values]
    return np.array(plain, np.float64)[of] if len(numbers) else np.empty(0)


def _mean(values: Floats, weights: Floats) -> float | None:
    known = ~np.isnan(values) & (values >= 0)
    weight = float(weights[known].sum())
    return float((values[known] * weights[known]).sum() / weight) if weight > 0 else None


def devices(columns: Columns, ran: Activity, begin: float, end: float) -> list[dict[str, Any]]:
    """Each GPU that ran something: shares of the time between the first step's begin and the last one's end."""
    kernels = columns.of(KERNEL)
    device = columns.device_of(kernels)
    named = {one["id"]: one for one in columns.about.get("devices", [])}
    found = []
    for number in np.unique(columns.device_of(ran.place)).tolist():
        ours = kernels[device == number]
        starts, ends = columns.start[ours], _ends(columns, ours)
        clipped = np.maximum(np.minimum(ends, end) - np.maximum(starts, begin), 0)
        tensor = _with_name(columns, ours, uses_tensor_cores)
        total = float(columns.duration[ours].sum())
        about = named.get(number, {})
        found.append(
            {
                "id": number,
                "name": about.get("name", ""),
                "bytes": about.get("bytes"),
                "compute": about.get("compute"),
                "utilisation": float(np.diff(_covered(union(starts, ends), [begin, end]))[0]) / (end - begin)
                if end > begin
                else None,
                "sm_efficiency": _sm_efficiency(columns, ours, begin, end),
                "occupancy": _mean(_setting(columns, ours, "occupancy"), clipped),
                "tensor_cores": float(columns.duration[ours][tensor].sum()) / total if total else None,
                "kernels": len(ours),
                "kernel_s": total * MICRO,
            }
        )
    return found


def _sm_efficiency(columns: Columns, kernels: Places, begin: float, end: float) -> float | None:
    blocks = _setting(columns, kernels, "blocks_per_sm")
    known = blocks > 0
    if not known.any() or end <= begin:
        return None
    starts = np.clip(columns.start[kernels][known], begin, end)
    ends = np.clip(_ends(columns, kernels)[known], begin, end)
    times = np.concatenate((starts, ends))
    order = np.argsort(times, kind="stable")
    running = np.cumsum(np.concatenate((blocks[known], -blocks[known]))[order])[:-1]
    return float((np.clip(running, 0, 1) * np.diff(times[order])).sum() / (end - begin))


def kernel_rows(columns: Columns, ran: Activity) -> list[dict[str, Any]]:
    """One row per kernel, most time first."""
    kernels = columns.of(KERNEL)
    if not len(kernels):
        return []
    names, of = np.unique(columns.name[kernels], return_inverse=True)
    duration = columns.duration[kernels]
    calls, total = np.bincount(of), np.bincount(of, duration)
    occupancy = _setting(columns, kernels, "occupancy")
    found = launchers(columns, ran, columns.of(OPERATOR))
    operator = dict(zip(ran.place.tolist(), found.of.tolist(), strict=True))
    whole = float(duration.sum()) or 1.0
    sorted_by_name = np.argsort(of, kind="stable")
    bounds = np.searchsorted(of[sorted_by_name], np.arange(len(names) + 1))
    rows = []
    for number in np.argsort(-total, kind="stable")[:MOST_STEPS].tolist():
        mine = sorted_by_name[bounds[number] : bounds[number + 1]]
        longest = int(kernels[mine[np.argmax(duration[mine])]])
        by = operator[longest]
        name = columns.names[names[number]]
        rows.append(
            {
                "name": name,
                "short": short_name(name),
                "calls": int(calls[number]),
                "total_s": float(total[number]) * MICRO,
                "share": float(total[number]) / whole,
                "mean_s": float(total[number] / calls[number]) * MICRO,
                "least_s": float(duration[mine].min()) * MICRO,
                "most_s": float(duration[mine].max()) * MICRO,
                "occupancy": _mean(occupancy[mine], duration[mine]),
                "tensor_cores": uses_tensor_cores(name),
                "operator": columns.names[columns.name[found.place[by]]] if by >= 0 else "",
                "longest": {"row": columns.row_of(longest), "time": float(columns.start[longest])},
            }
        )
    return rows


def copy_rows(columns: Columns, ran: Activity) -> list[dict[str, Any]]:
    """Copies and fills by kind, with bytes and rate where the trace has them."""
    moved = ran.place[np.isin(columns.category[ran.place], _number(columns, COPY) + _number(columns, FILL))]
    names, of = np.unique(columns.name[moved], return_inverse=True)
    calls, seconds = np.bincount(of, minlength=0), np.bincount(of, columns.duration[moved]) * MICRO
    sizes = np.bincount(of, np.nan_to_num(_setting(columns, moved, "bytes")))
    return [
        {
            "name": columns.names[names[one]],
            "calls": int(calls[one]),
            "total_s": float(seconds[one]),
            "bytes": float(sizes[one]) or None,
        }
        for one in np.argsort(-seconds, kind="stable")[:MOST_STEPS].tolist()
    ]


def waiting_for_launches(columns: Columns, ran: Activity, found: list[Step]) -> float | None:
    """Of the time in steps in which no device does anything, the part of short pauses until the next launch, without
    what the DataLoader takes."""
    idle = sum(step.idle for step in found)
    if not ran.launched.any() or idle <= 0:
        return None
    begins, ends = union(columns.start[ran.place], _ends(columns, ran.place))
    call = ran.launch[np.searchsorted(columns.start[ran.place], begins)]  # of what ends each pause
    pause_begin = np.maximum(np.concatenate(([-np.inf], ends[:-1])), found[0].begin)
    pause_end = np.minimum(begins, found[-1].end)
    launch = np.where(call >= 0, columns.start[call], pause_begin)
    until = np.maximum(np.minimum(launch, pause_end), pause_begin)
    marks = _named(columns, columns.of(ANNOTATION), LOADER)
    loading = union(columns.start[marks], _ends(columns, marks))
    waited = until - pause_begin - (_covered(loading, until) - _covered(loading, pause_begin))
    return min(float(waited[pause_end - pause_begin < SHORT].sum()) / idle, 1.0)


def _slowest_call(columns: Columns) -> str:
    """The call of the driver that takes most time, all its calls together."""
    calls = _runtime(columns)
    sums = np.bincount(columns.name[calls], columns.duration[calls])
    return columns.names[int(np.argmax(sums))] if len(sums) else ""


def overview(columns: Columns) -> dict[str, Any] | None:
    """All facts about the GPUs of a trace; None where nothing ran on one."""
    ran = activity(columns)
    if not len(ran.place):
        return None
    found = steps(columns, ran)
    begin, end = (found[0].begin, found[-1].end) if found else (0.0, columns.length)
    parts = {role: sum(step.parts[role] for step in found) for role in ROLES}
    whole = sum(step.end - step.begin for step in found) or 1.0
    launched = ran.launched
    delay = columns.start[ran.place[launched]] - columns.start[ran.launch[launched]]
    kernels = columns.of(KERNEL)
    talking = kernels[_with_name(columns, kernels, is_communication)]
    facts: dict[str, Any] = {
        "rank": columns.about.get("rank"),
        "ranks": columns.about.get("ranks"),
        "devices": devices(columns, ran, begin, end),
        "steps": [
            {
                "name": step.name,
                "begin": step.begin,
                "total_s": (step.end - step.begin) * MICRO,
                "idle_s": step.idle * MICRO,
            }
            | {"parts": {role: part * MICRO for role, part in step.parts.items()}}
            for step in found
        ],
        "shares": {role: part / whole for role, part in parts.items()},
        "idle": sum(step.idle for step in found) / whole,
        "waiting_for_launches": waiting_for_launches(columns, ran, found),
        "launch_delay_s": float(np.median(delay)) * MICRO if len(delay) else None,
        "kernel_median_s": float(np.median(columns.duration[kernels])) * MICRO if len(kernels) else None,
        "communication_s": float(columns.duration[talking].sum()) * MICRO,
        "slowest_call": _slowest_call(columns),
        "eligible": _eligible(columns, ran),
        "copies": copy_rows(columns, ran),
    }
    facts["launch_bound"] = is_launch_bound(facts)
    return facts | {"advice": advice(facts)}


def _eligible(columns: Columns, ran: Activity) -> float | None:
    """The part of the kernels' time that matrix products, convolutions and recurrent layers launched."""
    found = launchers(columns, ran, columns.of(OPERATOR))
    kernel = np.isin(columns.category[ran.place], _number(columns, KERNEL)) & (found.of >= 0)
    by = found.place[found.of[kernel]]
    time = columns.duration[ran.place[kernel]]
    eligible = _with_name(columns, by, lambda name: any(part in name.lower() for part in ELIGIBLE))
    return float(time[eligible].sum() / time.sum()) if time.sum() > 0 else None
