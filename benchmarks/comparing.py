"""What does `compare` say of runs made at different times? On stored real runs, this comparison and the one before it.

    .venv/bin/python -m benchmarks.comparing

All pairs of equal runs, and of an equal run with one that does 10 % more work in half of its cells. Each design is
judged on the runs that were made by it (`benchmarks.series` recorded both in turn); the earlier comparison is run from
its git revision.
"""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import sys
import tempfile
from itertools import combinations, product
from pathlib import Path
from typing import Any

from benchmarks.coverage import new_figure
from benchmarks.series import OLD, ROOT, SLOW_AT, read_series
from profiler import compare, load_run
from profiler.conditions.floor import ASSUMED
from profiler.git import worktree
from profiler.report.table import Table

# Also run by the earlier revision: prints [[slower than A?, seconds of the cell, verdict], ...] of all pairs.
JUDGE = """
import itertools, json, sys
from pathlib import Path
from profiler import compare, load_run
runs = [load_run(Path(path)).results for path in sys.argv[1:]]
equal = [run for run in runs if run.run.recipe == "equal"]
slower = [run for run in runs if run.run.recipe == "slower"]
pairs = [(False, *pair) for pair in itertools.combinations(equal, 2)]
pairs += [(True, *pair) for pair in itertools.product(equal, slower)]
print(json.dumps([[kind, cell.seconds, cell.speed.verdict]
                  for kind, one, two in pairs for cell in compare(one, two).others[0].cells]))
"""


def as_results(run: dict[str, Any], number: int, floor: float | None) -> dict[str, Any]:
    """A results.json with what a comparison looks at."""
    cells = []
    for name, rounds in run["cells"].items():
        seconds, batch = name.split("s_x")
        samples = [call for calls in rounds for call in calls]
        middle = sorted(samples)[len(samples) // 2]
        latency = {"median": middle, "mean": middle, "std": 0.0, "min": min(samples), "ci95": [middle, middle]}
        latency |= {"n": len(samples), "samples": samples, "rounds": [len(calls) for calls in rounds]}
        latency |= {"warmup": [], "stopped_by": ""}
        cell = {"variant": "float32", "seconds": float(seconds), "batch_size": int(batch), "status": "ok"}
        cells.append(cell | {"latency_s": latency, "rtf": middle / float(seconds)})
    environment: dict[str, Any] = {"host": "one", "cpu": "one", "cores": 2, "threads": 1, "device": "cpu"}
    environment["noise_floor"] = {"value": floor, "threads": 1, "measured": ""} if floor else None
    about = {"id": f"run-{number}", "recipe": "slower" if run["slower"] else "equal", "recipe_sha256": ""}
    about |= {"command": "", "started": run["started"], "status": "complete"}
    return {"schema": 1, "run": about, "environment": environment, "cells": cells}


def stored(runs: list[dict[str, Any]], folder: Path, floor: float | None) -> list[str]:
    found = []
    for number, run in enumerate(runs):
        place = folder / f"run-{number}"
        place.mkdir(parents=True)
        # Schema 1 is read as such by both; here its figures are worked out anew from the rounds.
        (place / "results.json").write_text(json.dumps(as_results(run, number, floor)))
        found.append(str(place))
    return found


def judged_now(paths: list[str]) -> list[tuple[bool, float, str]]:
    runs = [load_run(path).results for path in paths]
    equal = [run for run in runs if run.run.recipe == "equal"]
    slower = [run for run in runs if run.run.recipe == "slower"]
    pairs = [(False, *pair) for pair in combinations(equal, 2)] + [(True, *pair) for pair in product(equal, slower)]
    return [
        (kind, cell.place[0], cell.speed.verdict)
        for kind, one, two in pairs
        for cell in compare(one, two).others[0].cells
    ]


def judged_before(paths: list[str]) -> list[tuple[bool, float, str]]:
    with worktree(OLD, ROOT) as tree:
        command = [sys.executable, "-c", JUDGE, *paths]
        done = subprocess.run(command, cwd=tree.folder, capture_output=True, text=True, check=True)
    return [tuple(each) for each in json.loads(done.stdout)]


def row(name: str, found: list[tuple[bool, float, str]]) -> list[str]:
    unchanged = [word for slower, seconds, word in found if not (slower and seconds == SLOW_AT)]
    changed = [word for slower, seconds, word in found if slower and seconds == SLOW_AT]
    wrong = sum(word in ("faster", "slower") for word in unchanged)
    return [name, f"{wrong} of {len(unchanged)}", f"{changed.count('slower')} of {len(changed)}"]


def floor_of_runs(runs: list[dict[str, Any]]) -> float:
    """What `doctor` looks for: the standard deviation between equal runs, of the log of a figure; the median cell's."""
    equal = [run["cells"] for run in runs if not run["slower"]]
    logs = {cell: [math.log(new_figure(run[cell])[0]) for run in equal] for cell in equal[0]}
    return statistics.median(statistics.stdev(values) for values in logs.values())


def main() -> None:
    kept = read_series()
    floor = floor_of_runs(kept["new"])
    with tempfile.TemporaryDirectory() as folder:
        assumed = judged_now(stored(kept["new"], Path(folder) / "assumed", None))
        known = judged_now(stored(kept["new"], Path(folder) / "known", floor))
        before = judged_before(stored(kept["old"], Path(folder) / "before", None))
    rows = [
        row(f"compare, run-to-run floor assumed ({ASSUMED:.0%})", assumed),
        row(f"compare, the floor of these runs ({floor:.1%})", known),
        row("the comparison before", before),
    ]
    header = ["", "unchanged cells called different", "10 % more work called slower"]
    table = Table("Runs made at different times", header, rows)
    table.remarks.append(f"Equal runs of a minute differed by {floor:.1%} (SD of the log of their figures).")
    print(table.markdown())


if __name__ == "__main__":
    main()
