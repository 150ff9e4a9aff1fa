"""Figures of the candidates' run -> who is left. The schedule asks while the run goes on, `tune` once it is over."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from statistics import median

from profiler.plan import Cell
from profiler.results.metric import follow
from profiler.results.types import CellResult, Results, RunHead
from profiler.tuning.halving import Aim, Selection, halve
from profiler.tuning.limits import FIGURES, GOALS, RATES, Figures, Rate, rate_of


@dataclass(frozen=True)
class Search:
    """What is looked for, and which candidates differ in threads alone: `computes` has the same text for these."""

    aim: Aim
    computes: dict[str, str]  # variant -> runtime, precision, ...

    def representative(self, variant: str, of: Collection[str]) -> str | None:
        """The variant among these that computes the same."""
        wanted = self.computes[variant]
        return next((name for name in of if self.computes[name] == wanted), None)

    def figures(self, head: RunHead, cell: CellResult, rounds: int) -> Figures | None:
        """Of a candidate's first so many rounds, None where it has fewer; what is measured once is what it is."""
        if cell.status != "ok":
            return {}
        calls = [median(calls) for calls in (cell.latency_s.by_round if cell.latency_s else [])[:rounds] if calls]
        if len(calls) < rounds:
            return None
        found: dict[str, float | Rate | None] = {name: FIGURES[name].in_cell(cell) for name in GOALS}
        found["size"] = follow(head.model(cell.variant), "size_bytes", "total")
        found["latency"] = median(calls)
        found["rtf"] = median(calls) / (cell.seconds * cell.batch_size)
        return found | self.error_rates(head, cell.variant)

    def error_rates(self, head: RunHead, variant: str) -> dict[str, Rate | None]:
        """Of the variant, or of one that computes the same."""
        known = self.representative(variant, [entry.variant for entry in head.accuracy])
        entry = next((entry for entry in head.accuracy if entry.variant == known), None)
        first = head.accuracy[0] if head.accuracy else None
        return {name: rate_of(entry, first, name) for name in RATES}

    def selection(self, results: Results) -> Selection:
        """Who is left at the end of the run, and why the others are not."""
        cells = {Cell(*cell.key): cell for cell in results.cells}
        found, _ = halve(list(cells), lambda cell, rounds: self.figures(results, cells[cell], rounds), self.aim)
        for cell, result in cells.items():
            if result.status != "ok" and cell in found.dropped:
                found.dropped[cell] = result.reason or result.status
                found.failed.add(cell)
        return found
