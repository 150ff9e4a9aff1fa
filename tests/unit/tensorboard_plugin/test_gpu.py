"""What the server makes of a trace of a GPU. Sums are known from how the traces are written: traces.py draws them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from profiler.tensorboard_plugin.trace import gpu, search
from profiler.tensorboard_plugin.trace.columns import Columns, collect
from profiler.tensorboard_plugin.trace.events import read_events
from profiler.tensorboard_plugin.trace.memory import memory_over_time
from profiler.tensorboard_plugin.trace.tables import rows_from_trace
from tests.unit.tensorboard_plugin.traces import (
    BACKWARD,
    CALL,
    GEMM,
    LAUNCHES,
    STEPS,
    Events,
    as_of_torch_1,
    held,
    on_gpu,
    span,
    write,
)

US = 1e-6


def columns_of(tmp_path: Path, events: Events, **before: Any) -> Columns:
    return collect(read_events(write(tmp_path / "one.pt.trace.json.gz", events, before)), "one")


def overview_of(tmp_path: Path, events: Events, **before: Any) -> dict[str, Any]:
    found = gpu.overview(columns_of(tmp_path, events, **before))
    assert found is not None
    return found


def times(rows: list[dict[str, Any]]) -> dict[str, tuple[float, ...]]:
    """Calls, CPU total and self, device total and self, in microseconds."""
    keys = ("total_s", "own_s", "device_s", "device_own_s")
    return {row["name"]: (row["calls"], *(round(row[key] / US, 6) for key in keys)) for row in rows}


LOADER = "enumerate(DataLoader)#_Iter.__next__"
OPERATORS = {
    "aten::conv2d": (2, 60, 8, 80, 0),
    "aten::cudnn_convolution": (2, 52, 52, 80, 80),
    "aten::copy_": (2, 16, 16, 10, 10),
    "ConvBackward": (2, 40, 40, 60, 60),
}


def test_cpu_and_device_time_stand_apart(tmp_path: Path) -> None:
    columns = columns_of(tmp_path, STEPS)
    assert times(rows_from_trace(columns, "operator")) == OPERATORS
    assert times(rows_from_trace(columns, "label")) == {
        "ProfilerStep#1": (1, 100, 70, 75, 75),  # with what autograd's thread launched, once
        "ProfilerStep#2": (1, 100, 70, 75, 75),
        LOADER: (2, 60, 60, 0, 0),
    }


def test_older_torch_gives_the_same_tables(tmp_path: Path) -> None:
    columns = columns_of(tmp_path, as_of_torch_1(STEPS))
    assert times(rows_from_trace(columns, "operator")) == OPERATORS
    assert set(times(rows_from_trace(columns, "label"))) == {"ProfilerStep#1", "ProfilerStep#2", LOADER}
    assert gpu.overview(columns) == overview_of(tmp_path, STEPS)


def test_the_first_torch_wrote_no_categories(tmp_path: Path) -> None:
    events = [
        {"name": "conv2d", "ph": "X", "ts": 0, "dur": 10, "tid": 1, "pid": "CPU functions", "args": {}},
        {"name": "gemm", "ph": "X", "ts": 5, "dur": 20, "tid": 0, "pid": "CUDA functions", "args": {}},
    ]
    columns = columns_of(tmp_path, events)
    assert [row["name"] for row in rows_from_trace(columns, "operator")] == ["conv2d"]
    assert [row["name"] for row in gpu.kernel_rows(columns, gpu.activity(columns))] == ["gemm"]


def test_what_calls_itself_counts_once_and_nothing_is_larger_than_what_is_around_it(tmp_path: Path) -> None:
    events = [
        span("aten::to", 0, 100),
        span("aten::to", 10, 80),
        span("cudaMemcpyAsync", 20, 5, cat="cuda_runtime", correlation=1),
        on_gpu("Memcpy", 30, 40, "gpu_memcpy", correlation=1),
    ]
    assert times(rows_from_trace(columns_of(tmp_path, events), "operator")) == {"aten::to": (2, 100, 100, 40, 40)}


def test_a_trace_without_a_gpu_has_no_columns_of_one(tmp_path: Path) -> None:
    columns = columns_of(tmp_path, CALL)
    assert gpu.overview(columns) is None
    assert all("device_s" not in row for row in rows_from_trace(columns, "operator"))


def test_steps_are_broken_down_to_the_last_microsecond(tmp_path: Path) -> None:
    """The first lasts until the GPU is done; what the second does meanwhile is the first one's."""
    first, second = overview_of(tmp_path, STEPS)["steps"]
    parts = {role: round(part / US) for role, part in first["parts"].items() if part}
    assert (first["name"], round(first["total_s"] / US), round(first["idle_s"] / US)) == ("1", 125, 50)
    assert parts == {"kernel": 70, "memcpy": 5, "runtime": 4, "dataloader": 30, "operator": 16}
    parts = {role: round(part / US) for role, part in second["parts"].items() if part}
    assert (second["name"], round(second["total_s"] / US), round(second["idle_s"] / US)) == ("2", 100, 25)
    assert parts == {"kernel": 70, "memcpy": 5, "runtime": 4, "dataloader": 5, "operator": 16}


