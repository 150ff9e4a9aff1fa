"""What a run ends with: the answer on one screen. All tables are in tables.md, report.html and `report RUN --full`.

failures, red | the model | RTF and latency: a grid, or one row per variant | memory, where the time goes,
what is unstable and why, a line each | one sentence | where the report is
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean

from rich.box import SIMPLE_HEAD
from rich.console import Console, RenderableType
from rich.table import Column
from rich.table import Table as RichTable
from rich.text import Text

from profiler import messages
from profiler.metrics import DATASET_RTF, LATENCY, PEAK, RTF, dataset_of
from profiler.report.breakdown import largest
from profiler.report.dataset import wer_text
from profiler.report.facts import few_calls, is_training
from profiler.report.summary import answer, subject
from profiler.report.table import ABSENT
from profiler.report.terminal import RED, paragraph, show
from profiler.report.variants import ratios
from profiler.results.metric import Metric, unstable_mark
from profiler.results.types import CellResult, Results
from profiler.units import many, place_text, significant

MOST_LINES = 25
GRID_AT_LEAST = 8  # lines
# How much the parts around the grid may take: reasons for failures, and lines of a sentence; what follows where the
# first leaves too little to the grid.
ROOMY, TIGHT = (4, 2), (2, 1)
MOST_PARTS = 4  # of where the time goes
LABEL = 9  # columns
BETWEEN = 3  # columns of the table, as rich draws it
STYLES = {"failed": RED, "skipped": "dim", ABSENT: "dim"}
FULL = "python profile.py report {} --full"


def show_run(
    results: Results, folder: Path, full: bool = False, where: str = "", memory: str | int | None = None
) -> bool:
    """The answer in a terminal, and True; all tables when they are asked for, or in Markdown where it is a pipe."""
    if sys.stdout.isatty() and not full and memory is None:
        print_closing(results, folder, Console(highlight=False), where)
        return True
    from profiler.report.markdown import how_measured
    from profiler.report.tables import build_tables

    show([*build_tables(results, memory), how_measured(results)])
    return False


def print_closing(results: Results, folder: Path, console: Console, where: str = "") -> None:
    """At most MOST_LINES lines of the console's width. `where`: what commands must be told to find the run."""
    for most, wrapped in (ROOMY, TIGHT):
        before = [*_failures(results, console.width, most, wrapped), _heading(results)]
        after = [_labelled(list(_lines(results)), console.width, wrapped), *_paths(results, folder, where)]
        left = MOST_LINES - sum(len(console.render_lines(part)) for part in (*before, *after))
        if left >= GRID_AT_LEAST:
            break
    for part in (*before, *_grid(results, console.width, left), *after):
        console.print(part, soft_wrap=isinstance(part, Text) and part.no_wrap is True)


# -- what surrounds the grid


def _failures(results: Results, width: int, most: int, wrapped: int) -> list[RenderableType]:
    """First of all, and red: what failed and why, the same reason once."""
    found: dict[str, list[str]] = {}
    several = len(results.variants) > 1
    for cell in results.failed:
        found.setdefault(cell.reason or "", []).append(f"{cell.variant} {cell.place}" if several else cell.place)
    for data in results.datasets:
        if data.status == "failed":
            found.setdefault(data.reason or "", []).append(f"{data.variant} data set {data.dataset}")
        for batch in data.failed:
            found.setdefault(batch.reason, []).append(f"{data.variant} batch {batch.batch} of {data.dataset}")
    if not found:
        return []
    cells = f"{len(results.failed)} of {many(len(results.cells), 'cell')} failed" if results.failed else "Failed"
    lines = [Text(f"{cells}:", RED)]
    for reason, places in list(found.items())[:most]:
        named = ", ".join(places[:3]) + (f" and {len(places) - 3} more" if len(places) > 3 else "")
        lines.append(_cut(f"  {named}: {reason}", wrapped * width, RED))
    if len(found) > most:
        lines.append(Text(f"  and {many(len(found) - most, 'more reason')}", RED))
    return [*lines, Text()]


