"""Results -> tables: rows are seconds, columns are batch sizes. The same text in the terminal and in Markdown."""

from __future__ import annotations

from collections.abc import Callable

from profiler.measure.fit import fit_durations
from profiler.report import figures
from profiler.report.capacity import capacity_table
from profiler.report.table import Table
from profiler.results import CellResult, Results
from profiler.units import seconds_text, significant

Text = Callable[[CellResult], str]


def build_tables(results: Results, memory: str | int | None = None) -> list[Table]:
    """All tables of a run, in reading order. `memory`: a size to say what fits in it, beside this machine's."""
    tables = []
    memory = memory or results.run.resolved.get("measure", {}).get("memory")
    for variant in results.variants:
        cells = [cell for cell in results.cells if cell.variant == variant]
        name = _name(results, variant)
        tables.append(_grid(f"Real-time factor (below 1 is faster than real time) - {name}", cells, figures.rtf_text))
        tables[-1].remarks = _remarks(cells)
        if any(cell.device_time_s for cell in cells):
            tables.append(_grid(f"Real-time factor, time on the device only - {name}", cells, figures.device_rtf_text))
        tables.append(_grid(f"Latency of one call, in ms - {name}", cells, figures.latency_text))
        tables.append(_grid(f"Peak memory of the process - {name}", cells, figures.memory_text))
        if any(cell.peak_memory_bytes and cell.peak_memory_bytes.tensors is not None for cell in cells):
            tables.append(_grid(f"Peak memory of the call's tensors - {name}", cells, figures.tensors_text))
        if any(cell.peak_memory_bytes and cell.peak_memory_bytes.device is not None for cell in cells):
            tables.append(_grid(f"Peak memory on the device - {name}", cells, figures.device_memory_text))
        line = cost_of_length(f"What a call costs over its length - {name}", cells)
        fits = capacity_table(f"What fits in memory - {name}", results, cells, memory)
        tables += [table for table in (line, fits) if table is not None]
    return tables


def _name(results: Results, variant: str) -> str:
    model = results.model(variant)
    if model is None:
        return variant
    return f"{model.source}, {variant}" + (f", {model.weights} weights" if model.weights else "")


def _grid(title: str, cells: list[CellResult], text: Text) -> Table:
    seconds = sorted({cell.seconds for cell in cells})
    batches = sorted({cell.batch_size for cell in cells})
    by_place = {(cell.seconds, cell.batch_size): cell for cell in cells}
    rows = []
    for length in seconds:
        row = [f"{length:g} s"]
        for batch in batches:
            cell = by_place.get((length, batch))
            row.append(text(cell) if cell else "not yet")
        rows.append(row)
    return Table(title, ["audio \\ batch", *(str(batch) for batch in batches)], rows)


def _remarks(cells: list[CellResult]) -> list[str]:
    remarks = []
    noisy = [cell for cell in cells if cell.verdict == "noisy"]
    if noisy:
        remarks.append(
            f"{figures.NOISY_MARK} marks a figure that is not stable, with how far its 95 % interval, or the median of "
            "a round, lies from it:"
        )
        remarks += _listed(noisy, lambda cell: " ".join(cell.verdict_reasons))
    remarks += _listed(
        [cell for cell in cells if cell.verdict == "stable" and cell.verdict_reasons],
        lambda cell: " ".join(cell.verdict_reasons),
    )
    remarks += _listed([cell for cell in cells if cell.status == "failed"], lambda cell: f"failed: {cell.reason}")
    reasons = dict.fromkeys(cell.reason for cell in cells if cell.status == "skipped")
    for reason in reasons:
        places = [f"{cell.seconds:g} s x {cell.batch_size}" for cell in cells if cell.reason == reason]
        remarks.append(f"- {', '.join(places)}: skipped, {reason}.")
    padding = [cell.input.get("share_of_padding", 0) for cell in cells if cell.input]
    if any(padding):
        remarks.append(f"Padding: {min(padding):.0%} to {max(padding):.0%} of a batch; RTF counts real audio only.")
    return remarks


def _listed(cells: list[CellResult], text: Text) -> list[str]:
    """One line for each distinct remark, with the cells it is about."""
    by_text: dict[str, list[str]] = {}
    for cell in cells:
        by_text.setdefault(text(cell), []).append(f"{cell.seconds:g} s x {cell.batch_size}")
    return [f"- {', '.join(places)}: {remark}" for remark, places in by_text.items()]


def cost_of_length(title: str, cells: list[CellResult]) -> Table | None:
    """For each batch size: fixed cost of a call, cost of each further second, where the quadratic part sets in."""
    rows = []
    for batch in sorted({cell.batch_size for cell in cells}):
        column = [cell for cell in cells if cell.batch_size == batch and cell.latency_s is not None]
        values = [cell.latency_s.median for cell in column if cell.latency_s]
        fit = fit_durations(batch, [cell.seconds for cell in column], values)
        if fit is None:
            continue
        quadratic = "too few lengths" if fit.per_second_squared is None else "not seen"
        if fit.quadratic_from is not None:
            longest = max(cell.seconds for cell in column)
            beyond = " (beyond what was measured)" if fit.quadratic_from > longest else ""
            quadratic = f"from {significant(fit.quadratic_from, 2)} s{beyond}"
        rows.append([str(batch), seconds_text(fit.fixed), seconds_text(fit.per_second), quadratic])
    if not rows:
        return None
    return Table(title, ["batch", "fixed", "each further second", "quadratic part matters"], rows)
