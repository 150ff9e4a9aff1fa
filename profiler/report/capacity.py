"""How much fits: the longest audio and the largest batch for a memory size, from the fit of peak memory."""

from __future__ import annotations

from profiler.measure.fit import SurfaceFit, fit_surface
from profiler.metrics import PEAK
from profiler.report.table import Table
from profiler.results.types import CellResult, Results
from profiler.units import bytes_text, parse_bytes, significant

BEYOND = 4  # times the largest measured length or batch: farther than this a fit gives an order of magnitude
FAR = " *"


def capacity_table(title: str, results: Results, cells: list[CellResult], asked: str | int | None) -> Table | None:
    """One row per question, one column per memory size; None with too few cells to fit."""
    measured = [cell for cell in cells if PEAK.in_cell(cell)]
    points = [(cell.seconds, cell.batch_size, float(PEAK.in_cell(cell))) for cell in measured]
    fit = fit_surface(points)
    if fit is None:
        return None
    sizes = _sizes(results, asked)
    if not sizes:
        return None
    lengths = sorted({cell.seconds for cell in measured})
    batches = sorted({cell.batch_size for cell in measured})
    rows = [
        [f"longest audio, batch {batch}", *(_longest(fit, size, batch, lengths[-1]) for _, size in sizes)]
        for batch in batches
    ]
    rows += [
        [f"largest batch, {length:g} s", *(_largest(fit, size, length, batches[-1]) for _, size in sizes)]
        for length in lengths
    ]
    remark = (
        f"From a fit over {len(points)} cells: {PEAK.text(fit.fixed)} at rest, then for each row of a batch "
        f"{PEAK.text(fit.per_row)} and {PEAK.text(fit.per_second)} per second"
        + (f" and {PEAK.text(fit.per_second_squared)} per second squared" if fit.per_second_squared else "")
        + "."
    )
    beyond = f"{FAR.strip()}: more than {BEYOND} times what was measured, so an order of magnitude only."
    far = any(cell.endswith(FAR) for row in rows for cell in row)
    return Table(title, ["", *(name for name, _ in sizes)], rows, [remark, *([beyond] if far else [])])


def _sizes(results: Results, asked: str | int | None) -> list[tuple[str, float]]:
    environment = results.environment
    machine = environment.memory_limit_bytes or environment.memory_bytes
    sizes = [(f"this machine, {bytes_text(machine)}", float(machine))] if machine else []
    if asked is not None:
        size = parse_bytes(asked)
        sizes.append((bytes_text(size), float(size)))
    return sizes


def _longest(fit: SurfaceFit, size: float, batch: int, measured: float) -> str:
    value = fit.longest(size, batch)
    if value is None:
        return "no limit seen"
    far = FAR if value > BEYOND * measured else ""
    return f"{significant(value, 2)} s{far}" if value > 0 else "does not fit"


def _largest(fit: SurfaceFit, size: float, length: float, measured: int) -> str:
    value = fit.largest_batch(size, length)
    if value is None:
        return "no limit seen"
    far = FAR if value > BEYOND * measured else ""
    return f"{value}{far}" if value > 0 else "does not fit"
