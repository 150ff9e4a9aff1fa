"""A run in a sentence or two: is it real-time, how much memory, how sure. The first thing that a reader sees."""

from __future__ import annotations

from statistics import geometric_mean

from profiler.metrics import LATENCY, PARAMETERS, PEAK, RTF, RTFX
from profiler.report.dataset import rate_text
from profiler.report.serving import is_serving, serving_answer
from profiler.report.variants import ratios
from profiler.results.metric import UNSTABLE_MARK
from profiler.results.types import CellResult, Results
from profiler.units import many, significant

MOST_VARIANTS = 4


def summary(results: Results, named: bool = True) -> str:
    """What a reader should know who reads no further. `named`: with the model and the machine."""
    measured = [cell for cell in results.cells if cell.rtf is not None] or _without_audio(results)
    said = f"{subject(results)}: " if named else ""
    if is_serving(results):
        return f"{said}{serving_answer(results)}"
    if not measured:
        return f"{said or 'There is '}no figure.{_without_figures(results)}".strip()
    first = [cell for cell in measured if cell.variant == measured[0].variant]
    several = len({cell.variant for cell in measured}) > 1
    whose = f"{first[0].variant} is " if several else ""
    parts = [f"{whose}{_real_time(first)}" if first[0].rtf is not None else "", _latency(first), _memory(first)]
    sentences = ["; ".join(part for part in parts if part)]
    if several:
        sentences += _against_baselines(results)
    sentences += _errors(results)
    if not named and not several:
        sentences[0] = sentences[0][0].upper() + sentences[0][1:]
    return f"{said}{'. '.join(sentences)}. {_sure(measured)}{_without_figures(results)}".strip()


def answer(results: Results) -> str:
    """One sentence: real-time or not, the best throughput, the time of one call; over the cells of all variants."""
    if is_serving(results):
        return serving_answer(results)
    measured = [cell for cell in results.cells if cell.rtf is not None]
    if not measured and _without_audio(results):
        return summary(results, named=False)
    if not measured:
        return f"No cell has a figure.{_without_figures(results)}"
    best = min(measured, key=lambda cell: cell.rtf or 0)
    by = f", {best.variant}" if len(results.variants) > 1 else ""
    said = _how_many_fast(measured)
    smallest = min((c for c in measured if c.variant == best.variant), key=lambda c: (c.batch_size, c.seconds))
    throughput, latency = (
        metric.text(metric.in_cell(cell), metric.half_width(cell))
        for metric, cell in ((RTFX, best), (LATENCY, smallest))
    )
    return (
        f"{said[0].upper()}{said[1:]}; best throughput {throughput} s of audio per second ({best.place}{by}); "
        f"one call of {smallest.place} takes {latency}."
    )


def _without_audio(results: Results) -> list[CellResult]:
    """Measured cells of one's own code that says no length of audio."""
    return [cell for cell in results.cells if cell.latency_s is not None and not cell.seconds]


def counts(results: Results) -> dict[str, int]:
    """How many cells are stable, unstable, skipped and failed; those without a verdict are measured all the same."""
    found = {"stable": 0, "unstable": 0, "measured": 0, "skipped": 0, "failed": 0}
    for cell in results.cells:
        found[(cell.verdict or "measured") if cell.status == "ok" else cell.status] += 1
    return {name: count for name, count in found.items() if count}


def subject(results: Results) -> str:
    """The model, and the machine that it ran on."""
    return f"{_model(results)}{_machine(results)}"


def _model(results: Results) -> str:
    sources = list(dict.fromkeys(model.source for model in results.models))
    if not sources:
        return "The model"
    if len(sources) > 1:
        return f"{len(sources)} models"
    about = []
    total = results.models[0].parameters.total
    if total is not None:
        about.append(f"{PARAMETERS.text(total)} parameters")
    about += dict.fromkeys(f"{model.weights} weights" for model in results.models if model.weights)
    return sources[0] + (f" ({', '.join(about)})" if about else "")


def _machine(results: Results) -> str:
    environment, threads = results.environment, results.environment.threads
    if not results.hardware:
        return ""
    on_cpu = threads and environment.device in (None, "cpu")
    return f" on {results.hardware}" + (f", {many(threads or 0, 'thread')}" if on_cpu else "")


def _how_many_fast(cells: list[CellResult]) -> str:
    fast = sum((cell.rtf or 0) < 1 for cell in cells)
    if 0 < fast < len(cells):
        return f"faster than real time in {fast} of {len(cells)} cells"
    everywhere = f" in all {len(cells)} cells" if len(cells) > 1 else ""
    return f"{'faster' if fast else 'slower'} than real time{everywhere}"


def _real_time(cells: list[CellResult]) -> str:
    said = _how_many_fast(cells)
    lowest, highest = (choose(cells, key=lambda cell: cell.rtf or 0) for choose in (min, max))
    if lowest is highest:
        return f"{said}, RTF {RTF.cell_text(lowest)} at {lowest.place}"
    return f"{said}, RTF {RTF.cell_text(lowest)} ({lowest.place}) to {RTF.cell_text(highest)} ({highest.place})"


def _latency(cells: list[CellResult]) -> str:
    smallest = min(cells, key=lambda cell: (cell.batch_size, cell.seconds))
    if smallest.latency_s is None:
        return ""
    return f"one call of {smallest.place} takes {LATENCY.cell_text(smallest)}"


def _memory(cells: list[CellResult]) -> str:
    known = sorted(peak for cell in cells if (peak := PEAK.in_cell(cell)))
    if not known:
        return ""
    low, high = PEAK.text(known[0]), PEAK.text(known[-1])
    return f"{PEAK.short} {low}" + (f" to {high}" if high != low else "")


def _against_baselines(results: Results) -> list[str]:
    """How the time of the other variants compares, over the cells that both have."""
    others = [name for name in results.variants if results.baseline(name) != name]
    said: dict[str, list[str]] = {}
    for name in others[:MOST_VARIANTS]:
        found = ratios(results, name, LATENCY)
        if found:
            text = f"{name} takes x{significant(geometric_mean(found), 2)}"
            said.setdefault(results.baseline(name), []).append(text)
    more = f" (and {len(others) - MOST_VARIANTS} variants more)" if len(others) > MOST_VARIANTS else ""
    texts = [f"Of the time of {base}, {', '.join(found)}" for base, found in said.items()]
    return [*texts[:-1], f"{texts[-1]}{more}"] if texts else []


def _errors(results: Results) -> list[str]:
    """The word error rate; of several variants the lowest and the highest."""
    rates = [(record.wer.value, record) for record in results.accuracy if record.wer]
    if not rates:
        return []
    lowest, highest = (choose(rates, key=lambda entry: entry[0])[1] for choose in (min, max))
    of = f" of {lowest.variant}" if len(rates) > 1 else ""
    to = f" to {rate_text(highest.wer)} % of {highest.variant}" if highest is not lowest else ""
    return [f"Word error rate on {lowest.dataset} {rate_text(lowest.wer)} %{of}{to}"]


def _sure(measured: list[CellResult]) -> str:
    unstable = sum(cell.verdict == "unstable" for cell in measured)
    if not unstable:
        return "All figures are stable." if len(measured) > 1 else "The figure is stable."
    stable = len(measured) - unstable
    return f"{stable} of {len(measured)} figures are stable, {unstable} unstable (marked {UNSTABLE_MARK})."


def _without_figures(results: Results) -> str:
    counted = counts(results)
    said = [f"{counted[status]} {status}" for status in ("failed", "skipped") if counted.get(status)]
    return f" {' and '.join(said)} of {len(results.cells)} cells." if said else ""
