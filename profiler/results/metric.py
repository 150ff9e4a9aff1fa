"""What a metric is: a figure with a name, a unit, a place in the results, and one way to be written.

`Metric.number` and `Metric.text` write a value, `cell_number` and `cell_text` what stands in the place of a cell. The
metrics themselves are lines: those of a pass in its file, those of a model or a data set in profiler/metrics.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from profiler.results.types import CellResult, Results
from profiler.units import UNITS, Unit, many

UNSTABLE_MARK = "~"
HIGHER = {"better": "higher", "time": True}  # of a speed
Interval = tuple[float, float]


@dataclass(frozen=True)
class Metric:
    """A figure of a cell, or of a variant as a whole."""

    key: str  # as commands and JSON name it
    title: str
    short: str  # in a sentence, and at the head of a column
    unit: str = ""  # of the value in results.json; profiler/units.py says how that is written
    column: str = ""  # in results.csv and data frames; empty: in neither
    of_cell: Callable[[CellResult], Any] | None = None
    of_variant: Callable[[Results, str], Any] | None = None
    ci95: Callable[[CellResult], Interval | None] | None = None
    better: str = "lower"
    time: bool = False  # follows the time of a call, and so the machine's noise
    detail: bool = False  # for the CSV and the table of its pass; compare does not show it
    hint: str = ""  # said in the title of its table

    @property
    def shown(self) -> Unit:
        """The unit that people read, in every view."""
        return UNITS.get(self.unit) or Unit(self.unit)

    @property
    def head(self) -> str:
        """Of a column: 'latency, ms', 'J per s of audio'."""
        return _with_unit(self.short, self.shown.name)

    @property
    def axis(self) -> str:
        """'Latency of one call, ms'."""
        return _with_unit(self.title, self.shown.name)

    @property
    def heading(self) -> str:
        """Of a table whose cells are numbers: 'Latency of one call, in ms'."""
        hint = f" ({self.hint})" if self.hint else ""
        return self.title + hint + (f", in {self.shown.name}" if self.shown.name else "")

    def number(self, value: float | str | None, half_width: float | None = None, absent: str = "n/a") -> str:
        """For a column whose head has the unit; the digits are those that the 95 % CI supports, two or three."""
        return absent if value is None else value if isinstance(value, str) else self.shown.number(value, half_width)

    def text(self, value: float | str | None, half_width: float | None = None, absent: str = "n/a") -> str:
        """With the unit."""
        return absent if value is None else value if isinstance(value, str) else self.shown.text(value, half_width)

    def in_cell(self, cell: CellResult | None) -> Any:
        """The figure of a cell; None where it was not measured."""
        return self.of_cell(cell) if self.of_cell and cell is not None else None

    def value(self, results: Results, variant: str, cell: CellResult | None = None) -> Any:
        """Of the variant, or of its cell."""
        return self.of_variant(results, variant) if self.of_variant else self.in_cell(cell)

    def half_width(self, cell: CellResult) -> float | None:
        """Of the 95 % CI, as a share of the figure: that of the latency, which the figure is made from."""
        return cell.latency_s.half_width if self.ci95 and cell.latency_s else None

    def cell_number(self, cell: CellResult) -> str:
        """'330', '330 ~12%' where the figure is unstable, or why there is none: 'skipped'."""
        return self._in_place(cell, self.number)

    def cell_text(self, cell: CellResult) -> str:
        """The same with the unit: '330 ms ~12%'."""
        return self._in_place(cell, self.text)

    def cell_tip(self, cell: CellResult) -> str:
        """What a figure says when it is pointed at: 'RTF 0.123, 95 % CI 0.119 to 0.127, 12 rounds, stable'."""
        parts = [f"{self.short} {self.text(self.in_cell(cell))}"]
        if self.ci95 and cell.latency_s:
            ends = self.ci95(cell)
            parts.append(f"95 % CI {self.number(ends[0])} to {self.text(ends[1])}" if ends else "no 95 % CI")
            parts += [many(len(cell.latency_s.rounds), "round"), cell.verdict or ""]
        return ", ".join(filter(None, parts))

    def _in_place(self, cell: CellResult, write: Callable[[float, float | None], str]) -> str:
        value, half = self.in_cell(cell), self.half_width(cell)
        if value is None:
            return "n/a" if cell.status == "ok" else cell.status
        return f"{write(value, half)} {mark}" if self.ci95 and (mark := unstable_mark(cell)) else write(value, half)


def unstable_mark(cell: CellResult) -> str:
    """'~12%' of an unstable figure: how far its 95 % CI reaches either way. Empty where it is as narrow as wanted."""
    if cell.verdict != "unstable":
        return ""
    half = cell.latency_s.half_width if cell.latency_s else None
    return UNSTABLE_MARK + ("" if half is None else f"{half:.0%}")


def _with_unit(name: str, unit: str) -> str:
    return name if not unit or unit in name.split() else f"{name}, {unit}"


def follow(found: Any, *path: str) -> Any:
    """Attributes or keys, one after another; None where one is missing."""
    for name in path:
        found = found.get(name) if isinstance(found, dict) else getattr(found, name, None)
    return found


def of(*path: str) -> Callable[[CellResult], Any]:
    """A figure of a cell, by its place in results.json."""
    return lambda cell: follow(cell, *path)


def detail(key: str, short: str, unit: str, column: str, of_cell: Callable[[CellResult], Any], **more: Any) -> Metric:
    """A metric that only the CSV and the table of its pass show; `short` is all that it is called."""
    more = {"time": unit == "s"} | more
    return Metric(key, short[0].upper() + short[1:], short, unit, column, of_cell, detail=True, **more)
