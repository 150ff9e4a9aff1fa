"""What the server makes of a trace: rows, cuts, searches, memory and tables."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from profiler.tensorboard_plugin.trace.columns import Columns, collect, nest
from profiler.tensorboard_plugin.trace.cut import ALL, cut, outline
from profiler.tensorboard_plugin.trace.events import TraceError, read_events
from profiler.tensorboard_plugin.trace.memory import memory_over_time
from profiler.tensorboard_plugin.trace.search import at, find, in_window
from profiler.tensorboard_plugin.trace.tables import rows_from_trace
from tests.unit.tensorboard_plugin.traces import CALL, Events, held, repeated, span, write

TIMES = 4000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("traces")


def columns_of(folder: Path, events: Events) -> Columns:
    return collect(read_events(write(folder / "one.pt.trace.json.gz", events)), "one")


@pytest.fixture(scope="module")
def call(folder: Path) -> Columns:
    return columns_of(folder, CALL)


@pytest.fixture(scope="module")
def long(folder: Path) -> Columns:
    return columns_of(folder, repeated(CALL, TIMES))


def spans(columns: Columns, **window: Any) -> list[list[tuple[str, float, float, int]]]:
    """Each row as (name, start, duration, count)."""
    asked = {"begin": 0, "end": columns.length, "width": 1000, "first": 0, "last": 100} | window
    made = cut(columns, **asked)
    return [
        [
            (made["names"][name], start, duration, count)
            for name, start, duration, count in zip(
                row["name"], row["start"], row["duration"], row["count"], strict=True
            )
        ]
        for row in made["rows"]
    ]


def test_calls_are_drawn_below_their_callers(call: Columns) -> None:
    assert [[one[0] for one in row] for row in spans(call)] == [
        ["call"],
        ["encoder", "aten::linear"],
        ["aten::linear", "aten::gelu"],
        ["aten::addmm"],
        ["aten::gelu"],  # of the other thread
    ]
    assert outline(call)["tracks"] == [{"name": "CPU: main", "rows": 4}, {"name": "CPU: 2", "rows": 1}]
    assert outline(call)["length"] == 100


def test_own_time_is_without_what_is_inside(call: Columns) -> None:
    own = {row["name"]: row["own"] for row in in_window(call, 0, 100)["names"]}
    assert own == {
        "call": 30,
        "encoder": 20,
        "aten::linear": 10 + 10,
        "aten::addmm": 20,
        "aten::gelu": 15,
    }


def test_what_takes_the_time_between_two_times_is_clipped_to_them(call: Columns) -> None:
    """From 20 to 45: spans that began before count, and none with more than the window."""
    found = in_window(call, 20, 45)
    sums = {row["name"]: (row["calls"], row["own"], row["total"]) for row in found["names"]}
    assert sums == {
        "call": (1, 0, 25),
        "encoder": (1, 0, 25),
        "aten::linear": (1, 5, 20),
        "aten::addmm": (1, 15, 15),
        "aten::gelu": (2, 5 + 5, 5 + 5),  # one of them in another thread
    }
    assert found["spans"] == 6
    assert [row["name"] for row in in_window(call, 95, 99)["names"]] == ["call"]
    assert in_window(call, 95, 99)["names"][0]["own"] == 4


def test_only_the_window_is_sent(call: Columns) -> None:
    """With what reaches into it."""
    assert [[one[0] for one in row] for row in spans(call, begin=42, end=60)] == [
        ["call"],
        ["encoder"],
        ["aten::gelu"],
        [],
        [],
    ]
    assert [[one[0] for one in row] for row in spans(call, first=2, last=3)] == [["aten::linear", "aten::gelu"]]


def test_a_long_trace_is_cut_to_what_can_be_drawn(long: Columns) -> None:
    rows = spans(long, width=500)
    assert len(long.start) == 7 * TIMES
    for row in rows[:4]:
        assert len(row) <= ALL
        assert sum(count for *_, count in row) >= TIMES  # nothing is left out, small ones stand together
        ends = [start + duration for _, start, duration, _ in row]
        assert all(end <= later[1] + 0.01 for end, later in zip(ends, row[1:], strict=False))
    near = spans(long, begin=11_000, end=11_200, width=500)
    assert all(count == 1 for row in near for *_, count in row)
    assert [one[0] for one in near[1]] == ["encoder", "aten::linear"] * 2


def test_what_is_searched_for_is_seen_also_among_spans_that_are_drawn_together(folder: Path) -> None:
    events = [span("tiny", 2 * place, 1) for place in range(5000)]
    events[3000]["name"] = "the one"
    made = cut(columns_of(folder, events), 0, 10_000, 300, 0, 10, search="THE ONE")
    (row,) = made["rows"]
    assert len(row["start"]) < 400
    (place,) = [place for place, match in enumerate(row["match"]) if match]
    assert row["start"][place] <= 6000 <= row["start"][place] + row["duration"][place]


def test_search_goes_from_one_to_the_next_and_round(call: Columns) -> None:
    first = find(call, "linear", None)
    assert (first["count"], first["number"], first["hit"]["start"]) == (2, 1, 10)
    assert first["hit"]["path"] == ["call", "encoder"]
    second = find(call, "linear", first["hit"]["start"])
    assert (second["number"], second["hit"]["start"]) == (2, 80)
    assert find(call, "linear", 80)["hit"]["start"] == 10
    assert find(call, "linear", 10, backwards=True)["hit"]["start"] == 80
    assert find(call, "aten::*mm", None)["count"] == 1
    assert find(call, "nothing of that name", None) == {"count": 0, "names": [], "hit": None}


def test_a_place_says_what_is_there(call: Columns) -> None:
    found = at(call, 2, 20)
    assert found is not None
    assert (found["name"], found["duration"], found["own"]) == ("aten::linear", 30, 10)
    assert found["path"] == ["call", "encoder"]
    assert found["detail"] == "[ [ 1, 2 ], [ 3 ] ]"
    assert at(call, 99, 20) is None


def test_spans_that_cross_do_not_share_a_row(folder: Path) -> None:
    """As on a device, where streams overlap."""
    crossing = columns_of(folder, [span("a", 0, 10), span("b", 5, 10), span("c", 12, 2), span("d", 20, 1)])
    assert [[one[0] for one in row] for row in spans(crossing)] == [["a", "d"], ["b"], ["c"]]


def test_spans_that_all_cross_take_no_longer_than_others() -> None:
    """Each ends after all before it: looking through all that are open would take the square of their number."""
    start, track = np.arange(30_000) * 1.0, np.zeros(30_000, np.int32)
    took = []
    for duration in (0.5, 30_000.0):
        before = time.process_time()
        depths, own = nest(track, start, np.full(30_000, duration))
        took.append(time.process_time() - before)
    assert depths[-1] == 29_999
    assert own[0] == 1
    assert took[1] < 50 * took[0] + 0.1


def test_where_spans_cross_time_belongs_to_the_one_that_began_last(folder: Path) -> None:
    """As labels of a backward pass do, which begin in one step of autograd and end in another."""
    crossing = columns_of(folder, [span("all", 0, 20), span("a", 0, 10), span("b", 5, 10), span("c", 12, 2)])
    own = {row["name"]: row["own"] for row in in_window(crossing, 0, 20)["names"]}
    assert own == {"all": 5, "a": 5, "b": 8, "c": 2}


def test_neighbours_that_touch_by_rounding_stay_in_one_row(folder: Path) -> None:
    touching = columns_of(folder, [span("a", 0, 10.0004), span("b", 10, 10)])
    assert [[one[0] for one in row] for row in spans(touching)] == [["a", "b"]]


def test_memory_over_time_keeps_its_peaks(long: Columns, call: Columns) -> None:
    one = memory_over_time(call, 0, 100, 1000)["devices"]["CPU"]
    assert (one["times"], one["bytes"]) == ([12, 45, 90], [100, 350, 0])
    assert one["peak"] == {"bytes": 350, "time": 45, "path": ["call", "encoder", "aten::gelu"]}
    thinned = memory_over_time(long, 0, long.length, 100)["devices"]["CPU"]
    assert thinned["events"] == 3 * TIMES
    assert len(thinned["times"]) <= 404
    assert (max(thinned["bytes"]), min(thinned["bytes"])) == (350, 0)


def test_without_totals_the_changes_are_added_up(folder: Path) -> None:
    events = [held(1, 0, 10), held(2, 0, 20), held(3, 0, -25)]
    for event in events:
        del event["args"]["Total Allocated"]
    columns = columns_of(folder, events)
    assert memory_over_time(columns, 0, 10, 100)["devices"]["CPU"]["bytes"] == [10, 30, 5]


def test_tables_of_a_trace_alone(call: Columns) -> None:
    labels = {row["name"]: (row["calls"], row["total_s"], row["own_s"]) for row in rows_from_trace(call, "label")}
    assert labels == {
        "call": (1, pytest.approx(100e-6), pytest.approx(40e-6)),
        "encoder": (1, pytest.approx(60e-6), pytest.approx(60e-6)),
    }
    operators = {row["name"]: row for row in rows_from_trace(call, "operator")}
    assert operators["aten::linear"]["calls"] == 2
    assert operators["aten::linear"]["total_s"] == pytest.approx(40e-6)
    assert operators["aten::linear"]["own_s"] == pytest.approx(20e-6)
    assert operators["aten::linear"]["macs"] is None  # a trace does not tell


def test_times_that_are_no_numbers_are_named(tmp_path: Path) -> None:
    path = write(tmp_path / "a.pt.trace.json")
    path.write_text(path.read_text().replace('"ts": 1010', '"ts": 1e999'))
    with pytest.raises(TraceError, match="Number out of range"):
        collect(read_events(path), path.name)


def test_a_file_with_nothing_to_draw_says_what_was_looked_for(tmp_path: Path) -> None:
    path = write(tmp_path / "a.pt.trace.json", [{"ph": "B", "name": "a", "ts": 1}, {"ph": "E", "name": "a", "ts": 2}])
    with pytest.raises(TraceError, match="2 entries, none of them a span"):
        collect(read_events(path), path.name)
