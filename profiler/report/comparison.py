"""A comparison in sentences and tables: in the terminal, in Markdown for a pull request, and as a page."""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from pathlib import Path
from typing import Any

from profiler.comparison.compare import compare_sides
from profiler.comparison.judge import SLOW_CALLS
from profiler.comparison.result import CellComparison, Comparison, Ratio, RunComparison, RunName, Speed, Verdict
from profiler.conditions.differences import Difference
from profiler.metrics import LATENCY, METRICS, Change
from profiler.report.opening import Tile
from profiler.report.table import Table
from profiler.results.statistics import relative_half_width
from profiler.results.types import Results
from profiler.units import many, significant

WORDS: tuple[Verdict, ...] = ("slower", "faster", "same", "unclear")
GUIDE = "docs/comparing.md"
NARROW = 1.1  # a CI whose ends differ by less has three decimals
LISTED = 12  # differences that are spelled out; more are counted
SAME = 0.01  # memory and energy that differ by less are called the same
REACHES = (1.25, 2.0, 8.0, 64.0)  # how far the bars of ratios go on both sides
MIDDLE, HALF = 70.0, 68.0  # of a bar, in pixels


def run_text(run: RunName) -> str:
    """'20261117-020304-ab12 (wav2vec2, 2026-11-17, commit 1a2b3c4d5e)'."""
    parts = [Path(run.recipe).stem, run.started[:10]]
    parts += [f"commit {run.commit[:10]}"] if run.commit else []
    return f"{run.id} ({', '.join(parts)})"


def baseline_text(comparison: Comparison) -> str:
    """What is compared: a run with others, or A with B."""
    if comparison.about:
        return "  \n".join(f"{side}: {text}" for side, text in comparison.about.items())
    return f"Baseline: {run_text(comparison.baseline)}"


def runs_text(comparison: Comparison, other: RunComparison) -> str:
    """Which run is compared with the baseline; or which variants, within one run."""
    if comparison.about:
        return ""
    if other.run.id != comparison.baseline.id:
        return f"This run: {run_text(other.run)}"
    return (
        f"Within this run: {other.variants[0].variants[0]} is the baseline, {other.variants[0].variants[1]} against it"
    )


def headline(other: RunComparison) -> str:
    """The answer in one sentence: 'Of 9 cells: 1 slower, 6 same, 2 unclear (smallest detectable change 8 %).'"""
    if not other.judged:
        return "Speed is not judged: the runs come from different machines. --across-machines judges it all the same."
    counts = {verdict: len(other.called(verdict)) for verdict in WORDS}
    judged = sum(counts.values())
    if not judged:
        return f"No {other.noun} could be judged, of {len(other.cells)}."
    parts = [f"{count} {verdict}" for verdict, count in counts.items() if count]
    smallest = detectable_text(other.called("unclear"))
    return f"Of {many(judged, other.noun)}: {', '.join(parts)}{f' ({smallest})' if smallest else ''}."


def detectable_text(cells: list[CellComparison]) -> str:
    """'smallest detectable change 8 %', or '6-9 %' over several cells; empty where it is not known."""
    found = [cell.speed.detectable for cell in cells if cell.speed.detectable is not None]
    if not found:
        return ""
    low, high = percent(min(found)), percent(max(found))
    return f"smallest detectable change {high if low == high else f'{low[:-2]}-{high}'}"


def answer(other: RunComparison) -> list[str]:
    """The answer, the geometric mean, the slow calls, and what fails now."""
    lines = [headline(other), mean_text(other.geometric_mean), slow_calls_text(other)]
    if other.newly_failed:
        failed = ", ".join(cell.label for cell in other.newly_failed)
        lines.append(f"Failed now, measured in the baseline: {failed}.")
    return [line for line in lines if line]


def slow_calls_text(other: RunComparison) -> str:
    """'Slow calls (90th percentile): 1 slower, 7 same.'; of cells that took turns in one run."""
    verdicts = [cell.speed.slow_calls.verdict for cell in other.cells if cell.speed.slow_calls]
    parts = [f"{verdicts.count(verdict)} {verdict}" for verdict in WORDS if verdict in verdicts]
    return f"Slow calls (90th percentile): {', '.join(parts)}." if parts else ""


def mean_text(speed: Speed) -> str:
    """The geometric mean with its verdict."""
    if speed.ratio is None:
        return ""
    text = f"Geometric mean of the ratios: {ratio_text(speed)}"
    text += f", {speed.verdict}" if speed.verdict != "not judged" else ""
    return text + "".join(f"; {words} {significant(value, 3)}" for words, value in speed.normalised.items()) + "."


