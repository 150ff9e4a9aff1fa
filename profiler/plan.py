"""Recipe -> plan: the cells of a run, in the order of the tables, with those that are left out on purpose.

Needs no torch, so that a plan can be shown on any machine.
"""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass
from itertools import pairwise

from profiler.recipe.schema import Recipe
from profiler.units import place_text


@dataclass(frozen=True)
class Cell:
    """One (variant, seconds, batch size)."""

    variant: str
    seconds: float
    batch_size: int

    @property
    def label(self) -> str:
        """As its folder is called."""
        return f"{self.seconds:g}s_x{self.batch_size}"

    @property
    def place(self) -> str:
        """As tables name it."""
        return place_text(self.seconds, self.batch_size)

    @property
    def folder(self) -> str:
        """Where the cell's trace goes, below the run's folder."""
        return f"{self.variant}/{self.label}"

    @property
    def audio_seconds(self) -> float:
        return self.seconds * self.batch_size


@dataclass(frozen=True)
class Plan:
    """Cells to measure, and cells skipped on purpose with the reason."""

    cells: tuple[Cell, ...]
    skipped: dict[Cell, str]

    @property
    def to_measure(self) -> list[Cell]:
        return [cell for cell in self.cells if cell not in self.skipped]


TRIANGLE_REASON = "triangle_only leaves out the heavy corner"


def in_heavy_corner(row: int, column: int, rows: int, columns: int) -> bool:
    """True for the cells that `triangle_only` skips; indices count from 0 in the recipe's lists."""
    return row > 0 and column > 0 and row + column >= (rows + columns) / 2


def make_plan(recipe: Recipe) -> Plan:
    """All cells of a recipe, variant by variant, rows (seconds) before columns (batch sizes); under load, none."""
    if recipe.mode == "serving":
        return Plan((), {})
    grid = recipe.profiling_dimensions
    cells: list[Cell] = []
    skipped: dict[Cell, str] = {}
    for variant in recipe.variants:
        for row, seconds in enumerate(grid.audio_mockup_secs):
            for column, batch_size in enumerate(grid.batch_sizes):
                cell = Cell(variant.name, seconds, batch_size)
                cells.append(cell)
                if grid.triangle_only and in_heavy_corner(
                    row, column, len(grid.audio_mockup_secs), len(grid.batch_sizes)
                ):
                    skipped[cell] = TRIANGLE_REASON
    return Plan(tuple(cells), skipped)


def first_round_order(cells: list[Cell], seed: int) -> list[Cell]:
    """A random order in which no cell of a variant comes before a smaller one.

    The smaller cells say whether a larger one will fit in memory and time, so they have to come first; beyond that
    the order is shuffled, so that a slow minute of the machine does not fall on one row or column.
    """
    shuffle = random.Random(seed)
    waits_for = _next_smaller(cells)
    followers: dict[Cell, list[Cell]] = {cell: [] for cell in cells}
    for cell, earlier in waits_for.items():
        for other in earlier:
            followers[other].append(cell)
    ready = [(shuffle.random(), index) for index, cell in enumerate(cells) if not waits_for[cell]]
    heapq.heapify(ready)
    position = {cell: index for index, cell in enumerate(cells)}
    order: list[Cell] = []
    while ready:
        chosen = cells[heapq.heappop(ready)[1]]
        order.append(chosen)
        for follower in followers[chosen]:
            waits_for[follower].discard(chosen)
            if not waits_for[follower]:
                heapq.heappush(ready, (shuffle.random(), position[follower]))
    return order


def _next_smaller(cells: list[Cell]) -> dict[Cell, set[Cell]]:
    """For each the nearest cells with less audio in a row, and with fewer rows; all smaller ones follow from these."""
    found: dict[Cell, set[Cell]] = {cell: set() for cell in cells}
    columns: dict[tuple[str, int], list[Cell]] = {}
    rows: dict[tuple[str, float], list[Cell]] = {}
    for cell in cells:
        columns.setdefault((cell.variant, cell.batch_size), []).append(cell)
        rows.setdefault((cell.variant, cell.seconds), []).append(cell)
    for line in (*columns.values(), *rows.values()):
        for smaller, larger in pairwise(sorted(line, key=lambda cell: (cell.seconds, cell.batch_size))):
            found[larger].add(smaller)
    return found


def later_round_order(cells: list[Cell], seed: int, round_number: int) -> list[Cell]:
    """A fully shuffled order, another one for each round."""
    order = list(cells)
    random.Random(seed + round_number).shuffle(order)
    return order
