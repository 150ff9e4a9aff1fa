"""How long the program takes to answer: what it says in text, and `report`, which rebuilds a run from results alone.

    .venv/bin/python -m benchmarks.report_time [RUN...]

Without a RUN, those that the tests keep. The best of five starts of the whole program, over the 0.5 s more than Python
itself (2 s for `report`) that are wanted, and over importing matplotlib alone. About 20 s a run.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from profiler.report.table import Table
from profiler.results.runs import find_run
from profiler.results.store import read_results
from profiler.results.types import FILE
from profiler.shipped import shipped_folder

WANTED = 2.0
WANTED_OF_TEXT = 0.5
TEXT = (["--help"], ["ls"], ["show", "recipes/wav2vec2.yaml"], ["show", "recipes/crdnn.yaml", "--json"])
TIMES = 5
DRAWS_WITH = "import matplotlib.figure, matplotlib.backends.backend_agg, matplotlib.backends.backend_svg"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", metavar="RUN", nargs="*", help="a run's folder, its id, or latest")
    given = parser.parse_args().runs
    root = shipped_folder()
    files = [find_run(name, Path("logs")) / FILE for name in given] or sorted(
        (root / "tests/data").glob("schema-*.json")
    )
    print(answers_in_text(root).markdown(), end="\n\n")
    bare, _ = best(sys.executable, "-c", DRAWS_WITH)
    rows = []
    for file in files:
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(file, Path(folder) / FILE)
            wall, work = best(sys.executable, str(root / "profile.py"), "report", folder)
            plots = len(list(Path(folder).glob("*.svg")))
        cells = len(read_results(file).cells)
        figures = [f"{wall:.2f} s", f"{work:.2f} s", f"{wall / WANTED:.2f}", f"{wall / bare:.1f}"]
        rows.append([f"{file.stem}, {cells} cells", str(plots), *figures, "yes" if wall <= WANTED else "NO"])
    header = ["run", "plots", "wall time", "of the processor", "over 2 s", "over importing matplotlib", "within"]
    print(Table("From results.json to a report", header, rows).markdown())


def answers_in_text(root: Path) -> Table:
    """What each command takes beyond a start of Python."""
    python, _ = best(sys.executable, "-c", "pass")
    rows = []
    for arguments in TEXT:
        wall, work = best(sys.executable, str(root / "profile.py"), *arguments)
        good = "yes" if wall - python <= WANTED_OF_TEXT else "NO"
        rows.append([" ".join(arguments), f"{wall:.2f} s", f"{work:.2f} s", f"{wall - python:.2f} s", good])
    header = ["command", "wall time", "of the processor", "beyond Python", f"within {WANTED_OF_TEXT:g} s"]
    return Table("From a command to its answer in text", header, rows)


def best(*command: str) -> tuple[float, float]:
    """The least wall time and the least processor time of some starts."""
    walls, works = [], []
    for _ in range(TIMES):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        start = time.perf_counter()
        subprocess.run(command, capture_output=True, check=True)
        walls.append(time.perf_counter() - start)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        works.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(walls), min(works)


if __name__ == "__main__":
    main()