def test_the_figures_of_a_device(tmp_path: Path) -> None:
    about = [{"id": 0, "name": "V100", "totalGlobalMem": 34 * 10**9, "computeMajor": 7}]
    found = overview_of(tmp_path, STEPS, deviceProperties=about)
    (device,) = found["devices"]
    assert (device["id"], device["name"], device["kernels"]) == (0, "V100", 4)
    assert device["utilisation"] == pytest.approx(140 / 225)
    assert device["sm_efficiency"] == pytest.approx((2 * 40 * 0.5 + 2 * 30) / 225)
    assert device["occupancy"] == pytest.approx((50 * 40 + 20 * 30) / 70)
    assert device["tensor_cores"] == 0
    assert found["idle"] == pytest.approx(75 / 225)
    assert found["copies"] == [
        {"name": "Memcpy HtoD (Pinned -> Device)", "calls": 2, "total_s": pytest.approx(10 * US), "bytes": 10_000}
    ]
    assert found["launch_delay_s"] == pytest.approx(23 * US)  # 10, 23 and 27 in each step


def test_what_stands_out_is_said_with_its_figure(tmp_path: Path) -> None:
    about = [{"id": 0, "name": "V100", "computeMajor": 7}]
    said = overview_of(tmp_path, STEPS, deviceProperties=about)["advice"]
    assert said[0] == (
        "The GPU is idle 33.3% of a step (37.5 µs of 112 µs); the largest part of it, 15.6%, waits for the DataLoader."
    )
    assert said[1].startswith("The DataLoader takes 15.6% of a step (17.5 µs of 112 µs)")
    assert "`num_workers`" in said[1]
    assert said[2].startswith(
        "Matrix products and convolutions take 100% of the kernels' time and none of it on tensor"
    )
    assert len(said) == 3
    assert not overview_of(tmp_path, STEPS)["launch_bound"]


def test_a_gpu_that_waits_for_launches_is_launch_bound(tmp_path: Path) -> None:
    found = overview_of(tmp_path, LAUNCHES)
    assert found["launch_bound"]
    assert found["idle"] == pytest.approx(1 - 20 * 5 / 398)
    assert any(line.startswith("Launch-bound:") and "5.00 µs" in line for line in found["advice"]), found["advice"]
    assert "of the recording" in found["advice"][0]  # there are no steps


def test_communication_counts_where_no_kernel_hides_it(tmp_path: Path) -> None:
    events = [
        span("ProfilerStep#1", 0, 100, cat="user_annotation"),
        on_gpu("gemm", 0, 50),
        on_gpu("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)", 40, 40, stream=9),
    ]
    (step,) = overview_of(tmp_path, events)["steps"]
    assert {role: round(part / US) for role, part in step["parts"].items() if part} == {
        "kernel": 50,
        "communication": 30,
        "other": 20,
    }


