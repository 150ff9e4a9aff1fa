"""A comparison as tables: one row a cell, one a variant. The same in all formats."""

from __future__ import annotations

from profiler.comparison.result import CellComparison, Change, RunComparison
from profiler.report.comparison.words import MARKS, change_text, ratio_text
from profiler.report.table import Table
from profiler.units import seconds_text, significant

SAME = 0.01  # memory and energy that differ by less are called the same


def speed_table(other: RunComparison, cells: list[CellComparison], title: str = "Speed") -> Table:
    """Times of both runs, the ratio with its interval, and the verdict; below, why some are not called different."""
    names = list(dict.fromkeys(cell.variants for cell in other.cells))
    several = len(names) > 1
    measures = list(dict.fromkeys(name for cell in cells for name in cell.speed.normalised))
    header = (["variant"] if several else []) + ["audio x batch", "baseline", "this run", "ratio [95 %]"]
    header += [*measures, "verdict"]
    rows = []
    for cell in cells:
        row = [_variants(cell.variants)] if several else []
        row += [cell.label, *(_latency(cell, side) for side in (0, 1)), ratio_text(cell.speed)]
        at_equal = cell.speed.normalised
        row += [significant(at_equal[name], 3) if name in at_equal else "" for name in measures]
        rows.append([*row, MARKS[cell.speed.verdict]])
    if not several and names and names[0][0] != names[0][1]:
        title += f" - {_variants(names[0])}"
    return Table(title, header, rows, _reasons(cells, several))


def _reasons(cells: list[CellComparison], several: bool) -> list[str]:
    """Each reason once, with the cells that it holds for."""
    by_reason: dict[str, list[str]] = {}
    for cell in cells:
        if cell.speed.reason:
            name = f"{_variants(cell.variants)} {cell.label}" if several else cell.label
            by_reason.setdefault(cell.speed.reason, []).append(name)
    return [
        f"- {'all cells' if len(names) == len(cells) > 1 else ', '.join(names)}: {reason.rstrip('.')}."
        for reason, names in by_reason.items()
    ]


def _latency(cell: CellComparison, side: int) -> str:
    value = cell.latency_s[side]
    if cell.status[side] != "ok":
        return cell.status[side]
    return "n/a" if value is None else seconds_text(value)


def beside_table(other: RunComparison, cells: list[CellComparison]) -> Table | None:
    """Memory and energy of the cells; what is the same in all of them is said below. None where there is neither."""
    changes = [change for cell in cells for change in cell.beside]
    names = list(dict.fromkeys(change.name for change in changes))
    if not names:
        return None
    same = [name for name in names if all(_is_same(change) for change in changes if change.name == name)]
    shown = [name for name in names if name not in same]
    several = len({cell.variants for cell in other.cells}) > 1
    rows = []
    for cell in cells if shown else []:
        found = {change.name: change_text(change) for change in cell.beside}
        row = [_variants(cell.variants)] if several else []
        rows.append([*row, cell.label, *(found.get(name, "not measured") for name in shown)])
    table = Table("Memory and energy", [*(["variant"] if several else []), "audio x batch", *shown], rows)
    if same:
        table.remarks.append(f"The same within {SAME:.0%} in all cells: {', '.join(same)}.")
    return table


def _is_same(change: Change) -> bool:
    return change.ratio is not None and abs(change.ratio - 1) <= SAME and not change.remark


def variants_table(other: RunComparison) -> Table | None:
    """Size, parameters, error rates: a row a variant."""
    names = list(dict.fromkeys(change.name for each in other.variants for change in each.figures))
    if not names:
        return None
    rows = []
    for each in other.variants:
        found = {change.name: change_text(change) for change in each.figures}
        rows.append([_variants(each.variants), *(found.get(name, "not measured") for name in names)])
    return Table("Size and accuracy", ["variant", *names], rows)


def _variants(names: tuple[str, str]) -> str:
    return names[0] if names[0] == names[1] else f"{names[0]} to {names[1]}"
