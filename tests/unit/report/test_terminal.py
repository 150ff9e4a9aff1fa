"""Tables in a terminal: they fit its width, and nothing is broken inside a word or lost."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from profiler.report.table import Table
from profiler.report.tables import build_tables
from profiler.report.terminal import show
from tests.unit.report.runs import full

WIDE = Table(
    "A title that is longer than a narrow terminal is wide, as titles of tables that name a model often are",
    ["run", *(f"figure {number}, ms" for number in range(12))],
    [[f"20261118-12000{row}-aaaa", *(f"{row}{number},234 ~12%" for number in range(12))] for row in range(3)],
    ["- a remark in a list that is so long that it does not fit in one line of eighty columns either", "x < y <b>"],
)


def lines(width: int, *parts: Table | str) -> list[str]:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    show(parts, console)
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_every_table_of_a_run_fits(width: int) -> None:
    text = lines(width, *build_tables(full("float32", "int8", "bfloat16", "one-thread", "another-one")), WIDE)
    assert max(map(len, text)) <= width
    assert not any(line.startswith("|") or "**" in line for line in text)


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_a_wide_table_is_cut_between_its_columns_and_nothing_is_lost(width: int) -> None:
    words = " ".join(lines(width, WIDE)).split()
    for row in WIDE.rows:
        assert set(" ".join(row).split()) <= set(words)


def test_in_a_pipe_it_is_markdown(capsys: pytest.CaptureFixture[str]) -> None:
    show([WIDE, "A paragraph.", ""])
    assert capsys.readouterr().out == f"{WIDE.markdown()}\n\nA paragraph.\n"
