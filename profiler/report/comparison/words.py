"""A comparison in sentences: what stands above and below its tables in every format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from profiler.comparison.result import CellComparison, Comparison, Ratio, RunComparison, RunName, Speed, Verdict
from profiler.conditions.differences import Difference
from profiler.metrics import METRICS, Change
from profiler.units import significant

WORDS: tuple[Verdict, ...] = ("slower", "faster", "same", "unclear")
GUIDE = "docs/comparing.md"
NARROW = 1.1  # a CI whose ends differ by less has three decimals
LISTED = 12  # differences that are spelled out; more are counted


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
        return f"No cell could be judged, of {len(other.cells)}."
    parts = [f"{count} {verdict}" for verdict, count in counts.items() if count]
    smallest = detectable_text(other.called("unclear"))
    return f"Of {_cells(judged)}: {', '.join(parts)}{f' ({smallest})' if smallest else ''}."


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
    threshold = 100 * comparison.settings.get("threshold", 0.0)  # as it was given, however small
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


def _cells(count: int) -> str:
    return f"{count} cell{'' if count == 1 else 's'}"
