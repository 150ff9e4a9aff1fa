"""Several variants in one set of tables: a column each, with the ratio to the first; and what each one changed."""

from __future__ import annotations

from collections.abc import Callable

from profiler.report import figures
from profiler.report.table import Table, turned
from profiler.results.types import CellResult, Model, OutputDifference, Results
from profiler.units import KB, MB, bytes_text, place_text, significant

MOST_COLUMNS = 4

Text = Callable[[CellResult], str]
Value = Callable[[CellResult], float | None]


def side_by_side(title: str, results: Results, text: Text, value: Value) -> Table:
    """Rows are cells, columns are variants; the other way round where those are many.

    `x0.46`: 0.46 times the figure of the first variant.
    """
    variants = results.variants
    by_key = {cell.key: cell for cell in results.cells}
    places = dict.fromkeys((cell.seconds, cell.batch_size) for cell in results.cells)
    rows = []
    for seconds, batch in sorted(places):
        first = by_key.get((variants[0], seconds, batch))
        row = [place_text(seconds, batch)]
        for variant in variants:
            cell = by_key.get((variant, seconds, batch))
            shown = text(cell) if cell else "not yet"
            row.append(shown + (_ratio(first, cell, value) if cell and variant != variants[0] else ""))
        rows.append(row)
    table = Table(title, ["audio x batch", *variants], rows)
    return turned(table, "variant") if len(variants) > MOST_COLUMNS else table


def _ratio(first: CellResult | None, cell: CellResult, value: Value) -> str:
    base, here = value(first) if first else None, value(cell)
    return f" (x{significant(here / base, 2)})" if base and here is not None else ""


def ratios(results: Results, variant: str, value: Value) -> list[float]:
    """Of each cell that both the variant and the first one have a figure for."""
    found = []
    for cell in results.cells:
        if cell.variant == variant:
            first = results.cell(results.variants[0], cell.seconds, cell.batch_size)
            before, after = value(first) if first else None, value(cell)
            if before and after:
                found.append(after / before)
    return found


def changes_table(title: str, results: Results) -> Table | None:
    """What each variant converted, and how far its output is from that of the float model on the same speech."""
    changed = [model for model in results.models if model.conversion]
    if not changed:
        return None
    header = ["variant", "change", "layers", "parameters", "size", "largest difference", "mean difference", "engine"]
    table = Table(title, header, [_change_row(model) for model in changed])
    table.remarks.append(
        "Layers and parameters: what was converted. Size: the saved state, before and after. Differences are of the "
        "output on the same speech, relative to its mean size in brackets: of the final output, or of the last part "
        "that gives numbers where the final output is text."
    )
    for model in changed:
        table.remarks += [f"- {model.variant}: {note}" for note in (model.conversion.notes if model.conversion else [])]
    return table


def _change_row(model: Model) -> list[str]:
    conversion = model.conversion
    assert conversion is not None
    difference = conversion.difference or OutputDifference()
    before, after = conversion.bytes_before.total or 0, conversion.bytes_after.total or 0
    converted, relative = conversion.layers_converted, difference.relative
    mean = _number(difference.mean) + (f" ({relative:.2%})" if relative is not None else "")
    return [
        model.variant,
        conversion.kind,
        "" if converted is None else f"{converted} of {conversion.layers_total}",
        "" if conversion.share_of_parameters is None else f"{conversion.share_of_parameters:.1%}",
        f"{bytes_text(before)} to {bytes_text(after)}" if after != before else "unchanged",
        _number(difference.max),
        mean,
        conversion.engine or "",
    ]


def _number(value: float | None) -> str:
    return "n/a" if value is None else significant(value, 2) if value else "0"


def size_table(title: str, models: list[Model]) -> Table | None:
    """Bytes of the saved state by component, in KB and MB (1 KB = 1000 bytes), a column each variant."""
    sized = [model for model in models if model.size_bytes.total]
    if not sized:
        return None
    names = dict.fromkeys(name for model in sized for name in model.size_bytes.components)
    rows = [[name, *(_size(model.size_bytes.components.get(name)) for model in sized)] for name in names]
    rows.append(["total", *(_size(model.size_bytes.total) for model in sized)])
    table = Table(title, ["component", *(model.variant for model in sized)], rows)
    return turned(table, "variant") if len(sized) > MOST_COLUMNS else table


def _size(count: int | None) -> str:
    if count is None:
        return ""
    digits = 2 if count < 10 * MB else 1
    return f"{count / KB:,.0f} KB ({count / MB:,.{digits}f} MB)"


def rtf_value(cell: CellResult) -> float | None:
    return cell.rtf


def latency_value(cell: CellResult) -> float | None:
    return cell.latency_s.median if cell.latency_s else None


def process_value(cell: CellResult) -> float | None:
    return cell.peak_memory_bytes.process if cell.peak_memory_bytes else None


def tensors_value(cell: CellResult) -> float | None:
    return cell.peak_memory_bytes.tensors if cell.peak_memory_bytes else None


# What is shown side by side, in reading order: title, text of a cell, the number behind it.
GRIDS: tuple[tuple[str, Text, Value], ...] = (
    ("Real-time factor (below 1 is faster than real time)", figures.rtf_text, rtf_value),
    ("Latency of one call, in ms", figures.latency_text, latency_value),
    ("Peak memory of the process", figures.memory_text, process_value),
    ("Peak memory of the call's tensors", figures.tensors_text, tensors_value),
)
