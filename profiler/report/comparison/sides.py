"""What an A/B run says, as the first tables of its report."""

from __future__ import annotations

from profiler.comparison.compare import compare_sides
from profiler.report.comparison import words
from profiler.report.comparison.tables import speed_table
from profiler.report.table import Table
from profiler.results.types import Results


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
