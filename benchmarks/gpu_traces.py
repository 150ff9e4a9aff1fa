"""What our TensorBoard tab computes of traces made on GPUs, beside what torch-tb-profiler computes of the same files.

    .venv/bin/python -m benchmarks.gpu_traces                # ../shared/traces
    .venv/bin/python -m benchmarks.gpu_traces FILE ...

Utilisation, SM efficiency, occupancy, kernels, the parts of all steps, device self time of operators; then time and
peak memory of each, in a process of its own. torch-tb-profiler knows the categories of older torch: it gets the
events of newer ones under the older names, and without annotations of devices, which it would count as further steps.
"""

from __future__ import annotations

import argparse
import gzip
import json
import logging
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from profiler.report.table import Table
from profiler.tensorboard_plugin.trace.columns import LONGEST_NAME

BESIDE = [above / "shared" / "traces" for above in Path(__file__).resolve().parents[2:]]
FOLDER = next((folder for folder in BESIDE if folder.is_dir()), BESIDE[0])  # ../shared/traces, or further up
WITHIN = 0.01
LEAST = 2e-6  # seconds: their times of steps are rounded to 0.5 microseconds where a clock began long ago
OURS, THEIRS = "ours", "torch-tb-profiler"
NEWER = {"cuda_runtime": "Runtime", "cuda_driver": "Runtime"}


class Figure(NamedTuple):
    name: str
    ours: float
    theirs: float
    least: float = 0.0  # a smaller difference is none

    @property
    def same(self) -> bool:
        return abs(self.ours - self.theirs) <= max(WITHIN * abs(self.theirs), self.least)


def ours(path: Path) -> dict[str, float]:
    from profiler.tensorboard_plugin.trace import gpu
    from profiler.tensorboard_plugin.trace.columns import collect
    from profiler.tensorboard_plugin.trace.events import read_events
    from profiler.tensorboard_plugin.trace.tables import rows_from_trace

    columns = collect(read_events(path), path.name)
    facts = gpu.overview(columns)
    if facts is None:
        raise SystemExit(f"{path.name}: nothing in it ran on a GPU.")
    found: dict[str, float] = {"steps": len(facts["steps"])}
    for one in facts["devices"]:
        for key in ("utilisation", "sm_efficiency", "occupancy"):
            if one[key] is not None:
                found[f"GPU {one['id']} {key}"] = one[key]
    for step in facts["steps"]:
        found |= {f"step {step['name']} {role}": part for role, part in step["parts"].items()}
        found[f"step {step['name']} total"] = step["total_s"]
    for row in gpu.kernel_rows(columns, gpu.activity(columns)):
        found |= {f"kernel {row['name']} calls": row["calls"], f"kernel {row['name']} total": row["total_s"]}
        if row["occupancy"] is not None:
            found[f"kernel {row['name']} occupancy"] = row["occupancy"]
    for row in rows_from_trace(columns, "operator"):
        if row["device_own_s"]:
            found[f"operator {row['name']} device_self"] = row["device_own_s"]
    return found


def theirs(path: Path) -> dict[str, float]:
    from torch_tb_profiler.profiler.data import RunProfileData
    from torch_tb_profiler.profiler.event_parser import ProfileRole

    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        whole = json.load(file)
    whole["traceEvents"] = [
        event | {"cat": NEWER.get(event["cat"], event["cat"])} if "cat" in event else event
        for event in whole["traceEvents"]
        if event.get("cat") != "gpu_user_annotation"
    ]
    logging.getLogger("pytorch_profiler").setLevel(logging.ERROR)
    data = RunProfileData.from_json("worker", 1, whole)
    metrics = data.gpu_metrics_parser
    found: dict[str, float] = {"steps": len(data.steps_names)}
    for number in metrics.gpu_ids:
        values = {
            "utilisation": metrics.gpu_utilization[number],
            "sm_efficiency": metrics.avg_approximated_sm_efficiency_per_device[number],
            "occupancy": metrics.avg_occupancy_per_device[number],
        }
        found |= {f"GPU {number} {key}": value for key, value in values.items() if value is not None}
    roles = {
        "kernel": ProfileRole.Kernel,
        "memcpy": ProfileRole.Memcpy,
        "memset": ProfileRole.Memset,
        "communication": ProfileRole.Communication,
        "runtime": ProfileRole.Runtime,
        "dataloader": ProfileRole.DataLoader,
        "operator": ProfileRole.CpuOp,
        "other": ProfileRole.Other,
        "total": ProfileRole.Total,
    }
    marked = any(event.get("name", "").startswith("ProfilerStep#") for event in whole["traceEvents"])
    for name, costs in zip(data.steps_names if marked else ["all"], data.steps_costs, strict=True):
        found |= {f"step {name} {key}": costs.costs[role] * 1e-6 for key, role in roles.items()}
    for whole_name, row in data.kernel_stat.iterrows():
        name = whole_name if len(whole_name) <= LONGEST_NAME else f"{whole_name[:LONGEST_NAME]}..."
        found |= {f"kernel {name} calls": float(row["count"]), f"kernel {name} total": row["sum"] * 1e-6}
        if metrics.has_occupancy:
            found[f"kernel {name} occupancy"] = row["occupancy"]
    for operator in data.op_list_groupby_name:
        if operator.self_device_duration and tells_operators(whole["traceEvents"]):
            found[f"operator {operator.name} device_self"] = operator.self_device_duration * 1e-6
    return found