def test_a_last_step_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    cut_off = [event for event in STEPS if event["name"] != BACKWARD or event["ts"] < 1150]
    assert [step["name"] for step in overview_of(tmp_path, cut_off)["steps"]] == ["1"]


def test_the_table_of_kernels(tmp_path: Path) -> None:
    columns = columns_of(tmp_path, STEPS)
    first, second = gpu.kernel_rows(columns, gpu.activity(columns))
    assert (first["name"], first["short"], first["calls"]) == (GEMM, "gemm<float, 4>", 2)
    assert (second["short"], second["operator"]) == ("backward<float>", "ConvBackward")
    assert first["total_s"] == pytest.approx(80 * US)
    assert first["mean_s"] == first["least_s"] == first["most_s"] == pytest.approx(40 * US)
    assert (first["share"], first["occupancy"]) == (pytest.approx(80 / 140), 50)
    assert first["operator"] == "aten::cudnn_convolution"


def test_a_kernel_tells_how_it_was_launched_and_a_launch_what_it_launched(tmp_path: Path) -> None:
    columns = columns_of(tmp_path, STEPS)
    place = gpu.kernel_rows(columns, gpu.activity(columns))[0]["longest"]
    kernel = search.at(columns, place["row"], place["time"])
    assert kernel is not None
    assert kernel["settings"] == {
        "grid": [40, 1, 1],
        "block": [128, 1, 1],
        "registers": 32,
        "shared_memory": 1024,
        "blocks_per_sm": 0.5,
        "occupancy": 50,
    }
    (launch,) = kernel["linked"]
    assert (launch["name"], launch["start"], launch["delay"]) == ("cudaLaunchKernel", 40, 10)
    assert launch["path"] == ["ProfilerStep#1", "aten::conv2d", "aten::cudnn_convolution"]
    back = search.at(columns, launch["row"], launch["start"])
    assert back is not None
    assert back["settings"] is None
    assert [(ran["name"], ran["start"], ran["delay"]) for ran in back["linked"]] == [("gemm<float, 4>", 50, 10)]
    mark = search.find(columns, "ProfilerStep#1", None)
    assert mark["hit"]["linked"] == []


def test_names_of_a_cpu_and_of_a_device_are_not_added(tmp_path: Path) -> None:
    columns = columns_of(tmp_path, STEPS)
    rows = search.in_window(columns, 0, 225)["names"]
    marks = {(row["device"], row["calls"], row["total"]) for row in rows if row["name"] == "ProfilerStep#1"}
    assert marks == {(False, 1, 100), (True, 1, 75)}
    kernels = {row["short"]: row["own"] for row in rows if row["device"] and row["name"] in (GEMM, BACKWARD)}
    assert kernels == {"gemm<float, 4>": 80, "backward<float>": 60}  # annotations around them take nothing


