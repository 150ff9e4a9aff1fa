"""A comparison as tables: one row per cell, one per variant. The same in all formats."""

from __future__ import annotations

from profiler.comparison.compare import compare_sides
from profiler.comparison.paired import SLOW_CALLS
from profiler.comparison.result import CellComparison, RunComparison
from profiler.metrics import LATENCY, Change
from profiler.report.comparison import words
from profiler.report.comparison.words import change_text, ratio_text, share_text
from profiler.report.table import Table
from profiler.results.statistics import relative_half_width
from profiler.results.types import Results
from profiler.units import significant

SAME = 0.01  # memory and energy that differ by less are called the same


def speed_table(other: RunComparison, cells: list[CellComparison], title: str = "Speed") -> Table:
    """Figures of both runs, the ratio with its CI, and the verdict; below, why some are not called different."""
    names = list(dict.fromkeys(cell.variants for cell in other.cells))
    several = len(names) > 1
    measures = list(dict.fromkeys(name for cell in cells for name in cell.speed.normalised))
    header = ["variant"] if several else []
    sides = ("A", "B") if all(cell.variants[0][:1] == "A" and cell.variants[1][:1] == "B" for cell in cells) else ()
    header += ["cell", *(sides or ("baseline", "this run")), f"ratio [{_interval_name(cells)}]", *measures, "verdict"]
    rows = []
    for cell in cells:
        row = [_variants(cell.variants)] if several else []
        row += [cell.label, *(_latency(cell, side) for side in (0, 1)), ratio_text(cell.speed)]
        at_equal = cell.speed.normalised
        row += [significant(at_equal[name], 3) if name in at_equal else "" for name in measures]
        rows.append([*row, cell.speed.verdict])
    if not several and names and names[0][0] != names[0][1]:
        title += f" - {_variants(names[0])}"
    remarks = ([other.different_models] if other.different_models else []) + _reasons(cells, several)
    return Table(title, header, rows, remarks + _slow_calls(cells, several))


def _interval_name(cells: list[CellComparison]) -> str:
    """'95 % CI', where all cells have the same."""
    confidences = {cell.speed.confidence for cell in cells if cell.speed.ci}
    return f"{100 * confidences.pop():g} % CI" if len(confidences) == 1 else "CI"


def _slow_calls(cells: list[CellComparison], several: bool) -> list[str]:
    """Cells whose slow calls changed otherwise than the typical one, or alone."""
    found = []
    for cell in cells:
        slow = cell.speed.slow_calls
        alone = cell.speed.reason == SLOW_CALLS
        if slow and slow.verdict in ("slower", "faster") and (alone or slow.verdict != cell.speed.verdict):
            found.append(f"- {_cell_name(cell, several)}: slow calls (p90) {ratio_text(slow)}, {slow.verdict}.")
    return found


def _cell_name(cell: CellComparison, several: bool) -> str:
    return f"{_variants(cell.variants)} {cell.label}" if several else cell.label


def _reasons(cells: list[CellComparison], several: bool) -> list[str]:
    """Each reason once, with the cells that it holds for."""
    by_reason: dict[str, list[str]] = {}
    for cell in cells:
        if cell.speed.reason and cell.speed.reason != SLOW_CALLS:
            by_reason.setdefault(cell.speed.reason, []).append(_cell_name(cell, several))
    return [
        f"- {'all cells' if len(names) == len(cells) > 1 else ', '.join(names)}: {reason.rstrip('.')}."
        for reason, names in by_reason.items()
    ]


def _latency(cell: CellComparison, side: int) -> str:
    value = cell.latency_s[side]
    if cell.status[side] != "ok":
        return cell.status[side]
    if value is None:
        return "n/a"
    half = relative_half_width(value, cell.latency_ci95[side])
    return LATENCY.text(value, half) + ("" if half is None else f" ±{share_text(half).replace(' ', '')}")


def other_metrics_table(other: RunComparison, cells: list[CellComparison]) -> Table | None:
    """Memory and energy of the cells; what is the same in all of them is said below. None where there is neither."""
    changes = [change for cell in cells for change in cell.other_metrics]
    names = list(dict.fromkeys(change.title for change in changes))
    if not names:
        return None
    same = [name for name in names if all(_is_same(change) for change in changes if change.title == name)]
    shown = [name for name in names if name not in same]
    several = len({cell.variants for cell in other.cells}) > 1
    rows = []
    for cell in cells if shown else []:
        found = {change.title: change_text(change) for change in cell.other_metrics}
        row = [_variants(cell.variants)] if several else []
        rows.append([*row, cell.label, *(found.get(name, "not measured") for name in shown)])
    table = Table("Memory and energy", [*(["variant"] if several else []), "cell", *shown], rows)
    if same:
        table.remarks.append(
            f"Same within {share_text(SAME)}: {', '.join(name[0].lower() + name[1:] for name in same)}."
        )
    return table


def _is_same(change: Change) -> bool:
    return change.ratio is not None and abs(change.ratio - 1) <= SAME and not change.remark


def variants_table(other: RunComparison) -> Table | None:
    """Size, parameters, error rates: one row per variant."""
    names = list(dict.fromkeys(change.title for each in other.variants for change in each.metrics))
    if not names:
        return None
    rows = []
    for each in other.variants:
        found = {change.title: change_text(change) for change in each.metrics}
        rows.append([_variants(each.variants), *(found.get(name, "not measured") for name in names)])
    return Table("Size and accuracy", ["variant", *names], rows)


def _variants(names: tuple[str, str]) -> str:
    return names[0] if names[0] == names[1] else f"{names[0]} to {names[1]}"


def sides_tables(results: Results) -> list[Table]:
    """B against A; one table per pair of variants. None while a side has no cell yet, as in a run cut short."""
    if results.run.sides is None or any(
        name not in results.variants for pair in results.run.sides.pairs for name in pair
    ):
        return []
    comparison = compare_sides(results)
    tables = []
    for other in comparison.others:
        table = speed_table(other, other.cells, "B against A")
        table.remarks = [*words.baseline_text(comparison).split("  \n"), *words.answer(other), *table.remarks]
        tables.append(table)
    return tables
