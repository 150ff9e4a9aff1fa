"""Where the wall time of a run goes: timed calls, warm-up, other passes, import and loading, overhead.

    .venv/bin/python -m benchmarks.wall_time [RECIPE]

Overhead is everything that is neither model work nor the first import and loading: starting processes, making inputs,
messages, the display, writing results, the reference workload, tables.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from profiler.report.table import Table
from profiler.shipped import shipped_folder

WANTED = 0.05


def main() -> None:
    root = shipped_folder()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", nargs="?", default=str(root / "recipes" / "wav2vec2.yaml"))
    recipe = parser.parse_args().recipe
    with tempfile.TemporaryDirectory() as logs:
        start = time.perf_counter()
        subprocess.run([sys.executable, root / "profile.py", recipe, "--logdir", logs, "--quiet"], check=True)
        wall = time.perf_counter() - start
        (file,) = Path(logs).glob("*/*/results.json")
        results = json.loads(file.read_text())
    cells = [cell for cell in results["cells"] if cell["latency_s"]]
    parts = {
        "timed calls": sum(sum(cell["latency_s"]["samples"]) for cell in cells),
        "warm-up": sum(sum(cell["latency_s"]["warmup"]) for cell in cells),
        "other passes (memory, trace)": sum(cell["work_s"].get(k, 0) for cell in cells for k in ("memory", "trace")),
        "first import and loading": results["run"]["loading_s"],
    }
    parts["overhead"] = wall - sum(parts.values())
    rows = [[name, f"{seconds:.1f} s", f"{seconds / wall:.1%}"] for name, seconds in parts.items()]
    share = parts["overhead"] / wall
    good = "yes" if share <= WANTED else "NO"
    remark = f"Overhead is {share:.1%} of the wall time; at most {WANTED:.0%} is wanted: {good}."
    title = f"Where {wall:.0f} s of wall time go, {len(cells)} cells"
    print(Table(title, ["", "time", "share"], rows, [remark]).markdown())


if __name__ == "__main__":
    main()
