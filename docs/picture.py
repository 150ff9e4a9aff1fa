"""Draws docs/terminal.svg: what the terminal shows at the end of a run.

.venv/bin/python docs/picture.py [RUN]
"""

from __future__ import annotations

import io
import re
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
    picture = console.export_svg(title="speech-profiler")
    # The picture names fonts on the web; a reader's own monospaced one will do, and needs no connection.
    picture = re.sub(r"@font-face {.*?}\n", "", picture, flags=re.S).replace("Fira Code", "DejaVu Sans Mono")
    (Path(__file__).parent / "terminal.svg").write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