def tells_operators(events: list[dict[str, Any]]) -> bool:
    """Whether launches name the operator by its external id, as theirs expects; some write their correlation there."""
    launches = [event["args"] for event in events if event.get("cat") == "Runtime" and "correlation" in event["args"]]
    return any(_external(one) != one["correlation"] for one in launches)


def _external(args: dict[str, Any]) -> Any:
    return args.get("External id", args.get("external id"))


def figures(path: Path) -> list[Figure]:
    """Every figure that either has; what one of them lacks is 0 there. Operators where theirs can tell them."""
    left, right = ours(path), theirs(path)
    if not any(name.startswith("operator") for name in right):
        left = {name: value for name, value in left.items() if not name.startswith("operator")}
    return [
        Figure(name, left.get(name, 0.0), right.get(name, 0.0), LEAST if not name.startswith("GPU") else 0.0)
        for name in dict.fromkeys([*left, *right])
    ]


def measured(who: str, path: Path) -> tuple[float, float]:
    """Seconds, and MB of the whole process at its peak."""
    command = [sys.executable, "-m", "benchmarks.gpu_traces", "--read", who, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds, megabytes = done.stdout.split()[-2:]
    return float(seconds), float(megabytes)


def _peak_memory() -> float:
    """MB of this program alone: what getrusage tells begins with the peak of the process that started it."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) * 1024 / 1e6 if found else 0.0


def group(name: str) -> str:
    kind, _, rest = name.partition(" ")
    return name if kind in ("GPU", "steps") else f"{kind}: {rest.rsplit(' ', 1)[1]}"


def compare(path: Path) -> bool:
    found = figures(path)
    groups: dict[str, list[Figure]] = {}
    for figure in found:
        groups.setdefault(group(figure.name), []).append(figure)
    rows = [
        [
            name,
            str(len(many)),
            *(f"{sum(getattr(one, side) for one in many):.6g}" for side in ("ours", "theirs")),
            "yes" if all(one.same for one in many) else "NO",
        ]
        for name, many in groups.items()
    ]
    header = ["", "figures", f"{OURS}, sum", f"{THEIRS}, sum", f"each within {WITHIN:.0%}"]
    print(Table(path.name, header, rows).markdown() + "\n")
    costs = {who: measured(who, path) for who in (OURS, THEIRS)}
    for place, title in ((0, "time, s"), (1, "peak memory, MB")):
        print(f"{title}: " + ", ".join(f"{who} {cost[place]:.3g}" for who, cost in costs.items()))
    print()
    return all(figure.same for figure in found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE")
    parser.add_argument("--read", nargs=2, metavar=("WHO", "FILE"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.read:
        reader = {OURS: ours, THEIRS: theirs}[given.read[0]]
        began = time.perf_counter()
        reader(Path(given.read[1]))
        print(time.perf_counter() - began, _peak_memory())
        return
    files = given.files or sorted(FOLDER.glob("*.gz"))
    if not files:
        print("There are no traces in ../shared/traces; name some: python -m benchmarks.gpu_traces FILE ...")
        return
    same = [compare(path) for path in files]
    raise SystemExit(0 if all(same) else 1)


if __name__ == "__main__":
    main()
