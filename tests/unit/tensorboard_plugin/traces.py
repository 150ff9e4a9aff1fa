"""Traces for tests, in the form in which torch.profiler writes them, with times that are easy to add up."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

Events = list[dict[str, Any]]


def span(name: str, ts: float, dur: float, tid: int = 1, cat: str = "cpu_op", **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": 7, "tid": tid, "ts": 1000 + ts, "dur": dur, "args": args}


def held(ts: float, total: int, size: int) -> dict[str, Any]:
    args = {"Total Allocated": total, "Bytes": size, "Device Type": 0, "Device Id": -1, "Addr": 1}
    return {"ph": "i", "s": "t", "name": "[memory]", "pid": 7, "tid": 1, "ts": 1000 + ts, "args": args}


CALL: Events = [
    {"ph": "M", "name": "process_name", "pid": 7, "tid": 0, "args": {"name": "python"}},
    {"ph": "M", "name": "process_labels", "pid": 7, "tid": 0, "args": {"labels": "CPU"}},
    {"ph": "M", "name": "thread_name", "pid": 7, "tid": 1, "args": {"name": "main"}},
    {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans", "tid": "x", "ts": 1000, "dur": 100},
    span("call", 0, 100, cat="user_annotation"),
    span("encoder", 10, 60, cat="user_annotation"),
    span("aten::linear", 10, 30, **{"Input Dims": [[1, 2], [3]]}),
    span("aten::addmm", 15, 20),
    span("aten::gelu", 40, 10),
    span("aten::linear", 80, 10),
    span("aten::gelu", 30, 5, tid=2),
    held(12, 100, 100),
    held(45, 350, 250),
    held(90, 0, -350),
]


def repeated(events: Events, times: int, every: float = 110) -> Events:
    """The same call again and again."""
    later = (dict(event, ts=event["ts"] + every * turn) for turn in range(times) for event in events if "ts" in event)
    return [event for event in events if "ts" not in event] + list(later)


def write(path: Path, events: Events = CALL, before: dict[str, Any] | None = None, **more: Any) -> Path:
    """A trace file, gzipped if its name says so. `before`: what stands in it before the events, `more` after them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = {"schemaVersion": 1, **(before or {}), "traceEvents": events, "traceName": "x", **more}
    text = json.dumps(whole, indent=1)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def on_gpu(name: str, ts: float, dur: float, cat: str = "kernel", stream: int = 7, **args: Any) -> dict[str, Any]:
    """Something that ran on GPU 0."""
    return span(name, ts, dur, stream, cat, device=0, stream=stream, **args) | {"pid": 0}


GEMM, BACKWARD = "void gemm<float, 4>(int, float*)", "void at::native::(anonymous namespace)::backward<float>(float*)"
SETTINGS = {"grid": [40, 1, 1], "block": [128, 1, 1], "registers per thread": 32, "shared memory": 1024}


def _step(number: int, at: float) -> Events:
    """100 microseconds of a CPU, and 75 of a GPU that end 25 later.

    CPU    |-- DataLoader 30 --|-- conv2d 30: launch at 10 --|-- copy_ 8 --|       main thread
                                                                 |- ConvBackward 20 -|  autograd's
    GPU                           |--- gemm 40 ---|- memcpy 5 -|--- backward 30 ---|
    """
    one, two, three = 10 * number + 1, 10 * number + 2, 10 * number + 3
    return [
        span(f"ProfilerStep#{number}", at, 100, cat="user_annotation"),
        span("enumerate(DataLoader)#_Iter.__next__", at, 30, cat="user_annotation"),
        span("aten::conv2d", at + 30, 30),
        span("aten::cudnn_convolution", at + 32, 26),
        span("cudaLaunchKernel", at + 40, 4, cat="cuda_runtime", correlation=one),
        span("aten::copy_", at + 62, 8),
        span("cudaMemcpyAsync", at + 63, 5, cat="cuda_runtime", correlation=two),
        span("ConvBackward", at + 70, 20, tid=2),
        span("cudaLaunchKernel", at + 72, 3, tid=2, cat="cuda_runtime", correlation=three),
        on_gpu(
            GEMM, at + 50, 40, correlation=one, **SETTINGS, **{"blocks per SM": 0.5, "est. achieved occupancy %": 50}
        ),
        on_gpu("Memcpy HtoD (Pinned -> Device)", at + 90, 5, "gpu_memcpy", correlation=two, bytes=5_000),
        on_gpu(BACKWARD, at + 95, 30, correlation=three, **{"blocks per SM": 2, "est. achieved occupancy %": 20}),
        on_gpu(f"ProfilerStep#{number}", at + 50, 75, "gpu_user_annotation"),
    ]


STEPS: Events = [*_step(1, 0), *_step(2, 100)]
LAUNCHES: Events = [  # of kernels that are shorter than what lies between two launches
    event
    for turn in range(20)
    for event in (
        span("aten::add", 20 * turn, 18),
        span("cudaLaunchKernel", 20 * turn + 2, 3, cat="cuda_runtime", correlation=turn + 1),
        on_gpu("add", 20 * turn + 6, 5, correlation=turn + 1),
    )
]
OLDER = {"cpu_op": "Operator", "user_annotation": "Operator", "kernel": "Kernel", "cuda_runtime": "Runtime"}
OLDER |= {"gpu_memcpy": "Memcpy", "gpu_memset": "Memset"}


def as_of_torch_1(events: Events) -> Events:
    """The same with the categories of older torch, which knew no annotations of devices."""
    kept = [event for event in events if event.get("cat") != "gpu_user_annotation"]
    return [dict(event, cat=OLDER[event["cat"]]) if event.get("cat") in OLDER else event for event in kept]