def ratio_text(speed: Ratio) -> str:
    """'1.10 [1.06, 1.19]'; '1.004 [0.985, 1.023]' where the CI is narrow."""
    if speed.ratio is None:
        return "n/a"
    if speed.ci is None:
        return f"{speed.ratio:.2f}"
    low, high = speed.ci
    digits = 3 if high / low < NARROW else 2
    return f"{speed.ratio:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def percent(ratio: float) -> str:
    """1.08 -> '8 %', 0.93 -> '7 %', 1.004 -> '0.4 %'."""
    return share_text(abs(ratio - 1))


def share_text(share: float) -> str:
    """0.18 -> '18 %', 0.0042 -> '0.4 %'."""
    return f"{share * 100:.0f} %" if share >= 0.0995 else f"{share * 100:.1f} %".replace(".0 ", " ")


def change_text(change: Change) -> str:
    """'12.3 MB to 4.1 MB (x0.33)'."""
    metric = METRICS[change.metric]
    before, after = (metric.text(value, absent="not measured") for value in (change.before, change.after))
    text = f"{before}, unchanged" if change.before == change.after else f"{before} to {after}"
    if change.ratio is not None and change.before != change.after:
        text += f" (x{significant(change.ratio, 3)})"
    if change.before_ci95 and change.after_ci95:
        ends = [f"{metric.number(low)} to {metric.text(high)}" for low, high in (change.before_ci95, change.after_ci95)]
        text += f"; 95 % CI {ends[0]}, then {ends[1]}"
    return text + (f"; {change.remark}" if change.remark else "")


def differences_text(differences: list[Difference]) -> list[str]:
    """'recipe, measure.rounds: 3, then 5', the weightiest first; a long list is cut, and says so."""
    if not differences:
        return ["Nothing else differs between the runs: recipe, versions, threads, machine and weights are the same."]
    lines = [f"- {each.kind}, {each.name}: {_plain(each.before)}, then {_plain(each.after)}" for each in differences]
    left = len(lines) - LISTED
    more = [f"- and {left} more (all are in the JSON)"] if left > 0 else []
    return ["What differs between the runs:", *lines[:LISTED], *more]


def _plain(value: Any) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= 100 else f"{text[:97]}..."


def how_decided(comparison: Comparison) -> str:
    """What the words mean here, in two lines; the guide has the rest."""
    threshold = 100 * comparison.settings.threshold  # as it was given, however small
    return (
        f"Above 1 is slower. same: the CI of the ratio lies within {threshold:g} % either way;\n"
        f"unclear: it reaches beyond, and may be chance. See {GUIDE}."
    )


def floor_text(other: RunComparison) -> str:
    """What the CI of a ratio allows for: the run-to-run floor, or nothing where both took turns."""
    if other.paired:
        return "Both took turns within one run: they are compared round by round."
    if other.floor is None:
        return ""
    how = "; `python profile.py doctor` measures it" if other.floor_source == "assumed" else ""
    return f"Run-to-run floor {share_text(other.floor)} ({other.floor_source}{how})."


def incomplete_text(other: RunComparison) -> list[str]:
    """Cells without a partner, and notes."""
    lines = []
    for names, where in ((other.only_in_baseline, "the baseline"), (other.only_in_other, "this run")):
        if names:
            shown = ", ".join(names[:LISTED]) + (f" and {len(names) - LISTED} more" if len(names) > LISTED else "")
            lines.append(f"Only in {where}: {shown}.")
    return lines + other.notes


def speed_table(other: RunComparison, cells: list[CellComparison], title: str = "Speed") -> Table:
    """Figures of both runs, the ratio with its CI, and the verdict; below, why some are not called different."""
    names = list(dict.fromkeys(cell.variants for cell in other.cells))
    several = len(names) > 1
    measures = list(dict.fromkeys(name for cell in cells for name in cell.speed.normalised))
    header = ["variant"] if several else []
    sides = ("A", "B") if all(cell.variants[0][:1] == "A" and cell.variants[1][:1] == "B" for cell in cells) else ()
    header += [
        "load" if any(cell.load for cell in cells) else "cell",
        *(sides or ("baseline", "this run")),
        f"ratio [{_interval_name(cells)}]",
        *measures,
        "verdict",
    ]
    rows = []
    for cell in cells:
        row = [_variants(cell.variants)] if several else []
        row += [cell.label, *(_latency(cell, side) for side in (0, 1)), ratio_text(cell.speed)]
        at_equal = cell.speed.normalised
        row += [significant(at_equal[name], 3) if name in at_equal else "" for name in measures]
        rows.append([*row, cell.speed.verdict])
    if not several and names and names[0][0] != names[0][1]:
        title += f" - {_variants(names[0])}"
    remarks = ([other.different_models] if other.different_models else []) + _reasons(cells, several)
    return Table(title, header, rows, remarks + _slow_calls(cells, several))


