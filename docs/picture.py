"""Draws docs/terminal.svg: what the terminal shows at the end of a run.

.venv/bin/python docs/picture.py [RUN]
"""

from __future__ import annotations

import io
import sys
from pathlib import Path

from rich.console import Console

from profiler.report.tables import build_tables
from profiler.results import read_results
from profiler.runs import find_run

WIDTH = 108
SHOWN = ("Real-time factor", "Peak memory of the process")


def main() -> None:
    folder = find_run(sys.argv[1] if len(sys.argv) > 1 else "latest", Path("logs"))
    tables = [table for table in build_tables(read_results(folder)) if table.title.startswith(SHOWN)]
    console = Console(record=True, width=WIDTH, file=io.StringIO())
    console.print(f"$ python profile.py recipes/{folder.parent.name}.yaml\n", style="bold", highlight=False)
    for table in tables:
        console.print(table.markdown().replace("**", ""), markup=False, highlight=False)
        console.print()
    console.print(f"Results: {folder / 'results.json'}", markup=False, highlight=False)
    console.save_svg(str(Path(__file__).parent / "terminal.svg"), title="speech-profiler")


if __name__ == "__main__":
    main()