def test_the_rank_is_told_where_the_file_has_it(tmp_path: Path) -> None:
    job = {"distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8}}
    assert overview_of(tmp_path, STEPS, **job)["rank"] == 3
    assert overview_of(tmp_path, STEPS)["rank"] is None
    odd = overview_of(tmp_path, STEPS, distributedInfo="no", deviceProperties=[1, {"id": "x"}, {"id": 0, "name": [7]}])
    assert odd["rank"] is None


def test_memory_of_each_device_and_none_below_zero_where_totals_are_missing(tmp_path: Path) -> None:
    events = [held(1, 0, 10), held(2, 0, -300), held(3, 0, 100)]
    for event in events[1:]:
        event["args"] |= {"Device Type": 1, "Device Id": 0}
    for event in events:
        del event["args"]["Total Allocated"]
    devices = memory_over_time(columns_of(tmp_path, events), 0, 10, 100)["devices"]
    assert {name: one["bytes"] for name, one in devices.items()} == {"CPU": [10], "CUDA 0": [0, 100]}


def test_very_many_steps_kernels_and_levels_are_read_in_one_go(tmp_path: Path) -> None:
    """Traces may come from anybody: what would take the square of their length does not end."""
    number = 20_000
    events = [span(f"aten::{place}", place, 2 * (number - place), tid=3) for place in range(number)]
    for place in range(number):
        events += [
            span(f"ProfilerStep#{place}", 10 * place, 10, cat="user_annotation"),
            span("launch", 10 * place + 1, 1, cat="cuda_runtime", correlation=place + 1),
            on_gpu(f"kernel{place}", 10 * place + 3, 3, correlation=place + 1, grid=[place, 1, 1]),
        ]
    columns = columns_of(tmp_path, events)
    found = gpu.overview(columns)
    assert found is not None
    assert len(found["steps"]) == len(gpu.kernel_rows(columns, gpu.activity(columns))) == gpu.MOST_STEPS
    assert len(rows_from_trace(columns, "operator")) == len(rows_from_trace(columns, "label")) == number


def with_args(events: Events, **changed: Any) -> Events:
    return [dict(event, args=event["args"] | changed) if event.get("cat") == "kernel" else event for event in events]


def test_correlations_of_a_long_process_link_launches_too(tmp_path: Path) -> None:
    late = [
        dict(event, args=event["args"] | {"correlation": event["args"]["correlation"] + 2**32})
        if "correlation" in event["args"]
        else event
        for event in STEPS
    ]
    assert times(rows_from_trace(columns_of(tmp_path, late), "operator")) == OPERATORS


@pytest.mark.parametrize("device", [-1, "zero", None, 2**40, [0]])
def test_a_kernel_without_a_known_device_is_still_none_of_the_cpus(tmp_path: Path, device: Any) -> None:
    odd = columns_of(tmp_path, with_args(STEPS, device=device))
    assert times(rows_from_trace(odd, "operator")) == OPERATORS
    assert overview_of(tmp_path, with_args(STEPS, device=device))["devices"][0]["utilisation"] == pytest.approx(
        140 / 225
    )


def test_streams_that_overlap_are_busy_once_and_devices_stand_apart(tmp_path: Path) -> None:
    """A second stream runs 7 µs behind the first: together they are busy from 50 to 132 and from 150 to 232."""
    behind = [
        dict(event, tid=8, ts=event["ts"] + 7, args=event["args"] | {"stream": 8})
        for event in STEPS
        if event.get("cat") == "kernel"
    ]
    (device,) = overview_of(tmp_path, [*STEPS, *behind])["devices"]
    assert device["utilisation"] == pytest.approx(2 * 82 / 232)
    elsewhere = [dict(event, pid=1, args=event["args"] | {"device": 1}) for event in behind]
    first, second = overview_of(tmp_path, [*STEPS, *elsewhere])["devices"]
    assert (first["id"], second["id"]) == (0, 1)
    assert first["kernels"] == second["kernels"] == 4


def test_kernels_without_launch_and_without_length_are_shown_and_belong_to_nobody(tmp_path: Path) -> None:
    alone = [event for event in STEPS if event.get("cat") != "cuda_runtime"]
    columns = columns_of(tmp_path, alone)
    assert all(row["device_s"] == 0 for row in rows_from_trace(columns, "operator"))
    assert sum(row["calls"] for row in gpu.kernel_rows(columns, gpu.activity(columns))) == 4
    empty = columns_of(tmp_path, [dict(event, dur=0) if event.get("cat") == "kernel" else event for event in STEPS])
    rows = gpu.kernel_rows(empty, gpu.activity(empty))
    assert [(row["calls"], row["total_s"]) for row in rows] == [(2, 0), (2, 0)]
