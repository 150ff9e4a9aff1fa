"""Where the time goes: tables by label, by module and by operator, sorted and filtered as asked. Needs no torch."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, get_args

from profiler.errors import UserError, did_you_mean
from profiler.metrics import LATENCY, METRICS, PEAK
from profiler.report.table import Table
from profiler.results.types import CellResult, Results
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
FIGURES = ("total_s", "share", "own_s", "own_share", "s_per_second_of_audio")  # that every row has
OPTIONAL = ("calls", "memory_bytes", "macs", "macs_per_second_of_audio", "device_s")
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
class Asked:
    """What `report` is asked for."""

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
    table = _table(title, "label", label_rows(cell))
    table.remarks = remarks_of(cell)
    return table


def largest(cells: list[CellResult]) -> CellResult | None:
    measured = [cell for cell in cells if cell.breakdown]
    return max(measured, key=lambda cell: (cell.seconds * cell.batch_size, cell.seconds), default=None)


def breakdown_tables(results: Results, folder: Path, asked: Asked) -> list[Table]:
    """One table for each variant. Raises UserError where there is nothing to show."""
    tables = []
    for cell in chosen(results, asked):
        rows = select(all_rows(cell, folder, asked), asked)
        title = f"By {asked.by} - {cell.variant}, {cell.place}"
        table = _table(title, asked.by, rows)
        table.remarks = remarks_of(cell, asked)
        tables.append(table)
    return tables


def plain_rows(results: Results, folder: Path, asked: Asked) -> list[dict[str, Any]]:
    """The same as plain values."""
    return [
        {
            "variant": cell.variant,
            "cell": cell.label,
            "by": asked.by,
            "rows": select(all_rows(cell, folder, asked), asked),
        }
        for cell in chosen(results, asked)
    ]


def chosen(results: Results, asked: Asked) -> list[CellResult]:
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


def all_rows(cell: CellResult, folder: Path, asked: Asked) -> list[dict[str, Any]]:
    if asked.by == "label":
        return label_rows(cell)
    name = "operators" if asked.by == "operator" else "modules_unfolded" if asked.unfolded else "modules"
    return rows_of(inside(folder, str(cell.breakdown and cell.breakdown.file)), name)


def rows_of(path: Path, name: str) -> list[dict[str, Any]]:
    """One of the lists of breakdown.json, which may be missing, damaged, or anybody's."""
    try:
        rows = read_json(path)[name]
        if not isinstance(rows, list) or not all(map(_is_row, rows)):
            raise ValueError
    except (OSError, ValueError, TypeError, LookupError):
        raise UserError(
            f"{path.name}, which holds modules and operators, is missing or damaged. Measure the cell again."
        ) from None
    return rows


def _is_row(row: Any) -> bool:
    if not isinstance(row, dict) or not isinstance(row.get("name"), str):
        return False
    optional = [row[name] for name in OPTIONAL if row.get(name) is not None]
    return all(isinstance(value, int | float) for value in (*map(row.get, FIGURES), *optional))


def select(rows: list[dict[str, Any]], asked: Asked) -> list[dict[str, Any]]:
    """Those that match the pattern, most first. Without an order they stay as they are: by label or tree."""
    if asked.labels is not None:
        known = [str(row["name"]) for row in rows]
        rows = [row for row in rows if fnmatchcase(str(row["name"]), asked.labels)]
        if not rows:
            names = [name for name in known if name not in OUTSIDE_OF_LABELS]
            raise UserError(f"--labels {asked.labels}: nothing matches.{did_you_mean(asked.labels, names)}")
    if asked.sort is not None:
        key = KEYS[asked.sort]
        rows = sorted(rows, key=lambda row: -(row.get(key) or 0))
    return rows


def label_rows(cell: CellResult) -> list[dict[str, Any]]:
    """In the shape of the rows of modules and operators, which are in a file."""
    return [part.model_dump() for part in cell.breakdown.labels] if cell.breakdown else []


def _table(title: str, by: By, rows: list[dict[str, Any]]) -> Table:
    ms, mb, gmac = (metric.shown.name for metric in (LATENCY, PEAK, MACS))
    header = [by, "calls", f"total, {ms}", "share", f"self, {ms}", "self share", f"{ms} per s of audio"]
    header += [f"memory, {mb}", gmac]
    if by != "operator":
        header.append(f"{gmac} per s of audio")
    phases = len({row.get("phase") for row in rows}) > 1
    on_device = any(row.get("device_s") for row in rows)
    header += [f"on device, {ms}"] * on_device
    header[1:1] = ["phase"] * phases
    texts, time = [], LATENCY.number
    for row in rows:
        text = [str(row["name"])]
        text += [str(row.get("phase"))] * phases
        text += ["" if row["calls"] is None else _number(row["calls"]), time(row["total_s"]), f"{row['share']:.1%}"]
        text += [time(row["own_s"]), f"{row['own_share']:.1%}", time(row["s_per_second_of_audio"])]
        text += [PEAK.number(row.get("memory_bytes"), absent=""), MACS.number(row.get("macs"), absent="")]
        if by != "operator":
            text.append(MACS.number(row.get("macs_per_second_of_audio"), absent=""))
        text += [time(row.get("device_s") or 0.0)] * on_device
        texts.append(text)
    return Table(title, header, texts)


def remarks_of(cell: CellResult, asked: Asked | None = None) -> list[str]:
    """What is said below the table of a cell: how it was measured, and what its columns mean."""
    found = cell.breakdown
    assert found is not None
    by = asked.by if asked else "label"
    calls = f"Of {cell.place}"
    if by == "operator":
        return [f"{calls}: mean of {_times(found.profiled_calls)} under the profiler. {UNDER_PROFILER}"]
    overhead = found.overhead
    cost = f"{overhead.module_calls:g} calls of modules, {significant(overhead.hook_s * 1e6, 2)} µs each"
    if overhead.backward_steps is not None:
        each = significant((overhead.backward_hook_s or 0.0) * 1e6, 2)
        cost += f", and {overhead.backward_steps:g} steps of the backward pass, {each} µs each"
    remarks = [
        f"{calls}: mean of {_times(found.calls)} with labels, apart from the timed ones, which have none. "
        f"The labels cost {_percent(overhead.known)} of a call ({cost}); in turns with calls without labels the "
        f"difference was {overhead.measured:+.1%}.",
        COLUMNS
        + (f" {BACKWARD}" if overhead.backward_steps is not None else "")
        + (f" {FOLDED}" if by == "module" and not (asked and asked.unfolded) else ""),
    ]
    return remarks + [f"- {note}" for note in found.notes]


def _times(count: int) -> str:
    return many(count, "call")


def _percent(value: float) -> str:
    return f"{significant(100 * value, 2)}%"


def _number(value: float) -> str:
    return f"{value:g}" if value == int(value) else f"{value:.1f}"
