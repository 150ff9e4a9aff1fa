"""Where the time goes: tables by label, by module and by operator, sorted and filtered as asked. Needs no torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, get_args

from profiler.errors import UserError, did_you_mean
from profiler.metrics import LATENCY, METRICS, PEAK
from profiler.report.table import Table
from profiler.results.types import BreakdownFile, CellResult, OperatorPart, Part, Results
from profiler.results.untrusted import inside, read_json
from profiler.units import many, significant

By = Literal["label", "module", "operator"]
Sort = Literal["total", "self", "calls", "memory", "operations"]
KEYS: dict[Sort, str] = {
    "total": "total_s",
    "self": "own_s",
    "calls": "calls",
    "memory": "memory_bytes",
    "operations": "macs",
}
BYS: tuple[By, ...] = get_args(By)
OUTSIDE_OF_LABELS = ("(rest)", "(optimizer)", "(whole call)")
MACS = METRICS["macs"]

COLUMNS = (
    "share and self share: of the call; self: without what other rows inside it took. Memory: the most that tensors "
    "held at one time above the level at its start."
)
BACKWARD = (
    "Backward: what autograd does for what the part computed, its calls are steps of autograd; memory that the forward "
    "pass left is freed on the way, so that a part may need less there than one inside it."
)
FOLDED = "A `*` stands for numbered layers: their calls, times and operations are added, memory is the largest."
UNDER_PROFILER = (
    "Times are under torch's profiler, which makes small operators slower than they are; share: of the call under it. "
    "Memory: what an operator allocates in a call, all its calls together."
)


@dataclass(frozen=True)
class BreakdownQuery:
    """Which rows `report` is asked for."""

    labels: str | None = None  # a pattern
    by: By = "label"
    sort: Sort | None = None
    cell: str | None = None  # such as 2s_x1
    unfolded: bool = False


def label_table(title: str, cells: list[CellResult]) -> Table | None:
    """The labels of the largest cell, for the overview of a run."""
    cell = largest(cells)
    if cell is None:
        return None
    table = _table(title, "label", cell.breakdown.labels if cell.breakdown else [])
    table.remarks = remarks_of(cell)
    return table


def largest(cells: list[CellResult]) -> CellResult | None:
    measured = [cell for cell in cells if cell.breakdown]
    return max(measured, key=lambda cell: (cell.seconds * cell.batch_size, cell.seconds), default=None)


def breakdown_tables(results: Results, folder: Path, asked: BreakdownQuery) -> list[Table]:
    """One table for each variant. Raises UserError where there is nothing to show."""
    tables = []
    for cell in chosen(results, asked):
        rows = select(all_rows(cell, folder, asked), asked)
        title = f"By {asked.by} - {cell.variant}, {cell.place}"
        table = _table(title, asked.by, rows)
        table.remarks = remarks_of(cell, asked)
        tables.append(table)
    return tables


def plain_rows(results: Results, folder: Path, asked: BreakdownQuery) -> list[dict[str, Any]]:
    """The same as plain values."""
    return [
        {
            "variant": cell.variant,
            "cell": cell.label,
            "by": asked.by,
            "rows": [row.model_dump() for row in select(all_rows(cell, folder, asked), asked)],
        }
        for cell in chosen(results, asked)
    ]


def chosen(results: Results, asked: BreakdownQuery) -> list[CellResult]:
    """The cell that is asked for in each variant, else the largest of each."""
    measured = [cell for cell in results.cells if cell.breakdown]
    if not measured:
        reason = next((cell.breakdown_reason for cell in results.cells if cell.breakdown_reason), None)
        raise UserError(f"This run has no breakdown: {reason or 'it was made with trace.breakdown: false'}.")
    if asked.cell is None:
        by_variant = [largest([cell for cell in measured if cell.variant == name]) for name in results.variants]
        return [cell for cell in by_variant if cell is not None]
    found = [cell for cell in measured if asked.cell in (cell.label, f"{cell.variant}/{cell.label}")]
    if not found:
        known = list(dict.fromkeys(cell.label for cell in measured))
        hint = did_you_mean(asked.cell, known)
        raise UserError(f"--cell {asked.cell}: there is no such cell with a breakdown.{hint}")
    return found


def all_rows(cell: CellResult, folder: Path, asked: BreakdownQuery) -> Sequence[Part]:
    assert cell.breakdown is not None
    if asked.by == "label":
        return cell.breakdown.labels
    return rows_of(inside(folder, cell.breakdown.file), asked)


def rows_of(path: Path, asked: BreakdownQuery) -> Sequence[Part]:
    """Modules or operators, from breakdown.json, which may be missing, damaged, or anybody's."""
    try:
        details = BreakdownFile.model_validate(read_json(path))
    except (OSError, ValueError):
        raise UserError(
            f"{path.name}, which holds modules and operators, is missing or damaged. Measure the cell again."
        ) from None
    return details.operators if asked.by == "operator" else details.all_modules(asked.unfolded)