def _heading(results: Results) -> Text:
    state = "" if results.run.is_finished else f" ({results.run.status})"
    what = ", one training step per call" if is_training(results) else ""
    return paragraph(f"{subject(results)}{what}{state}", "bold")


def _lines(results: Results) -> Iterable[tuple[str, str]]:
    """A label and a sentence each."""
    yield "Memory", _range(PEAK, results.cells)
    for accuracy in results.accuracy[:1]:
        of = f" ({accuracy.variant})" if len(results.accuracy) > 1 else ""
        yield "Accuracy", f"WER {wer_text(accuracy)} %{of} on {accuracy.dataset}" if accuracy.wer else ""
    data = dataset_of(results, results.variants[0]) if results.variants else None
    if data is not None and data.rtf is not None:
        yield "Data set", f"{data.dataset}: RTF {DATASET_RTF.text(data.rtf)} over {many(data.batches, 'batch')}"
    if results.run.sides is not None:
        from profiler.report.comparison import sides_headlines

        yield "B to A", " ".join(sides_headlines(results))
    yield "Time", _where_time_goes(results)
    yield "Unstable", _unstable(results)
    yield "No CI", few_calls(results.cells, len(results.variants) > 1)
    skipped = dict.fromkeys(cell.reason for cell in results.cells if cell.status == "skipped" and cell.reason)
    if skipped:
        count = sum(cell.status == "skipped" for cell in results.cells)
        more = f", and {many(len(skipped) - 1, 'more reason')}" if len(skipped) > 1 else ""
        yield "Skipped", f"{many(count, 'cell')}: {next(iter(skipped))}{more}"
    yield "Summary", answer(results)


def _range(metric: Metric, cells: Iterable[CellResult]) -> str:
    known = sorted(value for cell in cells if (value := metric.in_cell(cell)))
    if not known:
        return ""
    low, high = metric.number(known[0]), metric.text(known[-1])
    unit = high.removeprefix(metric.number(known[-1]))
    return f"{metric.title.lower()} {low + unit if low + unit == high else f'{low} to {high}'}"


def _where_time_goes(results: Results) -> str:
    """'encoder 62 %, front end 30 %, rest 8 % (10 s x 4)': what is inside counts for itself."""
    first = next(iter(results.variants), None)
    cell = largest([cell for cell in results.cells if cell.variant == first]) or largest(results.cells)
    if cell is None or cell.breakdown is None:
        return ""
    shares: dict[str, float] = {}
    for part in cell.breakdown.labels:
        if part.name != "(whole call)":
            name = part.name.strip("()")
            shares[name] = shares.get(name, 0.0) + part.own_share
    parts = sorted(shares.items(), key=lambda entry: -entry[1])
    named = ", ".join(f"{name} {share:.0%}" for name, share in parts[:MOST_PARTS] if share >= 0.005)
    variant = f"{cell.variant} " if len(results.variants) > 1 else ""
    return f"{named} ({variant}{cell.place})" if named else ""


def _unstable(results: Results) -> str:
    """How many, and what most of them met."""
    measured = [cell for cell in results.cells if cell.verdict is not None]
    unstable = [cell for cell in measured if cell.verdict == "unstable"]
    if not unstable:
        return "none: every 95 % CI is as narrow as wanted" if measured else ""
    met = messages.worst([cell.disturbances for cell in unstable])
    said = f"{len(unstable)} of {many(len(measured), 'cell')} (~: their 95 % CI is wide)"
    if not met:
        return said
    kind, (_, value) = max(met.items(), key=lambda entry: entry[1][0])
    return f"{said}: {messages.disturbance(kind, value).rstrip('.')}"


def _labelled(lines: Sequence[tuple[str, str]], width: int, wrapped: int) -> RenderableType:
    """A label and a wrapped sentence each."""
    grid = RichTable.grid(Column(width=LABEL, style="dim", no_wrap=True), Column())
    for label, text in lines:
        if text:
            last = label == "Summary"
            grid.add_row(label, _cut(text, (wrapped + last) * (width - LABEL), "bold" if last else ""))
    return grid


