"""A run of the French recipe beside the figures that were published of it: the tables of docs/published-figures.md.

.venv/bin/python docs/published.py [RUN [PAGE]]
"""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path

from picture import between

from profiler.metrics import RTF
from profiler.report.facts import environment_facts
from profiler.report.table import Table
from profiler.report.tables import remarks_on
from profiler.results.runs import find_run
from profiler.results.store import read_results
from profiler.results.types import CellResult, Results
from profiler.units import many, place_text

PAGE = Path(__file__).resolve().parent / "published-figures.md"
LENGTHS, BATCHES = (1, 2, 5, 8, 32), (1, 4, 8)
SKIPPED = "skipped"
# Real-time factors, lengths below one another: of batch 1, 4 and 8.
RTFS = {
    "1 CPU": """7.83E-01 4.77E-01 4.17E-01
                5.80E-01 4.22E-01 3.94E-01
                4.76E-01 4.10E-01 skipped
                4.66E-01 skipped skipped
                5.32E-01 skipped skipped""",
    "4 CPUs": """3.24E-01 1.39E-01 1.15E-01
                 1.70E-01 1.20E-01 1.05E-01
                 1.36E-01 1.07E-01 1.06E-01
                 1.28E-01 1.10E-01 1.10E-01
                 1.38E-01 1.37E-01 1.39E-01""",
    "16 CPUs": """1.07E-01 5.99E-02 4.67E-02
                  6.22E-02 4.67E-02 3.73E-02
                  5.57E-02 3.69E-02 3.55E-02
                  5.01E-02 3.61E-02 3.77E-02
                  4.41E-02 4.33E-02 4.69E-02""",
    "V100, CPU + CUDA": """4.08E-02+7.18E-02 1.01E-02+2.72E-02 5.36E-03+1.72E-02
                           2.07E-02+2.04E-02 5.22E-03+1.04E-02 4.30E-03+8.72E-03
                           7.92E-03+1.29E-02 4.31E-03+8.82E-03 4.10E-03+8.28E-03
                           5.31E-03+1.12E-02 4.20E-03+8.54E-03 4.04E-03+8.17E-03
                           5.44E-03+1.12E-02 5.10E-03+1.05E-02 4.98E-03+1.02E-02""",
}
# Peaks of memory in GB.
PEAKS = {
    "16 CPUs": "0.09 0.18 0.29 0.10 0.32 0.62 0.21 0.76 1.50 0.32 1.20 2.38 1.18 4.63 9.20",
    "V100": "0.13 0.15 0.29 0.13 0.29 0.59 0.18 0.73 1.47 0.29 1.17 2.35 1.15 4.60 9.20",
}


def main() -> None:
    folder = find_run(sys.argv[1] if len(sys.argv) > 1 else "latest", Path("logs"))
    results = read_results(folder)
    by_place = {(cell.seconds, cell.batch_size): cell for cell in results.cells}
    places = [(seconds, batch) for seconds in LENGTHS for batch in BATCHES]
    missing = [place_text(*place) for place in places if place not in by_place]
    if missing:
        sys.exit(f"{folder} is no finished run of the whole recipe: it lacks {', '.join(missing)}.")
    cells = [by_place[place] for place in places]
    text = "\n\n".join([_made_on(results), *(table.markdown() for table in (_speed(cells), _memory(cells)))])
    between(Path(sys.argv[2]) if len(sys.argv) > 2 else PAGE, "docs/published.py", text)


def _made_on(results: Results) -> str:
    facts = dict(environment_facts(results))
    named = ", ".join(f"{name} {facts[name]}" for name in ("processor", "threads", "memory", "torch") if name in facts)
    weights = " and ".join(dict.fromkeys(f"{model.weights} weights" for model in results.models if model.weights))
    run = results.run
    started = datetime.fromisoformat(run.started)
    took = datetime.fromisoformat(run.finished) - started if run.finished else None
    lasted = f" It took {took.total_seconds() / 60:.0f} minutes." if took else ""
    load = facts.get("load at the start and the end", "unknown")
    return f"**This run**, {started:%Y-%m-%d}: {weights}; {named}; load at the start and the end {load}.{lasted}"


def _speed(cells: list[CellResult]) -> Table:
    columns = [text.split() for text in RTFS.values()]
    rows = [
        [cell.place, RTF.cell_number(cell), _calls(cell), *(_plain(column[number]) for column in columns)]
        for number, cell in enumerate(cells)
    ]
    header = ["audio x batch", "this run", "its calls", *RTFS]
    return Table("Real-time factor (below 1 is faster than real time)", header, rows, remarks_on(cells))


def _memory(cells: list[CellResult]) -> Table:
    columns = [text.split() for text in PEAKS.values()]
    rows = [
        [cell.place, *(_gigabytes(cell, kind) for kind in ("tensors", "above_baseline", "process"))]
        + [column[number] for column in columns]
        for number, cell in enumerate(cells)
    ]
    header = ["audio x batch", "tensors of the call", "process, above baseline", "process", *PEAKS]
    return Table("Peak memory in GB; the first three columns are of this run", header, rows)


def _calls(cell: CellResult) -> str:
    """'10 in 10 rounds'."""
    found = cell.latency_s
    return f"{found.n} in {many(len(found.rounds), 'round')}" if found else ""


def _plain(text: str) -> str:
    """'1.07E-01' -> '0.107'; of two, both."""
    return text if text == SKIPPED else " + ".join(f"{float(part):#.3g}" for part in text.split("+") if part)


def _gigabytes(cell: CellResult, kind: str) -> str:
    found = getattr(cell.peak_memory_bytes, kind, None)
    return f"{found / 1e9:.2f}" if found is not None else cell.status if cell.status != "ok" else ""


if __name__ == "__main__":
    main()
