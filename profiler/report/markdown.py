"""tables.md: what the terminal shows at the end of a run, ready to paste into a README."""

from __future__ import annotations

from pathlib import Path

from profiler import messages
from profiler.measure.passes import PASSES
from profiler.report.table import plain
from profiler.report.tables import build_tables
from profiler.results.store import write_atomically
from profiler.results.types import Results
from profiler.units import many

FILE = "tables.md"

RTF_IS = "RTF = wall seconds / (batch size x seconds of audio)."


def render(results: Results, memory: str | int | None = None) -> str:
    """All tables with what a reader must know beside them."""
    parts = [table.markdown() for table in build_tables(results, memory)]
    parts.append(plain(how_measured(results)))
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
            f"Timed: {measured.timed_region}."
            + (f" {RTF_IS} Audio: {measured.input.audio}." if measured.input.audio else "")
        )
    if any(model.weights == "random" for model in results.models):
        lines.append(messages.RANDOM_WEIGHTS)
    for each in PASSES.values():
        for reason in dict.fromkeys(filter(None, map(each.reason_of, results.cells))):
            lines.append(f"{each.name.capitalize()}: {each.absent}; {reason.rstrip('.')}.")
    lines += results.run.notes
    return "\n".join(f"- {line}" for line in lines)


def write(results: Results, folder: Path) -> Path:
    write_atomically(folder / FILE, render(results))
    return folder / FILE