def select(rows: Sequence[Part], asked: BreakdownQuery) -> Sequence[Part]:
    """Those that match the pattern, most first. Without an order they stay as they are: by label or tree."""
    if asked.labels is not None:
        known = [row.name for row in rows]
        rows = [row for row in rows if fnmatchcase(row.name, asked.labels)]
        if not rows:
            names = [name for name in known if name not in OUTSIDE_OF_LABELS]
            raise UserError(f"--labels {asked.labels}: nothing matches.{did_you_mean(asked.labels, names)}")
    if asked.sort is not None:
        key = KEYS[asked.sort]
        rows = sorted(rows, key=lambda row: -(getattr(row, key) or 0))
    return rows


def label_rows(cell: CellResult) -> list[dict[str, Any]]:
    """As plain values."""
    return [part.model_dump() for part in cell.breakdown.labels] if cell.breakdown else []


def _table(title: str, by: By, rows: Sequence[Part]) -> Table:
    ms, mb, gmac = (metric.shown.name for metric in (LATENCY, PEAK, MACS))
    header = [by, "calls", f"total, {ms}", "share", f"self, {ms}", "self share", f"{ms} per s of audio"]
    header += [f"memory, {mb}", gmac]
    if by != "operator":
        header.append(f"{gmac} per s of audio")
    phases = len({row.phase for row in rows}) > 1
    on_device = any(isinstance(row, OperatorPart) and row.device_s for row in rows)
    header += [f"on device, {ms}"] * on_device
    header[1:1] = ["phase"] * phases
    texts, time = [], LATENCY.number
    for row in rows:
        text = [row.name, *[row.phase] * phases]
        text += ["" if row.calls is None else _number(row.calls), time(row.total_s), f"{row.share:.1%}"]
        text += [time(row.own_s), f"{row.own_share:.1%}", time(row.s_per_second_of_audio)]
        text += [PEAK.number(row.memory_bytes, absent=""), MACS.number(row.macs, absent="")]
        if by != "operator":
            text.append(MACS.number(row.macs_per_second_of_audio, absent=""))
        text += [time(getattr(row, "device_s", None) or 0.0)] * on_device
        texts.append(text)
    return Table(title, header, texts)


def remarks_of(cell: CellResult, asked: BreakdownQuery | None = None) -> list[str]:
    """What is said below the table of a cell: how it was measured, and what its columns mean."""
    found = cell.breakdown
    assert found is not None
    by = asked.by if asked else "label"
    calls = f"Of {cell.place}"
    if by == "operator":
        return [f"{calls}: mean of {many(found.profiled_calls, 'call')} under the profiler. {UNDER_PROFILER}"]
    overhead = found.overhead
    cost = f"{overhead.module_calls:g} calls of modules, {significant(overhead.hook_s * 1e6, 2)} µs each"
    if overhead.backward_steps is not None:
        each = significant((overhead.backward_hook_s or 0.0) * 1e6, 2)
        cost += f", and {overhead.backward_steps:g} steps of the backward pass, {each} µs each"
    turns = "; calls are too long to make others without labels"
    if overhead.measured is not None:
        turns = f"; in turns with calls without labels the difference was {overhead.measured:+.1%}"
    remarks = [
        f"{calls}: mean of {many(found.calls, 'call')} with labels, apart from the timed ones, which have none. "
        f"The labels cost {_percent(overhead.known)} of a call ({cost}){turns}.",
        COLUMNS
        + (f" {BACKWARD}" if overhead.backward_steps is not None else "")
        + (f" {FOLDED}" if by == "module" and not (asked and asked.unfolded) else ""),
    ]
    return remarks + [f"- {note}" for note in found.notes]


def _percent(value: float) -> str:
    return f"{significant(100 * value, 2)}%"


def _number(value: float) -> str:
    return f"{value:g}" if value == int(value) else f"{value:.1f}"
