"""The README's pictures of a run: docs/terminal.svg, what the terminal shows at its end, docs/rtfx.svg, and its tables.

.venv/bin/python docs/picture.py [RUN]
"""

from __future__ import annotations

import io
import re
import sys
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from profiler.report.closing import print_closing
from profiler.report.plots import rtfx
from profiler.report.table import Table
from profiler.report.tables import build_tables
from profiler.results.runs import find_run
from profiler.results.store import read_results

HERE = Path(__file__).resolve().parent
WIDTH = 108
IN_README = ("Real-time factor", "Latency of one call", "Peak memory of the process")
PLOT = "![RTFx over the length of the audio](docs/rtfx.svg)"
BEGIN, END = "<!-- the run: {} puts tables here -->", "<!-- the run: end -->"


def main() -> None:
    folder = find_run(sys.argv[1] if len(sys.argv) > 1 else "latest", Path("logs"))
    results = read_results(folder)
    built = build_tables(results)
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, highlight=False)
    console.print(f"$ python profile.py recipes/{folder.parent.name}.yaml\n", style="bold")
    print_closing(results, Path("logs") / folder.parent.name / folder.name, console)
    picture = console.export_svg(title="speech-profiler")
    # The picture names fonts on the web; a reader's own monospaced one will do, and needs no connection.
    picture = re.sub(r"@font-face {.*?}\n", "", picture, flags=re.S).replace("Fira Code", "DejaVu Sans Mono")
    (HERE / "terminal.svg").write_text(picture, encoding="utf-8")
    for plot in rtfx.draw(results, HERE):
        for file in plot.files:
            if file.suffix != ".svg":
                file.unlink()
    _into_readme([table for table in built if table.title.startswith(IN_README)])


def _into_readme(tables: list[Table]) -> None:
    """The tables without their remarks, which say what disturbed this very run, and the first plot of the report."""
    texts = "\n\n".join([*(replace(table, remarks=[]).markdown() for table in tables), PLOT])
    between(HERE.parent / "README.md", "docs/picture.py", texts)


def between(page: Path, command: str, text: str) -> None:
    """Put what a command made of a run into the place that a page has for it."""
    before, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN.format(command))
    _, end, after = rest.partition(END)
    if not end:
        sys.exit(f"{page} has no place for what {command} makes: {BEGIN.format(command)} ... {END}")
    page.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