def _cut(text: str, most: int, style: str = "") -> Text:
    shown = paragraph(" ".join(text.split()) if not text.startswith(" ") else text.replace("\n", " "), style)
    shown.truncate(max(20, most - 8), overflow="ellipsis")  # lines end where words do: some columns stay empty
    return shown


def _paths(results: Results, folder: Path, where: str) -> list[RenderableType]:
    """Not wrapped: a path is copied as a whole."""
    lines = [("Report", str(folder / "report.html")), ("Tables", FULL.format(results.run.id) + where)]
    if any(cell.trace for cell in results.cells):
        lines.append(("Traces", f"python profile.py tensorboard{where}"))
    return [Text(no_wrap=True).append(f"{label:<{LABEL}}", "dim").append(text) for label, text in lines]


# -- the grid


@dataclass(frozen=True)
class _Grid:
    """Texts of cells; what does not fit is left out, between the first and the last."""

    corner: str
    columns: list[str]
    rows: list[tuple[str, list[Text]]]

    def width(self) -> int:
        names = max(len(name) for name in (self.corner, *(name for name, _ in self.rows)))
        columns = [
            max(len(head), *(_width(texts[column]) for _, texts in self.rows))
            for column, head in enumerate(self.columns)
        ]
        return names + sum(columns) + BETWEEN * len(columns)

    def height(self) -> int:
        return sum(max((text.plain.count("\n") + 1 for text in texts), default=1) for _, texts in self.rows)


def _width(text: Text) -> int:
    return max(len(line) for line in text.plain.split("\n"))


def _grid(results: Results, width: int, lines: int) -> list[RenderableType]:
    """Title, head, line and rows in so many lines, with an empty line around them."""
    if not results.cells:
        return [Text()]
    several = len(results.variants) > 1
    room = max(lines - 6, 1)  # title, head, line, note, two empty lines
    forms = (_in_line, _in_two) if several else (_in_line, _in_two, _rtf_alone)
    grids = [(_by_variant if several else _by_place)(results, form) for form in forms]
    chosen = next((grid for grid in grids if grid.width() <= width and grid.height() <= room), None)
    grid, left_out = (chosen, []) if chosen else _shortened(grids[0 if several else -1], width, room)
    title = "RTF" if not several and chosen in (None, grids[-1]) else "RTF and latency of one call"
    if several:
        title += f"; time: latency relative to {_baselines(results)}"
    note = [Text(f"Not shown: {' and '.join(left_out)}.", "dim")] if left_out else []
    return [Text(), _cut(title, width, "bold"), _drawn(grid), *note, Text()]


def _baselines(results: Results) -> str:
    baselines = {results.baseline(variant) for variant in results.variants[1:]}
    return baselines.pop() if len(baselines) == 1 else "the baseline"


CellColumn = Sequence[CellResult | None]  # of cells below one another
Form = Callable[[CellColumn], list[Text]]


def _in_line(cells: CellColumn) -> list[Text]:
    """'0.107   107 ms ~12%', figures below figures."""
    texts = [(_number(cell), *_latency(cell)) for cell in cells if cell]
    widths = [max((len(text[part]) for text in texts), default=0) for part in range(3)]
    return [_joined(cell, "  ", *widths) for cell in cells]


def _in_two(cells: CellColumn) -> list[Text]:
    return [_joined(cell, "\n") for cell in cells]


def _rtf_alone(cells: CellColumn) -> list[Text]:
    return [_rtf(cell) for cell in cells]


def _joined(cell: CellResult | None, between: str, number: int = 0, latency: int = 0, mark: int = 0) -> Text:
    """With the widths of what stands in the column; without them the text goes to the right as a whole."""
    if cell is None or RTF.in_cell(cell) is None:
        return _rtf(cell)
    took, unstable = _latency(cell)
    text = Text(f"{_number(cell):>{number}}", _speed(cell), justify="left" if number else "right")
    return text.append(f"{between}{took:>{latency}}", "default").append(f"{unstable:<{mark}}", "yellow")


