"""labels.txt: the rows of a recipe's own labels alone, as plain text in the layout of torch's profiler tables.

    three lines of header, then one row per label: self and total time with shares of the call, mean, memory, calls

Profiles that are published as such text files (a table of torch's, filtered by label names) are compared with it line
by line. Times are those of calls with labels and nothing else, so smaller than under torch's profiler.
"""

from __future__ import annotations

from pathlib import Path

from profiler.report.breakdown import OUTSIDE_OF_LABELS, largest
from profiler.report.table import plain
from profiler.results.store import write_atomically
from profiler.results.types import CellResult, Part, Results
from profiler.units import bytes_text

FILE = "labels.txt"
COLUMNS = ("Name", "Self %", "Self", "Total %", "Total", "Time avg", "Memory", "# of Calls")
GAP = 2


def write(results: Results, folder: Path) -> list[Path]:
    """The file, where the recipe names labels; of each variant's largest cell."""
    tables = []
    for variant in results.variants:
        cell = largest([cell for cell in results.cells if cell.variant == variant and cell.breakdown])
        if cell is not None and cell.breakdown is not None and not cell.breakdown.automatic:
            several = [f"{variant}, {cell.place}"] if len(results.variants) > 1 else []
            tables.append("\n".join([*several, *_lines(cell)]))
    if not tables:
        return []
    write_atomically(folder / FILE, plain("\n\n".join(tables)) + "\n")
    return [folder / FILE]


def _lines(cell: CellResult) -> list[str]:
    assert cell.breakdown is not None
    parts = [part for part in cell.breakdown.labels if part.name not in OUTSIDE_OF_LABELS]
    phases = len({part.phase for part in parts}) > 1
    rows = [_row(part, phases) for part in parts]
    widths = [max(map(len, column)) for column in zip(COLUMNS, *rows, strict=True)]
    rule = (" " * GAP).join("-" * width for width in widths)
    return [rule, _aligned(COLUMNS, widths), rule, *(_aligned(row, widths) for row in rows)]


def _row(part: Part, phases: bool) -> tuple[str, ...]:
    name = f"{part.name} ({part.phase})" if phases else part.name
    each = _time(part.total_s / part.calls) if part.calls else ""
    memory = bytes_text(part.memory_bytes) if part.memory_bytes is not None else ""
    calls = f"{part.calls:g}" if part.calls is not None else ""
    shares = f"{part.own_share:.2%}", f"{part.share:.2%}"
    return name, shares[0], _time(part.own_s), shares[1], _time(part.total_s), each, memory, calls


def _time(seconds: float) -> str:
    """As torch writes it: '12.345ms'."""
    return (
        f"{seconds:.3f}s" if seconds >= 1 else f"{seconds * 1e3:.3f}ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3f}us"
    )


def _aligned(texts: tuple[str, ...], widths: list[int]) -> str:
    return (" " * GAP).join(text.rjust(width) for text, width in zip(texts, widths, strict=True))
