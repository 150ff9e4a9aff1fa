"""A comparison in sentences: what stands above and below its tables in every format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from profiler.comparison.result import Change, Comparison, Difference, RunComparison, RunName, Speed
from profiler.units import bytes_text, seconds_text, significant

MARKS = {"slower": "**slower**", "faster": "**faster**", "no difference": "no difference", "not judged": "not judged"}
RESTLESS = 1.2  # where not even that could be seen, `no difference` would say too much
LISTED = 12  # differences that are spelled out; more are counted


def run_text(run: RunName) -> str:
    """'20261117-020304-ab12 (wav2vec2, 2026-11-17, commit 1a2b3c4d5e)'."""
    parts = [Path(run.recipe).stem, run.started[:10]]
    parts += [f"commit {run.commit[:10]}"] if run.commit else []
    return f"{run.id} ({', '.join(parts)})"


def runs_text(comparison: Comparison, other: RunComparison) -> str:
    """Which run is compared with the baseline; or which variants, within one run."""
    if other.run.id != comparison.baseline.id:
        return f"This run: {run_text(other.run)}"
    return (
        f"Within this run: {other.variants[0].variants[0]} is the baseline, {other.variants[0].variants[1]} against it"
    )


def headline(other: RunComparison) -> str:
    """The answer in one sentence."""
    if not other.judged:
        return (
            "Speed is not judged: the runs come from different machines. --across-machines compares them all the same."
        )
    judged = [cell for cell in other.cells if cell.speed.verdict != "not judged"]
    slower, faster = other.called("slower"), other.called("faster")
    if not judged:
        return f"No cell could be judged, of {len(other.cells)}."
    if not slower and not faster:
        least = min((cell.speed.detectable or 0.0) for cell in judged)
        if least > RESTLESS:
            return (
                f"No difference could be shown in {_cells(len(judged))}: rounds lie so far apart that the most precise "
                f"would have shown none below {percent(least)}. A quieter machine or more rounds would tell."
            )
        return f"No difference in {_cells(len(judged))}. The most precise would have shown {percent(least)}."
    parts = [f"{len(found)} {word}" for found, word in ((slower, "slower"), (faster, "faster")) if found]
    same = len(judged) - len(slower) - len(faster)
    parts += [f"{same} without a difference"] if same else []
    return f"Of {_cells(len(judged))}: {', '.join(parts)}."


def answer(other: RunComparison) -> list[str]:
    """The answer, the geometric mean, and what fails now."""
    lines = [headline(other), mean_text(other.geometric_mean)]
    if other.newly_failed:
        failed = ", ".join(cell.label for cell in other.newly_failed)
        lines.append(f"Failed now, measured in the baseline: {failed}.")
    return [line for line in lines if line]


def mean_text(speed: Speed) -> str:
    """The geometric mean with its verdict."""
    if speed.ratio is None:
        return ""
    text = f"Geometric mean of the ratios: {ratio_text(speed)}"
    text += f", {speed.verdict}" if speed.verdict != "not judged" else ""
    return text + "".join(f"; {words} {significant(value, 3)}" for words, value in speed.normalised.items()) + "."


def ratio_text(speed: Speed) -> str:
    """'1.10 [1.06, 1.15]'."""
    if speed.ratio is None or speed.ci95 is None:
        return "n/a"
    return f"{speed.ratio:.2f} [{speed.ci95[0]:.2f}, {speed.ci95[1]:.2f}]"


def percent(ratio: float) -> str:
    """1.08 -> '8 %', 0.93 -> '7 %'."""
    return f"{abs(ratio - 1) * 100:.0f} %"


def change_text(change: Change) -> str:
    """'12.3 MB to 4.1 MB (x0.33)'."""
    before, after = (value_text(value, change.unit) for value in (change.before, change.after))
    text = f"{before}, unchanged" if change.before == change.after else f"{before} to {after}"
    if change.ratio is not None and change.before != change.after:
        text += f" (x{significant(change.ratio, 3)})"
    if change.before_ci95 and change.after_ci95:
        ends = [f"{low:.1%} to {high:.1%}" for low, high in (change.before_ci95, change.after_ci95)]
        text += f"; 95 % intervals {ends[0]} and {ends[1]}"
    return text + (f"; {change.remark}" if change.remark else "")


def value_text(value: float | None, unit: str) -> str:
    if value is None:
        return "not measured"
    if unit == "bytes":
        return bytes_text(value)
    if unit == "fraction":
        return f"{value:.2%}"
    if unit == "s":
        return seconds_text(value)
    number = f"{value:,.0f}" if value == int(value) and abs(value) >= 1000 else significant(value, 3)
    return f"{number} {unit}".strip()


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
    settings = comparison.settings
    return (
        "Times are those of the faster half of the calls, in the quieter half of the rounds (of few rounds, their "
        "median), because what disturbs a call only ever slows it. Ratio: time of this run over that of the baseline, "
        "with its 95 % interval; above 1 is slower. What the typical cells of a round share is taken out where they "
        "did not shift as a whole. A cell is called different when a rank test on its raw samples and a test on its "
        f"rounds both say so at {settings.get('level', 0):.0%} after correction for the number of cells, and the times "
        f"differ by {percent(settings.get('least_ratio', 1))} at least, beyond what the machine's own change explains."
    )


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