def _number(cell: CellResult) -> str:
    return RTF.number(RTF.in_cell(cell), RTF.half_width(cell), absent="")


def _latency(cell: CellResult) -> tuple[str, str]:
    value, mark = LATENCY.in_cell(cell), unstable_mark(cell)
    return ("", "") if value is None else (LATENCY.text(value, LATENCY.half_width(cell)), f" {mark}" if mark else "")


def _rtf(cell: CellResult | None) -> Text:
    shown = RTF.cell_number(cell) if cell else ABSENT
    return Text(shown, STYLES.get(shown) or (_speed(cell) if cell else ""))


def _speed(cell: CellResult) -> str:
    return "yellow" if (cell.rtf or 0.0) >= 1 else "green"


def _by_place(results: Results, form: Form) -> _Grid:
    """Rows are seconds, columns are batch sizes."""
    by_place = {(cell.seconds, cell.batch_size): cell for cell in results.cells}
    batches, lengths = (sorted({place[side] for place in results.places}) for side in (1, 0))
    columns = [form([by_place.get((seconds, int(batch))) for seconds in lengths]) for batch in batches]
    rows = [(f"{seconds:g} s", list(texts)) for seconds, *texts in zip(lengths, *columns, strict=True)]
    return _Grid("audio \\ batch", [f"{batch:g}" for batch in batches], rows)


def _by_variant(results: Results, form: Form) -> _Grid:
    """One row per variant: its time relative to its baseline, its memory, its cells."""
    by_key = {cell.key: cell for cell in results.cells}
    variants, places = results.variants, results.places
    same = len({results.baseline(variant) for variant in variants[1:]}) == 1
    columns = [form([by_key.get((variant, *place)) for variant in variants]) for place in places]
    rows = []
    for variant, *texts in zip(variants, *columns, strict=True):
        known = [value for place in places if (value := PEAK.in_cell(by_key.get((variant, *place))))]
        memory = Text(PEAK.text(max(known)) if known else ABSENT)
        rows.append((variant, [Text(_ratio(results, variant, same)), memory, *texts]))
    return _Grid("variant", ["time", "memory", *(place_text(*place) for place in places)], rows)


def _ratio(results: Results, variant: str, same: bool) -> str:
    """'x0.54', or 'x0.54 of conformer' where variants have several baselines."""
    baseline = results.baseline(variant)
    if baseline == variant:
        return "baseline"
    found = ratios(results, variant, LATENCY)
    if not found:
        return ABSENT
    return f"x{significant(geometric_mean(found), 2)}" + ("" if same else f" of {baseline}")


def _shortened(grid: _Grid, width: int, room: int) -> tuple[_Grid, list[str]]:
    """Without the columns, then the rows, in the middle: the first ones and the last stay."""
    left_out = []
    columns, rows = list(grid.columns), list(grid.rows)
    dropped = 0
    while len(columns) > 2 and _Grid(grid.corner, columns, rows).width() > width:
        place = len(columns) - 2
        columns = columns[:place] + columns[place + 1 :]
        rows = [(name, texts[:place] + texts[place + 1 :]) for name, texts in rows]
        dropped += 1
    if dropped:
        left_out.append(many(dropped, "column"))
    if len(rows) > room:
        kept = max(room - 1, 1)
        left_out.append(many(len(rows) - kept - 1, "row"))
        rows = [*rows[:kept], rows[-1]]
    return _Grid(grid.corner, columns, rows), left_out


def _drawn(grid: _Grid) -> RenderableType:
    drawn = RichTable(box=SIMPLE_HEAD, padding=(0, 1), pad_edge=False, show_edge=False, header_style="")
    drawn.add_column(grid.corner, overflow="ellipsis", no_wrap=True)
    for head in grid.columns:
        drawn.add_column(head, justify="right", overflow="ellipsis", no_wrap=True)
    for name, texts in grid.rows:
        drawn.add_row(Text(name), *texts)
    return drawn
