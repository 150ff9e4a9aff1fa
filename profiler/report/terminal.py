"""Tables and texts as a terminal shows them: fitted to its width. Elsewhere (a pipe, a file) they are Markdown.

A table that is too wide is cut between its columns, never inside a figure: the first column is repeated.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from rich.box import SIMPLE_HEAD
from rich.console import Console, JustifyMethod, RenderableType
from rich.table import Column
from rich.table import Table as RichTable
from rich.text import Text

from profiler.report.table import Table, plain

NARROWEST = 40  # columns; a narrower window folds lines, whatever is done
GAP = 3  # columns between two of a table, as rich draws it
RED = "bold red"


def show(parts: Iterable[Table | str], console: Console | None = None) -> None:
    """Print tables and paragraphs, one after another."""
    texts = [part for part in parts if part]
    if console is None and not sys.stdout.isatty():
        print("\n\n".join(part.markdown() if isinstance(part, Table) else part for part in texts).rstrip("\n"))
        return
    console = console or Console(highlight=False)
    for number, part in enumerate(texts):
        if number:
            console.print()
        for each in fitted(part, max(NARROWEST, console.width)) if isinstance(part, Table) else [paragraph(part)]:
            console.print(each)


def paragraph(text: str, style: str = "") -> Text:
    """Wrapped between words. What steers a terminal, or marks up Markdown, is not let through."""
    return Text(plain(text).replace("\\<", "<").replace("**", "").replace("  \n", "\n").rstrip("\n"), style)


def fitted(table: Table, width: int) -> list[RenderableType]:
    """Title, as many tables as its columns need, remarks."""
    shown: list[RenderableType] = [paragraph(table.title, "bold")]
    needs = [max(map(_longest_word, texts)) for texts in zip(table.header, *table.rows, strict=True)]
    for columns in _groups(needs, width) if table.rows else []:
        shown += [Text(), _drawn(table, columns, _widths(table, columns, needs, width))]
    shown += [Text()] if table.remarks else []
    for remark in table.remarks:
        bullet = remark.startswith("- ")
        text = paragraph(remark.removeprefix("- "))
        shown.append(_listed(text) if bullet else text)
    return shown


def _listed(text: Text) -> RenderableType:
    grid = RichTable.grid(Column(width=2), Column())
    grid.add_row("-", text)
    return grid


def _groups(needs: list[int], width: int) -> list[list[int]]:
    """Which columns go together: as many as fit when each is as narrow as its longest word allows."""
    groups: list[list[int]] = [[0]]
    for column, need in enumerate(needs[1:], 1):
        if len(groups[-1]) > 1 and sum(needs[one] + GAP for one in groups[-1]) + need > width:
            groups.append([0])
        groups[-1].append(column)
    return groups


def _widths(table: Table, columns: list[int], needs: list[int], width: int) -> list[int]:
    """Of each column: what it needs, and what is left goes first to those that lack the least to stand in one line."""
    wants = {one: max(len(text) for text in (table.header[one], *(row[one] for row in table.rows))) for one in columns}
    found, left = {one: needs[one] for one in columns}, width - sum(needs[one] + GAP for one in columns) + GAP
    for one in sorted(columns, key=lambda column: wants[column] - needs[column]):
        more = max(0, min(wants[one] - needs[one], left))
        found[one], left = found[one] + more, left - more
    return list(found.values())


def _longest_word(text: str) -> int:
    return max((len(word) for word in text.split()), default=0)


def _drawn(table: Table, columns: list[int], widths: list[int]) -> RenderableType:
    drawn = RichTable(box=SIMPLE_HEAD, padding=(0, 1), pad_edge=False, show_edge=False, header_style="")
    for column, width in zip(columns, widths, strict=True):
        side: JustifyMethod = "right" if column else "left"
        drawn.add_column(paragraph(table.header[column]), justify=side, overflow="fold", width=width)
    for row in table.rows:
        drawn.add_row(*(paragraph(row[column]) for column in columns))
    return drawn
