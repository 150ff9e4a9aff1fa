"""Record the same thing many times, by this design and by the one before it, in turn: raw rounds for tests/data.

    .venv/bin/python -m benchmarks.series [--runs 20] [--slower 3] [--old REVISION] [--output FILE]

Runs of a small transformer encoder through the real program, each a process of its own, about a minute long: `new` by
the working tree with its default settings, `old`, after every second one, by the revision before rounds became the unit
(three rounds, many calls), with the same time in all. `slower` runs do 10 % more work in the cells of 1 s. Kept: of
each run the rounds of each cell, in microseconds: their medians, and of `old` all calls, which its interval is over.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from profiler.environment import cpu_name
from profiler.git import worktree
from profiler.results.statistics import cut

ROOT = Path(__file__).resolve().parents[1]
SERIES = ROOT / "tests" / "data" / "equal-runs.json"
OLD = "fd6c4f6"
SLOW_AT = 1.0
SECONDS, BATCHES = (0.5, 1.0), (1, 2)
BUDGETS = {"new": 10.0, "old": 15.0}  # seconds for each of the four cells; a new run lasts a minute at least
RECIPE = """
pretrained_model:
  source: benchmarks.models.Encoder
  type: Module
  overrides: {width: 128, slow_at: SLOW_AT, extra: EXTRA}
profiling_dimensions: {audio_mockup_secs: SECONDS, batch_sizes: BATCHES, example_audio: SPEECH}
measure: {operations: false, energy: false, budget: BUDGET}
trace: {breakdown: false}
"""


def record(root: Path, folder: Path, slower: bool, models: Path, budget: float) -> dict[str, Any]:
    """One run of the program in `root`; the model's code is the working tree's in both."""
    text = RECIPE.replace("SLOW_AT", str(SLOW_AT)).replace("EXTRA", "1.0" if slower else "0.0")
    text = text.replace("SECONDS", str(list(SECONDS))).replace("BATCHES", str(list(BATCHES)))
    text = text.replace("SPEECH", str(ROOT / "samples" / "speech.flac")).replace("BUDGET", str(budget))
    text = text.replace("benchmarks.models.Encoder", "encoder_of_the_series.Encoder")
    recipe = folder / "series.yaml"
    recipe.write_text(text)
    (folder / "encoder_of_the_series.py").write_text(models.read_text())
    command = [sys.executable, str(root / "profile.py"), str(recipe), "--trust", "--json", "--quiet", "--threads", "1"]
    done = subprocess.run(
        [*command, "--logdir", str(folder / "logs")], capture_output=True, text=True, cwd=root, check=True
    )
    results = json.loads(done.stdout)
    cells = {f"{cell['seconds']:g}s_x{cell['batch_size']}": _rounds(cell["latency_s"]) for cell in results["cells"]}
    return {"slower": slower, "started": results["run"]["started"], "cells": cells}


def _rounds(latency: dict[str, Any]) -> list[list[float]]:
    return cut([value * 1e6 for value in latency["samples"]], latency["rounds"])


def small(run: dict[str, Any], name: str) -> dict[str, Any]:
    """As it is kept."""
    keep = (lambda calls: [statistics.median(calls)]) if name == "new" else list
    cells = {cell: [[round(call) for call in keep(calls)] for calls in rounds] for cell, rounds in run["cells"].items()}
    return run | {"cells": cells}


def read_series(path: Path = SERIES) -> dict[str, Any]:
    """{cpu, date, new[run], old[run]}, a run being {slower, started, cells{name: rounds of calls, in seconds}}."""
    kept: dict[str, Any] = json.loads(path.read_text())
    for run in (*kept["new"], *kept["old"]):
        for cell, rounds in run["cells"].items():
            run["cells"][cell] = [[call / 1e6 for call in calls] for calls in rounds]
    return kept


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--slower", type=int, default=3)
    parser.add_argument("--old", default=OLD)
    parser.add_argument("--output", type=Path, default=SERIES)
    arguments = parser.parse_args()
    kept: dict[str, Any] = {"cpu": cpu_name(), "date": datetime.now(UTC).date().isoformat(), "new": [], "old": []}
    every = max(1, arguments.runs // max(1, arguments.slower))
    order = [
        kind for number in range(arguments.runs) for kind in ([False, True] if number % every == every - 1 else [False])
    ]
    with worktree(arguments.old, ROOT) as tree, tempfile.TemporaryDirectory() as folder:
        for number, slower in enumerate(order):
            for name, root in (("new", ROOT), ("old", tree.folder))[: 2 - number % 2]:
                print(f"run {number + 1} of {len(order)}: {name}", file=sys.stderr, flush=True)
                models = ROOT / "benchmarks" / "models.py"
                kept[name].append(small(record(root, Path(folder), slower, models, BUDGETS[name]), name))
    lines = [f'"{name}": [\n  ' + ",\n  ".join(map(json.dumps, kept.pop(name))) + "\n ]" for name in ("new", "old")]
    arguments.output.write_text(json.dumps(kept)[:-1] + ",\n " + ",\n ".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
