"""What belongs together: cells of two runs, by variant, seconds and batch size; rounds of two cells of one run."""

from __future__ import annotations

from dataclasses import dataclass, field

from profiler.errors import UserError, did_you_mean
from profiler.results.types import CellResult, Results
from profiler.units import place_text


@dataclass(frozen=True)
class Pairs:
    """Cells that belong together, and those that have no partner."""

    variants: list[tuple[str, str]]
    cells: list[tuple[CellResult, CellResult]]
    only_first: list[str] = field(default_factory=list)
    only_second: list[str] = field(default_factory=list)


def match_cells(first: Results, second: Results, chosen: tuple[str, str] | None = None) -> Pairs:
    """Raises UserError where nothing can be paired; the message says what each run has."""
    variants = _match_variants(first, second, chosen)
    cells, only_first, only_second = [], [], []
    for one, two in variants:
        mine = {(cell.seconds, cell.batch_size): cell for cell in first.cells if cell.variant == one}
        theirs = {(cell.seconds, cell.batch_size): cell for cell in second.cells if cell.variant == two}
        cells += [(mine[place], theirs[place]) for place in sorted(mine.keys() & theirs.keys())]
        only_first += [f"{one} {place_text(*place)}" for place in sorted(mine.keys() - theirs.keys())]
        only_second += [f"{two} {place_text(*place)}" for place in sorted(theirs.keys() - mine.keys())]
    if chosen is None:
        only_first += [f"{name} (all cells)" for name in first.variants if name not in [one for one, _ in variants]]
        only_second += [f"{name} (all cells)" for name in second.variants if name not in [two for _, two in variants]]
    # What neither run measured, as the heavy corner of a grid, is no news.
    cells = [pair for pair in cells if {cell.status for cell in pair} != {"skipped"}] or cells
    if not cells:
        raise UserError(
            f"The runs have no cell in common.\n  {first.run.id} has {_grid(first, [one for one, _ in variants])}\n"
            f"  {second.run.id} has {_grid(second, [two for _, two in variants])}\n"
            "Run both with the same audio_mockup_secs and batch_sizes."
        )
    return Pairs(variants, cells, only_first, only_second)


def match_rounds(first: CellResult, second: CellResult) -> list[tuple[list[float], list[float]]]:
    """The calls of both in each round that both went through; by place where a run does not number its rounds."""
    one, two = _numbered(first), _numbered(second)
    if one is None or two is None:
        sides = [cell.latency_s.by_round if cell.latency_s else [] for cell in (first, second)]
        return list(zip(*sides, strict=True)) if len(sides[0]) == len(sides[1]) else []
    return [(one[number], two[number]) for number in sorted(one.keys() & two.keys())]


def _numbered(cell: CellResult) -> dict[int, list[float]] | None:
    numbers = [condition.round for condition in cell.conditions]
    rounds = cell.latency_s.by_round if cell.latency_s else []
    if len(numbers) != len(rounds) or not all(isinstance(number, int) for number in numbers):
        return None
    return {number: calls for number, calls in zip(numbers, rounds, strict=True) if number is not None and calls}


def _match_variants(first: Results, second: Results, chosen: tuple[str, str] | None) -> list[tuple[str, str]]:
    for results in (first, second):
        if not results.cells:
            raise UserError(f"The run {results.run.id} is empty: it has no cell to compare ({results.run.status}).")
    if chosen is not None:
        for name, results in zip(chosen, (first, second), strict=True):
            if name not in results.variants:
                known = did_you_mean(name, results.variants)
                raise UserError(f"The run {results.run.id} has no variant `{name}`.{known}")
        return [chosen]
    common = [(name, name) for name in first.variants if name in second.variants]
    if common:
        return common
    if len(first.variants) == len(second.variants) == 1:
        return [(first.variants[0], second.variants[0])]
    raise UserError(
        f"The runs have no variant in common: {first.run.id} has {', '.join(first.variants)}; {second.run.id} has "
        f"{', '.join(second.variants)}. Choose one of each with --variants A B."
    )


def _grid(results: Results, variants: list[str]) -> str:
    places = sorted({(cell.seconds, cell.batch_size) for cell in results.cells if cell.variant in variants})
    return ", ".join(place_text(*place) for place in places) or "none"
