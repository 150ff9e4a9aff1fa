"""The README's table of recipes says what `ls` says, and where a count is known from elsewhere."""

from __future__ import annotations

import pytest

from profiler.cli.ls import parameters_text, recipe_rows
from tests.program import ROOT
from tests.shipped import ROWS

README = (ROOT / "README.md").read_text()


@pytest.mark.parametrize("row", recipe_rows(), ids=lambda row: row["name"])
def test_every_recipe_stands_in_the_table(row: dict[str, str]) -> None:
    reference = "exact" if ROWS[row["name"]].published else "none"
    line = f"| `{row['name']}` | {row['model']} | {row['kind']} | {parameters_text(row)} | {reference} |"
    assert line in README