def _interval_name(cells: list[CellComparison]) -> str:
    """'95 % CI', where all cells have the same."""
    confidences = {cell.speed.confidence for cell in cells if cell.speed.ci}
    return f"{100 * confidences.pop():g} % CI" if len(confidences) == 1 else "CI"


def _slow_calls(cells: list[CellComparison], several: bool) -> list[str]:
    """Cells whose slow calls changed otherwise than the typical one, or alone."""
    found = []
    for cell in cells:
        slow = cell.speed.slow_calls
        alone = cell.speed.reason == SLOW_CALLS
        if slow and slow.verdict in ("slower", "faster") and (alone or slow.verdict != cell.speed.verdict):
            found.append(f"- {_cell_name(cell, several)}: slow calls (p90) {ratio_text(slow)}, {slow.verdict}.")
    return found


def _cell_name(cell: CellComparison, several: bool) -> str:
    return f"{_variants(cell.variants)} {cell.label}" if several else cell.label


def _reasons(cells: list[CellComparison], several: bool) -> list[str]:
    """Each reason once, with the cells that it holds for."""
    by_reason: dict[str, list[str]] = {}
    for cell in cells:
        if cell.speed.reason and cell.speed.reason != SLOW_CALLS:
            by_reason.setdefault(cell.speed.reason, []).append(_cell_name(cell, several))
    return [
        f"- {'all cells' if len(names) == len(cells) > 1 else ', '.join(names)}: {reason.rstrip('.')}."
        for reason, names in by_reason.items()
    ]


def _latency(cell: CellComparison, side: int) -> str:
    value = cell.latency_s[side]
    if cell.shown is not None:
        return cell.shown[side]
    if cell.status[side] != "ok":
        return cell.status[side]
    if value is None:
        return "n/a"
    half = relative_half_width(value, cell.latency_ci95[side])
    return LATENCY.text(value, half) + ("" if half is None else f" ±{share_text(half).replace(' ', '')}")


def other_metrics_table(other: RunComparison, cells: list[CellComparison]) -> Table | None:
    """Memory and energy of the cells; what is the same in all of them is said below. None where there is neither."""
    changes = [change for cell in cells for change in cell.other_metrics]
    names = list(dict.fromkeys(change.title for change in changes))
    if not names:
        return None
    differ = {each.title for each in changes if each.ratio is None or abs(each.ratio - 1) > SAME or each.remark}
    same = [name for name in names if name not in differ]
    shown = [name for name in names if name not in same]
    several = len({cell.variants for cell in other.cells}) > 1
    rows = []
    for cell in cells if shown else []:
        found = {change.title: change_text(change) for change in cell.other_metrics}
        row = [_variants(cell.variants)] if several else []
        rows.append([*row, cell.label, *(found.get(name, "not measured") for name in shown)])
    table = Table("Memory and energy", [*(["variant"] if several else []), "cell", *shown], rows)
    if same:
        table.remarks.append(
            f"Same within {share_text(SAME)}: {', '.join(name[0].lower() + name[1:] for name in same)}."
        )
    return table


def variants_table(other: RunComparison) -> Table | None:
    """Size, parameters, error rates: one row per variant."""
    names = list(dict.fromkeys(change.title for each in other.variants for change in each.metrics))
    if not names:
        return None
    rows = []
    for each in other.variants:
        found = {change.title: change_text(change) for change in each.metrics}
        rows.append([_variants(each.variants), *(found.get(name, "not measured") for name in names)])
    return Table("Size and accuracy", ["variant", *names], rows)


def _variants(names: tuple[str, str]) -> str:
    return names[0] if names[0] == names[1] else f"{names[0]} to {names[1]}"


def sides_headlines(results: Results) -> list[str]:
    """B against A, a sentence for each pair of variants."""
    return [headline(other) for other in compare_sides(results).others] if _has_sides(results) else []


def sides_tables(results: Results) -> list[Table]:
    """B against A; one table per pair of variants. None while a side has no cell yet, as in a run cut short."""
    if not _has_sides(results):
        return []
    comparison = compare_sides(results)
    tables = []
    for other in comparison.others:
        table = speed_table(other, other.cells, "B against A")
        table.remarks = [*baseline_text(comparison).split("  \n"), *answer(other), *table.remarks]
        tables.append(table)
    return tables


