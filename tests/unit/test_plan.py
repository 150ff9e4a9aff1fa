"""Recipe -> cells: which are measured, which are left out, and in what order."""

from __future__ import annotations

import pytest

from profiler.plan import Cell, first_round_order, in_heavy_corner, later_round_order, make_plan
from profiler.recipe.schema import Recipe


def recipe(seconds: list[float], batches: list[int], triangle: bool = False, variants: int = 1) -> Recipe:
    return Recipe.model_validate(
        {
            "pretrained_model": {"source": "a/b", "type": "AutoModel"},
            "profiling_dimensions": {
                "audio_mockup_secs": seconds,
                "batch_sizes": batches,
                "triangle_only": triangle,
            },
            "variants": [{"name": f"v{number}"} for number in range(variants)],
        }
    )


def grid(rows: int, columns: int) -> list[Cell]:
    return make_plan(recipe([n + 0.5 for n in range(rows)], [n + 1 for n in range(columns)])).to_measure


def drawn(rows: int, columns: int) -> list[str]:
    """The triangle of a grid as text: x is left out."""
    return [
        "".join("x" if in_heavy_corner(row, column, rows, columns) else "." for column in range(columns))
        for row in range(rows)
    ]


@pytest.mark.parametrize(
    ("rows", "columns", "expected"),
    [
        (1, 1, ["."]),
        (1, 4, ["...."]),
        (4, 1, [".", ".", ".", "."]),
        (2, 2, ["..", ".x"]),
        (2, 3, ["...", "..x"]),
        (3, 3, ["...", "..x", ".xx"]),
        (4, 3, ["...", "...", "..x", ".xx"]),
        (5, 3, ["...", "...", "..x", ".xx", ".xx"]),
        (4, 4, ["....", "...x", "..xx", ".xxx"]),
        (3, 6, ["......", "....xx", "...xxx"]),
    ],
)
def test_the_triangle_leaves_out_the_heavy_corner(rows: int, columns: int, expected: list[str]) -> None:
    assert drawn(rows, columns) == expected


@pytest.mark.parametrize("rows", range(1, 8))
@pytest.mark.parametrize("columns", range(1, 8))
def test_the_triangle_follows_its_formula(rows: int, columns: int) -> None:
    for i in range(rows):
        for j in range(columns):
            expected = i > 0 and j > 0 and 2 * (i + j) >= rows + columns
            assert in_heavy_corner(i, j, rows, columns) == expected


def test_the_first_row_and_column_are_always_measured() -> None:
    plan = make_plan(recipe([1, 2, 4, 8], [1, 2, 4, 8], triangle=True))
    kept = {(cell.seconds, cell.batch_size) for cell in plan.to_measure}
    assert {(seconds, 1) for seconds in (1, 2, 4, 8)} <= kept
    assert {(1, batch) for batch in (1, 2, 4, 8)} <= kept


def test_skipped_cells_stay_in_the_plan_with_the_reason() -> None:
    plan = make_plan(recipe([1, 2], [1, 2], triangle=True))
    assert len(plan.cells) == 4
    assert list(plan.skipped) == [Cell("v0", 2, 2)]
    assert "triangle_only" in plan.skipped[Cell("v0", 2, 2)]
    assert len(plan.to_measure) == 3


def test_without_triangle_every_cell_is_measured() -> None:
    plan = make_plan(recipe([1, 2, 5], [1, 4]))
    assert plan.skipped == {}
    assert [cell.label for cell in plan.cells] == ["1s_x1", "1s_x4", "2s_x1", "2s_x4", "5s_x1", "5s_x4"]


def test_variants_have_a_grid_each() -> None:
    plan = make_plan(recipe([1, 2], [1, 2], triangle=True, variants=3))
    assert len(plan.cells) == 12
    assert [cell.variant for cell in plan.skipped] == ["v0", "v1", "v2"]


def test_a_cell_names_its_folder_and_its_audio() -> None:
    cell = Cell("float32", 0.25, 8)
    assert cell.folder == "float32/0.25s_x8"
    assert cell.audio_seconds == 2.0


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (1, 6), (5, 3), (4, 4)])
def test_no_cell_comes_before_a_smaller_one(rows: int, columns: int) -> None:
    cells = grid(rows, columns)
    for seed in range(20):
        order = first_round_order(cells, seed)
        assert sorted(order, key=cells.index) == cells
        place = {cell: index for index, cell in enumerate(order)}
        for cell in cells:
            for other in cells:
                if other != cell and other.seconds <= cell.seconds and other.batch_size <= cell.batch_size:
                    assert place[other] < place[cell]


def test_the_same_seed_gives_the_same_order_and_others_differ() -> None:
    cells = grid(5, 5)
    orders = [tuple(first_round_order(cells, seed)) for seed in range(10)]
    assert orders == [tuple(first_round_order(cells, seed)) for seed in range(10)]
    assert len(set(orders)) == 10


def test_later_rounds_are_shuffled_anew() -> None:
    cells = grid(4, 4)
    orders = [tuple(later_round_order(cells, 0, number)) for number in range(1, 6)]
    assert all(set(order) == set(cells) and len(order) == len(cells) for order in orders)
    assert len(set(orders)) == 5
    assert orders == [tuple(later_round_order(cells, 0, number)) for number in range(1, 6)]
    assert cells == grid(4, 4)  # the given list is left alone


def test_a_triangle_has_an_order_too() -> None:
    cells = make_plan(recipe([1, 2, 4, 8], [1, 2, 4, 8], triangle=True)).to_measure
    assert sorted(first_round_order(cells, 3), key=cells.index) == cells


def test_lists_need_not_be_sorted() -> None:
    order = first_round_order(make_plan(recipe([5, 1, 2], [4, 1])).to_measure, 0)
    assert (order[0].seconds, order[0].batch_size) == (1, 1)
    assert (order[-1].seconds, order[-1].batch_size) == (5, 4)


def test_ten_thousand_cells_are_ordered() -> None:
    """One pass over the cells: the square of their number would take a minute here."""
    cells = grid(100, 100)
    order = first_round_order(cells, 0)
    assert len(order) == 10_000
    assert set(order) == set(cells)
