"""Successive halving, on figures that are known."""

from __future__ import annotations

from profiler.plan import Cell
from profiler.tuning.halving import Aim, best_half, halve, rounds_by, select
from profiler.tuning.limits import Figures, parse_limits


def cells(variants: int, batches: tuple[int, ...] = (1,)) -> list[Cell]:
    return [Cell(f"v{number}", 1.0, batch) for number in range(variants) for batch in batches]


def figures(cell: Cell, rounds: int = 1) -> Figures:
    """v0 is the fastest and the largest."""
    number = int(cell.variant[1:])
    return {"rtf": 0.01 * (number + 1) / cell.batch_size, "memory": 1e9 - 1e7 * number, "latency": 0.01 * (number + 1)}


def test_the_better_half_stays_and_the_others_say_why() -> None:
    found = select({cell: figures(cell) for cell in cells(8)}, Aim(finalists=2))
    assert [cell.variant for cell in found.left] == ["v0", "v1", "v2", "v3"]
    assert found.dropped[Cell("v7", 1.0, 1)] == "RTF 0.0800, place 8 of 8"


def test_what_is_clearly_over_a_limit_leaves_at_once_however_fast() -> None:
    aim = Aim(limits=tuple(parse_limits("memory 850 MB")), finalists=2)
    found = select({cell: figures(cell) for cell in cells(12)}, aim)
    assert [cell.variant for cell in found.left] == ["v7", "v8", "v9"], "v0 to v6 have more than 935 MB"
    assert Cell("v0", 1.0, 1) in found.over
    assert "over memory 850 MB" in found.dropped[Cell("v0", 1.0, 1)]


def test_what_is_a_little_over_stays_until_it_is_measured() -> None:
    aim = Aim(limits=tuple(parse_limits("memory 960 MB")), finalists=2)
    assert not select({cell: figures(cell) for cell in cells(4)}, aim).over


def test_what_has_no_figure_for_the_goal_leaves() -> None:
    found = select({Cell("v0", 1.0, 1): {"rtf": 0.1}, Cell("v1", 1.0, 1): {}}, Aim())
    assert [cell.variant for cell in found.left] == ["v0"]
    assert found.dropped[Cell("v1", 1.0, 1)] == "no figure for RTF"


def test_finalists_are_different_variants_and_not_one_at_four_batch_sizes() -> None:
    ordered = sorted(cells(4, (1, 2, 4, 8)), key=lambda cell: cell.variant)
    assert {cell.variant for cell in best_half(ordered, 4)} == {"v0", "v1", "v2", "v3"}
    assert len({cell.variant for cell in best_half(ordered, 2)}) == 2


def test_each_rung_has_half_the_candidates_and_twice_the_rounds_until_few_variants_are_left() -> None:
    """Played as a run does it: what is left gets the rounds of the next rung."""
    had, visits = dict.fromkeys(cells(32), 0), []

    def known(cell: Cell, rounds: int) -> Figures | None:
        return figures(cell) if had[cell] >= rounds else None

    selection, rung = halve(cells(32), known, Aim())
    while rung is not None:
        visits.append((len(selection.left), rounds_by(rung) - had[selection.left[0]]))
        had.update(dict.fromkeys(selection.left, rounds_by(rung)))
        selection, rung = halve(cells(32), known, Aim())
    assert visits == [(32, 1), (16, 2), (8, 4)]
    assert [cell.variant for cell in selection.left] == ["v0", "v1", "v2", "v3"]
    assert len(selection.dropped) == 28


def test_decisions_are_made_anew_from_the_figures_of_the_first_rounds() -> None:
    """A search that was interrupted, or read from its results, ends with those it ended with before."""

    def noisy(cell: Cell, rounds: int) -> Figures:
        return {"rtf": figures(cell)["rtf"] if rounds == 1 else 1.0 - 0.01 * int(cell.variant[1:])}  # type: ignore[dict-item]

    once, rung = halve(cells(8), noisy, Aim(finalists=2))
    assert rung is None
    assert [cell.variant for cell in once.left] == ["v3", "v2"], "v4 to v7 left after the first round"
    assert halve(cells(8), noisy, Aim(finalists=2))[0].left == once.left
