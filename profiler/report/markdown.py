"""tables.md: what the terminal shows at the end of a run, ready to paste into a README."""

from __future__ import annotations

from pathlib import Path

from profiler import messages
from profiler.report.energy import energy_absent
from profiler.report.tables import build_tables
from profiler.results.store import write_atomically
from profiler.results.types import Results
from profiler.units import many

FILE = "tables.md"


def render(results: Results, memory: str | int | None = None) -> str:
    """All tables with what a reader must know beside them."""
    parts = [table.markdown() for table in build_tables(results, memory)]
    parts.append(how_measured(results))
    return "\n\n".join(part for part in parts if part) + "\n"


def how_measured(results: Results) -> str:
    """Machine, weights, timed region, notes: the small print, in a few lines."""
    environment = results.environment
    lines = [
        f"Run {results.run.id}, {results.run.status}. "
        f"{environment.cpu}, {many(environment.threads or 0, 'thread')}, "
        f"{environment.os}, torch {environment.packages.get('torch')}."
    ]
    measured = next((cell for cell in results.cells if cell.timed_region), None)
    if measured is not None:
        lines.append(
            f"Timed: {measured.timed_region}. RTF = wall seconds / (batch size x seconds of audio). "
            f"Audio: {measured.input.audio}."
        )
    if any(model.weights == "random" for model in results.models):
        lines.append(messages.RANDOM_WEIGHTS)
    absent = energy_absent(results.cells)
    if absent:
        lines.append(f"Energy: unavailable; {absent.rstrip('.')}.")
    for reason in dict.fromkeys(cell.operations_reason for cell in results.cells if cell.operations_reason):
        lines.append(f"Operations: not counted; {reason}.")
    for reason in dict.fromkeys(cell.breakdown_reason for cell in results.cells if cell.breakdown_reason):
        lines.append(f"Breakdown: not measured; {reason}.")
    lines += results.run.notes
    return "\n".join(f"- {line}" for line in lines)


def write(results: Results, folder: Path) -> Path:
    write_atomically(folder / FILE, render(results))
    return folder / FILE
