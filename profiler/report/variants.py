"""Models and variants in tables: parameters by component; one column per variant, with its ratio to its baseline; and
what each one changed."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import geometric_mean

from profiler.metrics import EXPORT, EXPORT_PEAK, FILE, LOAD, PARAMETERS, SIZE
from profiler.report.table import ABSENT, Table, transposed
from profiler.results.metric import Metric
from profiler.results.types import CellResult, ModelResult, OutputDifference, Parameters, Results, RuntimeUse, Size
from profiler.units import KB, many, place_text, significant

MOST_COLUMNS = 4
SHOWN_SHARED = 8


def side_by_side(title: str, results: Results, metric: Metric) -> Table:
    """Rows are cells, columns are variants; the other way round where those are many.

    `x0.46`: 0.46 times the figure of its baseline.
    """
    variants = results.variants
    by_key = {cell.key: cell for cell in results.cells}
    rows = []
    for seconds, batch in results.places:
        row = [place_text(seconds, batch)]
        for variant in variants:
            cell, base = by_key.get((variant, seconds, batch)), results.baseline(variant)
            before = metric.value(results, base, by_key.get((base, seconds, batch)))
            shown = metric.cell_number(cell) if cell else ABSENT
            row.append(shown + (_ratio(before, metric.value(results, variant, cell)) if variant != base else ""))
        rows.append(row)
    table = Table(title, ["audio x batch", *variants], rows)
    return transposed(table, "variant") if len(variants) > MOST_COLUMNS else table


def baselines_text(results: Results) -> str:
    """'float32', or 'a (b, c); d (e)' where variants have several."""
    groups: dict[str, list[str]] = {}
    for variant in results.variants:
        if (base := results.baseline(variant)) != variant:
            groups.setdefault(base, []).append(variant)
    named = [f"{base} ({', '.join(names)})" for base, names in groups.items()]
    return next(iter(groups), "") if len(groups) == 1 else "; ".join(named)


def _ratio(first: float | None, here: float | None) -> str:
    return f" ({ratio_text(here / first)})" if first and here is not None else ""


def ratios(results: Results, variant: str, metric: Metric) -> list[float]:
    """Of each cell that both the variant and its baseline were timed in and have the figure for."""
    return [ratio.value for ratio in cell_ratios(results, variant, metric)]


@dataclass(frozen=True)
class Ratio:
    """A figure over that of the baseline, with the 95 % CI that follows from those of both."""

    value: float
    half: float = 0.0  # of the logarithm's CI; 0 where a figure has none
    unstable: bool = False
    tip: str = ""

    @property
    def ends(self) -> tuple[float, float]:
        return self.value / math.exp(self.half), self.value * math.exp(self.half)


def cell_ratios(results: Results, variant: str, metric: Metric) -> list[Ratio]:
    found, base = [], results.baseline(variant)
    firsts = {cell.key[1:]: cell for cell in results.cells if cell.variant == base}
    for cell in results.cells:
        first = firsts.get(cell.key[1:])
        if cell.variant == variant and cell.latency_s and first and first.latency_s:
            before, after = metric.value(results, first.variant, first), metric.value(results, variant, cell)
            if before and after and before * after > 0:
                found.append(_cell_ratio(metric, (first, before), (cell, after)))
    return found


def _cell_ratio(metric: Metric, first: tuple[CellResult, float], second: tuple[CellResult, float]) -> Ratio:
    ends = [metric.ci95(cell) if metric.ci95 else None for cell, _ in (first, second)]
    halves = [math.log(high / low) / 2 for low, high in filter(None, ends) if 0 < low <= high]
    value = second[1] / first[1]
    texts = " over ".join(metric.text(figure) for _, figure in (second, first))
    tip = f"{second[0].variant}, {second[0].place}: {metric.short} {ratio_text(value)} ({texts})"
    unstable = any(cell.verdict == "unstable" for cell, _ in (first, second)) and metric.ci95 is not None
    return Ratio(value, math.hypot(*halves), unstable, tip)


def mean_ratio(results: Results, variant: str, metric: Metric) -> Ratio | None:
    """The geometric mean over cells; None where no cell has both figures."""
    found = cell_ratios(results, variant, metric)
    if not found:
        return None
    value = geometric_mean(ratio.value for ratio in found)
    half = math.hypot(*(ratio.half for ratio in found)) / len(found)
    mean = Ratio(value, half, any(ratio.unstable for ratio in found))
    text = f"{variant}: {metric.short} {ratio_text(value)}"
    if half:
        text += ", 95 % CI {} to {}".format(*(ratio_text(end) for end in mean.ends))
    return replace(mean, tip=f"{text}, over {many(len(found), 'cell')}")


def ratio_text(ratio: float) -> str:
    """0.456 -> 'x0.46'."""
    return f"x{significant(ratio, 2)}"


def changes_table(title: str, results: Results) -> Table | None:
    """What each variant converted, and how far its output is from that of the float model on the same speech."""
    changed = [model for model in results.models if model.conversion]
    if not changed:
        return None
    header = [
        "variant",
        "change",
        "layers",
        PARAMETERS.short,
        SIZE.head,
        "largest difference",
        "mean difference",
        "tokens that agree",
        "engine",
    ]
    table = Table(title, header, [_change_row(model) for model in changed])
    table.remarks.append(
        "Layers and parameters: what was converted. Size: the saved state, before and after. Differences are of the "
        "output on the same speech, relative to its mean size in brackets: of the final output, or of the last part "
        "that gives numbers where the final output is text. Tokens: of those texts, letters where a model gives no "
        "token ids."
    )
    for model in changed:
        table.remarks += [f"- {model.variant}: {note}" for note in (model.conversion.notes if model.conversion else [])]
    return table


def _change_row(model: ModelResult) -> list[str]:
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
        f"{SIZE.number(before)} to {SIZE.number(after)}" if after != before else "unchanged",
        _number(difference.max),
        mean,
        "" if difference.tokens_agree is None else f"{difference.tokens_agree:.1%}",
        conversion.engine or "",
    ]


def engines_table(title: str, results: Results) -> Table | None:
    """What runs where, as the engine itself says that it does; and what the export took."""
    found = [(model.variant, conversion.runtime) for model in results.models if (conversion := model.conversion)]
    used = [(variant, use) for variant, use in found if use is not None]
    if not used:
        return None
    header = ["variant", "engine", "runs", "threads", "precision", "waiting threads"]
    header += [EXPORT.head, EXPORT_PEAK.head, FILE.head, LOAD.head]
    table = Table(title, header, [_engine_row(variant, use) for variant, use in used])
    table.remarks.append(
        "Runs: the modules that the engine runs; all else of a call runs in torch. Threads and precision: read back "
        "from the engine, n/a where it does not tell. Waiting threads: whether they sleep, and how many CPUs they kept "
        "busy in the 20 ms after a call. Peak: of the process that exported. Loading is in no timed call."
    )
    if any(use.cached for _, use in used):
        table.remarks.append("(cached): exported by an earlier run; time and memory are of then.")
    return table


def _engine_row(variant: str, use: RuntimeUse) -> list[str]:
    waiting = "n/a" if use.spinning is None else "spin" if use.spinning else "sleep"
    waiting += f" ({use.waiting_cpus:.1f} CPUs)" if use.waiting_cpus is not None else ""
    row = [variant, f"{use.engine} {use.version}", ", ".join(use.parts), str(use.threads or "n/a")]
    row += [use.precision or "n/a", waiting, EXPORT.number(use.export_s) + (" (cached)" if use.cached else "")]
    return [*row, EXPORT_PEAK.number(use.export_peak_bytes), FILE.number(use.file_bytes), LOAD.number(use.load_s)]


def _number(value: float | None) -> str:
    return "n/a" if value is None else significant(value, 2) if value else "0"


def size_table(title: str, models: list[ModelResult]) -> Table | None:
    """Bytes of the saved state by component, in KB (1 KB = 1000 bytes) and MB, one column per variant."""
    sized = [model for model in models if model.size_bytes.total]
    if not sized:
        return None
    names = dict.fromkeys(name for model in sized for name in model.size_bytes.components)
    rows = [[name, *(_size(model.size_bytes.components.get(name)) for model in sized)] for name in names]
    rows.append(["total", *(_size(model.size_bytes.total) for model in sized)])
    table = Table(title, ["component", *(model.variant for model in sized)], rows)
    return transposed(table, "variant") if len(sized) > MOST_COLUMNS else table


def _size(count: int | None) -> str:
    if count is None:
        return ""
    return f"{count / KB:,.0f} KB ({SIZE.text(count)})"


def parameter_table(title: str, parameters: Parameters, size: Size) -> Table:
    """One row per component, then the total; below, what is shared and so counted once."""
    total, details = parameters.total or 0, parameters.details
    names = list(dict.fromkeys([*parameters.components, *details]))
    rows = []
    for name in names:
        count, inner = parameters.components.get(name, 0), details.get(name)
        row = [name, PARAMETERS.number(count), f"{count / total:.1%}" if total else ""]
        row += [_count(inner.trainable if inner else None), _count(inner.buffers if inner else None)]
        rows.append([*row, SIZE.number(size.components.get(name) or None, absent="")])
    whole = ["total", PARAMETERS.number(total), "100%" if total else ""]
    whole += [_count(parameters.trainable), _count(parameters.buffers), SIZE.number(size.total or None, absent="")]
    rows.append(whole)
    table = Table(title, ["component", PARAMETERS.head, "share", "trainable", "buffers", SIZE.head], rows)
    shared = parameters.shared
    if shared:
        table.remarks.append("Shared, and counted once:")
        table.remarks += [f"- {' = '.join(group)}" for group in shared[:SHOWN_SHARED]]
        if len(shared) > SHOWN_SHARED:
            table.remarks.append(f"- and {len(shared) - SHOWN_SHARED} more")
    return table


def _count(value: int | None) -> str:
    return PARAMETERS.number(value, absent="")
