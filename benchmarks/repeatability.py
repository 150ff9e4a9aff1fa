"""Does a repeat give the same tables? The same recipe run twice: how many cells' 95 % intervals overlap.

.venv/bin/python -m benchmarks.repeatability [RECIPE]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from profiler.report.table import Table
from profiler.shipped import shipped_folder


def run(recipe: str, logs: str) -> dict[tuple[float, int], dict[str, Any]]:
    root = shipped_folder()
    subprocess.run([sys.executable, root / "profile.py", recipe, "--logdir", logs, "--quiet"], check=True)
    (file,) = Path(logs).glob("*/*/results.json")
    cells = json.loads(file.read_text())["cells"]
    return {(cell["seconds"], cell["batch_size"]): cell for cell in cells if cell["latency_s"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", nargs="?", default=str(shipped_folder() / "recipes" / "wav2vec2.yaml"))
    recipe = parser.parse_args().recipe
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        before, after = run(recipe, first), run(recipe, second)
    rows, overlapping, covered = [], 0, 0
    for key in before:
        one, two = before[key]["latency_s"], after[key]["latency_s"]
        overlap = one["ci95"][0] <= two["ci95"][1] and two["ci95"][0] <= one["ci95"][1]
        overlapping += overlap
        change = abs(two["median"] / one["median"] - 1)
        covered += change <= before[key]["spread"] + after[key]["spread"]
        rows.append(
            [
                f"{key[0]:g} s x {key[1]}",
                f"{two['median'] / one['median']:.3f}",
                f"{before[key]['verdict']}, {after[key]['verdict']}",
                "yes" if overlap else "no",
            ]
        )
    remark = (
        f"{overlapping} of {len(rows)} intervals overlap; {covered} of {len(rows)} changes lie within the spreads that "
        "the two tables admit."
    )
    print(Table("The same recipe twice", ["cell", "second / first", "verdicts", "overlap"], rows, [remark]).markdown())


if __name__ == "__main__":
    main()