def _has_sides(results: Results) -> bool:
    sides = results.run.sides
    return sides is not None and all(name in results.variants for pair in sides.pairs for name in pair)


def terminal_parts(comparison: Comparison) -> list[Table | str]:
    """Everything, one run after another."""
    parts: list[Table | str] = [baseline_text(comparison)]
    for other in comparison.others:
        parts += [runs_text(comparison, other), "\n".join(answer(other))]
        parts += [*_tables(other), *_conditions(comparison, other)]
    return [part for part in [*parts, how_decided(comparison)] if part]


def render_terminal(comparison: Comparison) -> str:
    """The same as a text."""
    return _joined(terminal_parts(comparison))


def render_markdown(comparison: Comparison) -> str:
    """For a comment on a pull request."""
    parts = ["### Speed against the baseline", baseline_text(comparison)]
    for other in comparison.others:
        first, *lines = answer(other)
        parts += [runs_text(comparison, other), "  \n".join([f"**{first}**", *lines])]
        changed = other.called("slower") + other.called("faster") + other.newly_failed
        parts += [speed_table(other, changed, "What changed").markdown()] if changed else []
        parts += _conditions(comparison, other)
        tables = _joined(_tables(other)).rstrip("\n")
        summary = f"All {len(other.cells)} cells, memory, size"
        parts.append(f"<details><summary>{summary}</summary>\n\n{tables}\n\n</details>")
    return _joined([*parts, f"<sub>{how_decided(comparison)}</sub>"])


def _joined(parts: Sequence[Table | str]) -> str:
    return "\n\n".join(part.markdown() if isinstance(part, Table) else part for part in parts if part) + "\n"


def _conditions(comparison: Comparison, other: RunComparison) -> list[str]:
    """What the CI allows for, what else differs, and what has no partner."""
    differences = "" if comparison.about else "\n".join(differences_text(other.differences))
    return [floor_text(other), differences, *incomplete_text(other)]


def _tables(other: RunComparison) -> list[Table]:
    tables = [speed_table(other, other.cells), other_metrics_table(other, other.cells), variants_table(other)]
    return [table for table in tables if table is not None]


def render_page(comparison: Comparison) -> str:
    """One self-contained HTML file, in the look of report.html: nothing from elsewhere, light and dark."""
    from profiler.report.html import page

    return page(
        "comparison.html",
        comparison=comparison,
        baseline=run_text(comparison.baseline),
        runs=[_run(comparison, other) for other in comparison.others],
        decided=how_decided(comparison),
    )


def _run(comparison: Comparison, other: RunComparison) -> dict[str, Any]:
    headline, *lines = answer(other)
    table = speed_table(other, other.cells)
    reach = _reach(other)
    tables = [other_metrics_table(other, other.cells), variants_table(other)]
    called = [(verdict, len(other.called(verdict))) for verdict in WORDS]
    mean = ratio_text(other.geometric_mean)
    tiles = [Tile(verdict.capitalize(), str(count), kind=verdict) for verdict, count in called if count]
    return {
        "name": runs_text(comparison, other),
        "tiles": [*tiles, *([Tile("Geometric mean of the ratios", mean)] if other.geometric_mean.ratio else [])],
        "headline": headline,
        "lines": lines + [text for text in (floor_text(other), *incomplete_text(other)) if text],
        "speed": table,
        "scale": f"x{1 / reach:.2g} to x{reach:g}",
        "rows": [(row, _bar(cell, reach)) for row, cell in zip(table.rows, other.cells, strict=True)],
        "tables": [table for table in tables if table is not None],
        "differences": differences_text(other.differences),
    }


def _reach(other: RunComparison) -> float:
    ends = [end for cell in other.cells for end in cell.speed.ci or ()]
    widest = max((max(end, 1 / end) for end in ends), default=1.0)
    return next((reach for reach in REACHES if reach >= widest), REACHES[-1])


def _bar(cell: CellComparison, reach: float) -> dict[str, Any]:
    """Where the ratio and the ends of its interval stand on a line whose middle is 1."""
    speed = cell.speed
    verdict = speed.verdict.replace(" ", "-")
    if speed.ratio is None or speed.ci is None:
        return {"shown": False, "verdict": verdict}
    places = [MIDDLE + HALF * max(-1.0, min(1.0, log(value) / log(reach))) for value in (speed.ratio, *speed.ci)]
    at, low, high = (f"{place:.1f}" for place in places)
    tip = f"{_cell_name(cell, True)}: {ratio_text(speed)}, {speed.verdict}"
    return {"shown": True, "verdict": verdict, "at": at, "low": low, "high": high, "tip": tip}
