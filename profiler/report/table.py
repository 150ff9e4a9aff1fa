"""A titled grid of texts. One look everywhere: a Markdown pipe table reads well in a terminal too."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tabulate import tabulate

from profiler.results.metric import Metric
from profiler.results.types import CellResult
from profiler.units import length_text

TAG = re.compile(r"<(?=[A-Za-z/!?])")  # how HTML begins; that 1 < 2 is no tag
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
PLACE = "audio x batch"
ABSENT = "-"  # a cell that was not measured


@dataclass
class Table:
    """Title, header, rows, and remarks below."""

    title: str
    header: list[str]
    rows: list[list[str]]
    remarks: list[str] = field(default_factory=list)

    def markdown(self) -> str:
        align = ("right",) * len(self.header)
        rows, header = [[_cell(text) for text in row] for row in self.rows], [_cell(text) for text in self.header]
        grid = tabulate(rows, header, tablefmt="pipe", colalign=align, disable_numparse=True)
        text = f"**{plain(self.title)}**" + (f"\n\n{grid}" if self.rows else "")
        for before, remark in zip(["", *self.remarks], self.remarks, strict=False):
            in_list = remark.startswith("- ") and before.startswith("- ")
            text += f"\n{plain(remark)}" if in_list else f"\n\n{plain(remark)}"
        return text


def plain(text: str) -> str:
    """A text of the results as Markdown and a terminal may show it: no HTML, no codes that steer a terminal."""
    return CONTROL.sub("\N{REPLACEMENT CHARACTER}", TAG.sub(r"\\<", text))


def _cell(text: str) -> str:
    return plain(text).replace("\n", " ").replace("|", r"\|")


def grid(title: str, texts: Mapping[tuple[float, int], str]) -> Table:
    """(seconds, batch size) -> text: rows are seconds, columns are batch sizes."""
    batches = sorted({batch for _, batch in texts})
    lengths = sorted({seconds for seconds, _ in texts})
    rows = [[length_text(length), *(texts.get((length, batch), ABSENT) for batch in batches)] for length in lengths]
    return Table(title, ["audio \\ batch", *map(str, batches)], rows)


def metric_table(title: str, cells: Iterable[CellResult], metrics: Sequence[Metric]) -> Table:
    """One row per cell, one column per metric."""
    rows = [[cell.place, *(metric.number(metric.in_cell(cell)) for metric in metrics)] for cell in cells]
    return Table(title, [PLACE, *(metric.head for metric in metrics)], rows)


def stacked(tables: dict[str, Table], several: bool) -> list[Table]:
    """The same table of several variants as one: a first column says which. What repeats is told once."""
    if not several:
        return list(tables.values())
    by_rows: dict[str, list[str]] = {}
    for variant, table in tables.items():
        by_rows.setdefault(repr(table.rows), []).append(variant)
    groups = list(by_rows.values())
    if not groups:
        return []
    first = tables[groups[0][0]]
    labels = ["all" if len(names) == len(tables) > 1 else ", ".join(names) for names in groups]
    rows = [[label, *row] for label, names in zip(labels, groups, strict=True) for row in tables[names[0]].rows]
    return [Table(first.title, ["variant", *first.header], rows, _remarks(tables))]


def _remarks(tables: dict[str, Table]) -> list[str]:
    """Each remark once: first those of some variants, with their names, then those of all."""
    holds: dict[str, list[str]] = {}
    for variant, table in tables.items():
        for remark in dict.fromkeys(table.remarks):
            holds.setdefault(remark, []).append(variant)
    found = []
    for remark, names in sorted(holds.items(), key=lambda entry: len(entry[1]) == len(tables)):
        mark = "- " if remark.startswith("- ") else ""
        whose = f"{', '.join(names)}: " if len(names) < len(tables) else ""
        found.append(f"{mark}{whose}{remark.removeprefix(mark)}")
    return found


def transposed(table: Table, corner: str) -> Table:
    """The same table with rows and columns exchanged."""
    columns = [list(column) for column in zip(table.header, *table.rows, strict=True)]
    columns[0][0] = corner
    return Table(table.title, columns[0], columns[1:], table.remarks)
