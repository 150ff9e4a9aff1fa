"""Time and memory to read and aggregate a large trace: ours, and torch-tb-profiler's of the same file.

    .venv/bin/python -m benchmarks.trace_reading            # 100 MB unpacked
    .venv/bin/python -m benchmarks.trace_reading --size 200

The trace is one that torch.profiler recorded of a small transformer, repeated with later times until it is large
enough. Each reader has a process of its own, in turns, and does what it does when its page is opened: ours reads the
file, makes the tables by label and operator, the first drawing of the timeline and the memory chart; theirs is what its
loader runs. Imports are not counted in the time; the memory is the peak of the whole process.
"""

from __future__ import annotations

import argparse
import gzip
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from profiler.report.table import Table

TURNS = 3
OURS, THEIRS = "ours", "torch-tb-profiler"


def record(folder: Path) -> None:
    """A real trace of a front end and a transformer, as the traced pass of a run makes it."""
    import torch

    from profiler.device import Device
    from profiler.measure.passes.trace import record_trace
    from profiler.recipe.schema import Trace

    layer = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    model = torch.nn.Sequential(torch.nn.Conv1d(1, 64, 400, 160), torch.nn.GELU())
    encoder = torch.nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)

    def run(waveforms: torch.Tensor) -> Any:
        with torch.profiler.record_function("front end"):
            frames = model(waveforms).transpose(1, 2)
        with torch.profiler.record_function("encoder"):
            return encoder(frames)

    record_trace(run, torch.randn(1, 1, 16000), Device("cpu"), Trace(shapes=True), folder, "small")


def enlarge(source: Path, target: Path, size: int) -> int:
    """Repeat the calls of a trace, each later than the one before; gives the number of events."""
    with gzip.open(source) as file:
        whole = json.load(file)
    events = [event for event in whole.pop("traceEvents") if event["ph"] != "M" or "ts" in event]
    names = [event for event in events if event["ph"] == "M"]
    calls = [event for event in events if event["ph"] != "M" and "ts" in event]
    begin = min(event["ts"] for event in calls)
    length = max(event["ts"] + event.get("dur", 0) for event in calls) - begin + 10
    written = turn = 0
    with gzip.open(target, "wt", compresslevel=4) as file:
        head = json.dumps(whole, indent=2).rstrip("}\n ")
        file.write(head + ',\n  "traceEvents": [\n' + ",\n".join(json.dumps(event, indent=2) for event in names))
        while written < size:
            for event in calls:
                later = dict(event, ts=round(event["ts"] + turn * length, 3))
                later["name"] = event["name"].replace("ProfilerStep#1", f"ProfilerStep#{turn + 1}")
                text = ",\n" + json.dumps(later, indent=2)
                written += len(text)
                file.write(text)
            turn += 1
        file.write("\n]}\n")
    return len(names) + turn * len(calls)


def read_ours(path: Path) -> float:
    from profiler.tensorboard_plugin.trace import cut, memory
    from profiler.tensorboard_plugin.trace.columns import collect
    from profiler.tensorboard_plugin.trace.events import read_events
    from profiler.tensorboard_plugin.trace.tables import rows_from_trace

    began = time.perf_counter()
    columns = collect(read_events(path), path.name)
    assert rows_from_trace(columns, "operator")
    assert rows_from_trace(columns, "label")
    assert cut.cut(columns, 0, columns.length, 1200, 0, 100)["rows"]
    assert memory.memory_over_time(columns, 0, columns.length, 1000)["devices"]
    return time.perf_counter() - began


def read_theirs(path: Path) -> float:
    from torch_tb_profiler.profiler.data import RunProfileData
    from torch_tb_profiler.profiler.run_generator import RunGenerator

    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as cache:
        data = RunProfileData.parse("worker", 1, str(path), cache)
        assert RunGenerator("worker", 1, data).generate_run_profile()
    return time.perf_counter() - began


def in_a_process(who: str, path: Path) -> tuple[float, float]:
    """Seconds, and MB of the whole process at its peak."""
    command = [sys.executable, "-m", "benchmarks.trace_reading", "--read", who, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds, megabytes = done.stdout.split()[-2:]
    return float(seconds), float(megabytes)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=100, help="MB unpacked")
    parser.add_argument("--read", nargs=2, metavar=("WHO", "FILE"), help=argparse.SUPPRESS)
    parser.add_argument("--record", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.record:
        record(Path(given.record))
    elif given.read:
        seconds = {OURS: read_ours, THEIRS: read_theirs}[given.read[0]](Path(given.read[1]))
        print(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3)
    else:
        compare(given.size)


def compare(size: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "benchmarks.trace_reading", "--record", folder], check=True)
        (small,) = Path(folder).glob("*.gz")
        large = Path(folder) / "worker.1.pt.trace.json.gz"
        events = enlarge(small, large, size * 10**6)
        turns = [{who: in_a_process(who, large) for who in (OURS, THEIRS)} for _ in range(TURNS)]
    rows = []
    for place, title, unit in ((0, "time", "s"), (1, "peak memory", "MB")):
        ours, theirs = ([turn[who][place] for turn in turns] for who in (OURS, THEIRS))
        ratio = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
        figures = [f"{statistics.median(values):.3g} {unit}" for values in (ours, theirs)]
        rows.append([title, *figures, f"{ratio:.3f}", "yes" if ratio < 1 else "NO"])
    header = ["", OURS, THEIRS, f"ours / theirs, median of {TURNS}", "less"]
    print(Table(f"Reading a trace of {size} MB unpacked, {events:,} events", header, rows).markdown())


if __name__ == "__main__":
    main()
