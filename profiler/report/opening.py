"""What report.html opens with: key figures, the grid of RTF, what failed; of several variants, a matrix of their
figures relative to the baseline, and where the time of each goes, part by part."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import quote

from profiler.metrics import DATASET_RTF, LATENCY, METRICS, PARAMETERS, PEAK, RTF, RTFX, SIZE, WER
from profiler.report.breakdown import largest
from profiler.report.dataset import rate_text
from profiler.report.summary import counts
from profiler.report.variants import baselines_text, mean_ratio, ratio_text
from profiler.results.metric import UNSTABLE_MARK, Metric
from profiler.results.types import CellResult, Part, Results, ServingResult
from profiler.units import many, place_text

WHOLE = "(whole call)"
COMPARED = (LATENCY, PEAK, SIZE, METRICS["energy"], WER)
ON_CARD = (RTF, RTFX, LATENCY, PEAK, METRICS["device"], METRICS["energy"])


@dataclass(frozen=True)
class Tile:
    """A key figure."""

    name: str
    value: str
    about: str = ""
    kind: str = ""  # failed, unstable
    link: str = ""


@dataclass(frozen=True)
class Entry:
    """What stands in a place of a grid."""

    text: str
    below: str = ""
    tip: str = ""
    kind: str = ""
    mark: str = ""  # ~12%, which leads to the reasons
    card: str = ""  # id of the card with all that is known of the cell


@dataclass(frozen=True)
class Grid:
    """A table whose places know more than their text."""

    title: str
    header: list[str]
    rows: list[tuple[str, list[Entry]]]
    remarks: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Card:
    """All that is known of one cell."""

    id: str
    title: str
    lines: list[str]
    reasons: list[str]
    trace: str = ""  # relative to the page
    trace_reason: str = ""
    address: str = ""  # in TensorBoard


def tiles(results: Results) -> list[Tile]:
    """Of the first variant, where there are several."""
    measured = [cell for cell in results.cells if cell.rtf is not None]
    first = [cell for cell in measured if cell.variant == measured[0].variant]
    several = len(results.variants) > 1
    whose = f"{first[0].variant}, " if several and first else ""
    found = [
        Tile(
            f"Load that keeps p{one.percentile} < {one.limit_s:g} s", " or ".join(_carried(one)) or "none", one.variant
        )
        for one in results.serving
        if results.run.sides is None
    ]
    if first:
        smallest = min(first, key=lambda cell: (cell.batch_size, cell.seconds))
        found += [
            Tile(RTF.short, _range(RTF, first), f"{whose}{RTFX.short} {_range(RTFX, first)}"),
            Tile(LATENCY.title, LATENCY.cell_text(smallest), f"{whose}{smallest.place}"),
        ]
        if any(PEAK.in_cell(cell) for cell in first):
            found.append(Tile(PEAK.title, _range(PEAK, first), f"{whose}{many(len(first), 'cell')}".rstrip(", ")))
    if several:
        found += _fastest(results)
    for record in results.accuracy[:1]:
        if record.wer:
            found.append(Tile(WER.title, f"{rate_text(record.wer)} %", f"{record.variant}, {record.dataset}"))
    found += [
        Tile(DATASET_RTF.title, DATASET_RTF.text(entry.rtf), f"{entry.variant}, {entry.dataset}")
        for entry in results.datasets[:1]
        if entry.rtf is not None
    ]
    model = next((model for model in results.models if model.parameters.total is not None), None)
    if model is not None:
        about = SIZE.text(model.size_bytes.total, absent="")
        found.append(Tile(PARAMETERS.title, PARAMETERS.text(model.parameters.total), about))
    return found + _cells_tile(results)


def _carried(result: ServingResult) -> list[str]:
    streams = [many(result.streams, "stream")] if result.streams else []
    return streams + ([f"{result.requests_per_second:.3g} requests/s"] if result.requests_per_second else [])


def _range(metric: Metric, cells: list[CellResult]) -> str:
    """'0.0083 to 0.0123', each as its cell shows it; the unit once."""
    known = [cell for cell in cells if metric.in_cell(cell) is not None]
    low, high = (choose(known, key=metric.in_cell) for choose in (min, max))
    one, two = (metric.number(metric.in_cell(cell), metric.half_width(cell)) for cell in (low, high))
    return f"{one if one == two else f'{one} to {two}'} {metric.shown.name}".strip()


def _fastest(results: Results) -> list[Tile]:
    """Of the variants with one baseline, by the latency over all cells that they share with it."""
    bases = {results.baseline(name) for name in results.variants}
    if len(bases) > 1:
        return []
    (base,) = bases
    means = {name: mean for name in results.variants if name != base and (mean := mean_ratio(results, name, LATENCY))}
    best = min(means, key=lambda name: means[name].value, default=None)
    if best is None or means[best].value >= 1:
        return [Tile("Fastest variant", base)] if means else []
    return [Tile("Fastest variant", best, f"{LATENCY.short} {ratio_text(means[best].value)} of {base}")]


def _cells_tile(results: Results) -> list[Tile]:
    counted = counts(results)
    if not counted:
        return []
    kind = "failed" if counted.get("failed") else "unstable" if counted.get("unstable") else "stable"
    link = {"failed": "#failures", "unstable": "#unstable"}.get(kind, "")
    return [Tile("Cells", str(len(results.cells)), ", ".join(f"{n} {what}" for what, n in counted.items()), kind, link)]


def answer(results: Results) -> Grid | None:
    """RTF of every cell: seconds by batch sizes; of several variants, variants by cells."""
    if not results.cells:
        return None
    ids = {cell.key: f"cell-{number}" for number, cell in enumerate(results.cells)}
    cells = {cell.key: cell for cell in results.cells}
    lengths, batches = sorted({cell.seconds for cell in results.cells}), sorted({c.batch_size for c in results.cells})

    variants = results.variants

    def entry(key: tuple[str, float, int]) -> Entry:
        base = results.baseline(key[0])
        return _entry(cells.get(key), ids.get(key, ""), cells.get((base, *key[1:])) if key[0] != base else None)

    if len(variants) == 1:
        rows = [(f"{x:g} s", [entry((variants[0], x, batch)) for batch in batches]) for x in lengths]
        return Grid(RTF.heading, ["audio \\ batch", *map(str, batches)], rows)
    places = sorted({cell.key[1:] for cell in results.cells})
    rows = [(name, [entry((name, *place)) for place in places]) for name in variants]
    header = ["variant \\ audio x batch", *(place_text(*place) for place in places)]
    return Grid(RTF.heading, header, rows, [f"Below: how many times the figure of {baselines_text(results)}."])


def _entry(cell: CellResult | None, card: str, first: CellResult | None) -> Entry:
    if cell is None:
        return Entry("-", kind="skipped")
    text, _, mark = RTF.cell_number(cell).partition(f" {UNSTABLE_MARK}")
    kind = cell.status if cell.status != "ok" else "unstable" if cell.verdict == "unstable" else ""
    tip = f"{cell.place}: {RTF.cell_tip(cell) if cell.rtf is not None else cell.reason or cell.status}"
    ratio = ratio_text(cell.rtf / first.rtf) if cell.rtf and first and first.rtf else ""
    return Entry(text, ratio, tip, kind, f"{UNSTABLE_MARK}{mark}" if kind == "unstable" else "", card)


def cards(results: Results) -> list[Card]:
    """One per cell, in the order of the cells."""
    several = len(results.variants) > 1
    return [
        Card(
            f"cell-{number}",
            f"{cell.variant}, {cell.place}" if several else cell.place,
            [metric.cell_tip(cell) for metric in ON_CARD if metric.in_cell(cell) is not None],
            cell.verdict_reasons if cell.status == "ok" else [f"{cell.status}: {cell.reason or 'no reason given'}"],
            quote(cell.trace) if cell.trace else "",
            cell.trace_reason or "",
            f"#speech_profile&p.speech_profile.run={quote(results.run.id)}"
            f"&p.speech_profile.variant={quote(cell.variant)}&p.speech_profile.cell={quote(cell.label)}",
        )
        for number, cell in enumerate(results.cells)
    ]


def failures(results: Results) -> list[tuple[str, str]]:
    """Which cells failed, and why; each reason once."""
    several = len(results.variants) > 1
    by_reason: dict[str, list[str]] = {}
    for cell in results.cells:
        if cell.status == "failed":
            name = f"{cell.variant} {cell.place}" if several else cell.place
            by_reason.setdefault(cell.reason or "no reason given", []).append(name)
    for load in results.serving:
        if load.status == "failed":
            by_reason.setdefault(load.reason or "no reason given", []).append(f"{load.variant} under load")
    return [(", ".join(names), reason) for reason, names in by_reason.items()]


def matrix(results: Results) -> Grid | None:
    """Variants by metrics: how many times the figure of the baseline, and the figures themselves."""
    if len(results.variants) < 2:
        return None
    shown = [metric for metric in COMPARED if any(_figures(results, name, metric) for name in results.variants)]
    rows = [(name, [_compared(results, name, metric) for metric in shown]) for name in results.variants]
    remark = (
        f"x0.5: half of the figure of {baselines_text(results)}, as geometric mean over the cells that both have. "
        "Below: the lowest and the highest figure."
    )
    return Grid("Variants", ["variant", *(metric.head for metric in shown)], rows, [remark])


def _figures(results: Results, variant: str, metric: Metric) -> list[float]:
    if metric.of_variant:
        values = [metric.of_variant(results, variant)]
    else:
        values = [metric.in_cell(cell) for cell in results.cells if cell.variant == variant]
    return sorted(value for value in values if isinstance(value, (int, float)))


def _compared(results: Results, variant: str, metric: Metric) -> Entry:
    figures = _figures(results, variant, metric)
    if not figures:
        return Entry("n/a", kind="skipped")
    low, high = metric.number(figures[0]), metric.number(figures[-1])
    span = low if low == high else f"{low} to {high}"
    mean = mean_ratio(results, variant, metric)
    if metric is WER or mean is None:
        return Entry(span)
    text = "x1" if variant == results.baseline(variant) else ratio_text(mean.value)
    return Entry(text, span, mean.tip, "unstable" if mean.unstable else "")


def parts(results: Results) -> Grid | None:
    """Self time by label, one row per variant, of the largest cell of each; None with one variant or no breakdown."""
    found = {name: largest([cell for cell in results.cells if cell.variant == name]) for name in results.variants}
    rows = {name: _labels(cell) for name, cell in found.items() if cell is not None}
    if len(rows) < 2:
        return None
    names = list(dict.fromkeys(label for row in rows.values() for label in row))
    places = ", ".join(dict.fromkeys(cell.place for cell in found.values() if cell is not None))
    first = next(iter(rows.values()))
    entries = [
        (variant, [_part(variant, name, row.get(name), first.get(name)) for name in names])
        for variant, row in rows.items()
    ]
    title = f"Where the time goes, part by part: self time, {LATENCY.shown.name} per call"
    return Grid(title, ["variant", *names], entries, [f"Of {places}; below: share of the call."])


def _labels(cell: CellResult) -> dict[str, Part]:
    labels = cell.breakdown.labels if cell.breakdown else []
    return {
        part.name if part.phase == "forward" else f"{part.name}, {part.phase}": part
        for part in labels
        if part.name != WHOLE
    }


def _part(variant: str, name: str, part: Part | None, first: Part | None) -> Entry:
    if part is None:
        return Entry("-", kind="skipped")
    tip = f"{variant}, {name}: {LATENCY.text(part.own_s)}, {part.own_share:.1%} of the call"
    if first is not None and first is not part and first.own_s:
        tip += f", {ratio_text(part.own_s / first.own_s)} of the first variant's"
    return Entry(LATENCY.number(part.own_s), f"{part.own_share:.1%}", tip)
