"""The table of recipes in the docs says what `ls` says, and where a count is known from elsewhere."""

from __future__ import annotations

import pytest

from profiler.cli.ls import parameters_text, recipe_rows
from tests.helpers.program import ROOT
from tests.helpers.shipped import ROWS

PAGE = (ROOT / "docs" / "recipes.md").read_text()


@pytest.mark.parametrize("row", recipe_rows(), ids=lambda row: row["name"])
def test_every_recipe_stands_in_the_table(row: dict[str, str]) -> None:
    reference = "exact" if ROWS[row["name"]].published else "none"
    line = f"| `{row['name']}` | {row['model']} | {row['kind']} | {parameters_text(row)} | {reference} |"
    assert line in PAGE


def test_the_readme_says_how_many_recipes_ship() -> None:
    assert f"[{len(recipe_rows())} recipes that ship](docs/recipes.md)" in (ROOT / "README.md").read_text()
