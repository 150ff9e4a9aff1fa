"""Runs against a baseline: which cells are faster, which slower, what else changed, and what differs between the runs.

    results of two runs --pair--> cells --decide (levels, noise, machine)--> verdicts; beside them what else differs

Needs results only: no model, no torch. Views of a comparison are in profiler/report/comparison/.
"""

from __future__ import annotations

from collections.abc import Sequence

from profiler.comparison.beside import beside_cell, beside_variant
from profiler.comparison.decide import LEAST, LEVEL, Allowance, Timed, judge, rounds_of
from profiler.comparison.differences import find_differences
from profiler.comparison.likeness import alike, shortest_handoffs
from profiler.comparison.machine import allowance_of_cell, allowance_of_run, normalised, threads_of, unequal_machines
from profiler.comparison.pair import pair_cells
from profiler.comparison.result import (
    CellComparison,
    Comparison,
    RunComparison,
    RunName,
    Speed,
    VariantComparison,
)
from profiler.errors import UserError
from profiler.results import CellResult, Results

ANOTHER_MACHINE = "another machine"
CHOSEN = (
    "The cores were nearer each other in some rounds than in others (see verdicts of the runs): each cell is judged by "
    "rounds in which they were equally near in both runs, and its times are of these rounds."
)
TESTS = "Mann-Whitney on raw samples and a t test on levels of rounds, both; Benjamini-Hochberg over cells"


def compare_results(
    runs: Sequence[Results],
    variants: tuple[str, str] | None = None,
    across_machines: bool = False,
    least: float = LEAST,
) -> Comparison:
    """All runs against the first; with `variants`, one variant of it against one of the others."""
    baseline, others = runs[0], list(runs[1:])
    if not others:
        if variants is None:
            raise UserError("There is one run only. Give another one to compare it with, or --variants A B within it.")
        others = [baseline]
    if variants is None or variants[0] == variants[1]:
        for other in others:
            if other.run.id == baseline.run.id:
                raise UserError(
                    f"{baseline.run.id} is given twice: a run is equal to itself. Give another run, or compare two of "
                    "its variants with --variants A B."
                )
    return Comparison(
        baseline=_name(baseline),
        others=[_against(baseline, other, variants, across_machines, least) for other in others],
        settings={"least_ratio": 1.0 + least, "level": LEVEL, "tests": TESTS, "across_machines": across_machines},
    )


def _against(
    first: Results, second: Results, variants: tuple[str, str] | None, across_machines: bool, least: float
) -> RunComparison:
    pairs = pair_cells(first, second, variants)
    unequal = unequal_machines(first.environment, second.environment)
    same_run = first.run.id == second.run.id
    judged = across_machines or not unequal
    cells = [_cell(*pair) for pair in pairs.cells]
    comparison = RunComparison(
        run=_name(second),
        same_machine=not unequal,
        judged=judged,
        differences=find_differences(first, second, pairs.variants),
        cells=cells,
        only_in_baseline=pairs.only_first,
        only_in_other=pairs.only_second,
        variants=[
            VariantComparison(variants=names, figures=beside_variant(first, second, names)) for names in pairs.variants
        ],
        notes=_notes(first, second),
    )
    timed = _timed(first, second, pairs.cells, same_run, only_host=[each.name for each in unequal] in ([], ["host"]))
    if timed.chosen:
        comparison.notes.append(CHOSEN)
    for number, reason in timed.reasons.items():
        cells[number].speed.reason = reason
    if timed.cells:
        speeds, mean = judge(list(timed.cells.values()), least)
        for (number, judged_by), speed in zip(timed.cells.items(), speeds, strict=True):
            cells[number].latency_s = judged_by.times
            cells[number].speed = _said(speed, judged)
            if unequal and judged and speed.ratio is not None:
                speed.normalised = normalised(speed.ratio, first, second, cells[number].variants)
        comparison.geometric_mean = _said(mean, judged)
        if unequal and judged and mean.ratio is not None:
            mean.normalised = normalised(mean.ratio, first, second, pairs.variants[0])
    return comparison


class _Timed:
    """The pairs that can be judged, by their number, and why others cannot."""

    def __init__(self) -> None:
        self.cells: dict[int, Timed] = {}
        self.reasons: dict[int, str] = {}
        self.chosen = False  # whether some rounds are left out


def _timed(
    first: Results, second: Results, pairs: Sequence[tuple[CellResult, CellResult]], same_run: bool, only_host: bool
) -> _Timed:
    found = _Timed()
    usable: dict[int, tuple[list[list[float]], list[list[float]]]] = {}
    for number, (one, two) in enumerate(pairs):
        before, after = rounds_of(one), rounds_of(two)
        if isinstance(before, str) or isinstance(after, str):
            who = (f"baseline {before}" if isinstance(before, str) else "", after)
            found.reasons[number] = "; ".join(text for text in who if isinstance(text, str) and text)
        else:
            usable[number] = before, after
    # Variants of one run go through each round side by side: what the machine did then, it did to both.
    paired = same_run and all(len(one) == len(two) for one, two in usable.values())
    equal = only_host and all(threads_of(first, one.variant) == threads_of(second, two.variant) for one, two in pairs)
    shortest = shortest_handoffs(pairs, comparable=equal)
    for number, sides in usable.items():
        rounds = alike(pairs[number], shortest, paired)
        names = pairs[number][0].variant, pairs[number][1].variant
        whole = allowance_of_run(first, second, names) if only_host and not same_run else Allowance()
        own = allowance_of_cell(first, second, pairs[number], rounds.unlike)
        kept = [[side[place] for place in places] for side, places in zip(sides, rounds.numbers, strict=True)]
        found.chosen |= any(len(few) < len(side) for few, side in zip(kept, sides, strict=True))
        found.cells[number] = Timed(kept[0], kept[1], paired, whole, own, rounds.numbers)
    return found


def _said(speed: Speed, judged: bool) -> Speed:
    if not judged:
        speed.verdict, speed.reason = "not judged", ANOTHER_MACHINE
    return speed


def _cell(first: CellResult, second: CellResult) -> CellComparison:
    return CellComparison(
        variants=(first.variant, second.variant),
        seconds=first.seconds,
        batch_size=first.batch_size,
        latency_s=tuple(cell.latency_s.median if cell.latency_s else None for cell in (first, second)),
        status=(first.status, second.status),
        beside=beside_cell(first, second),
    )


def _name(results: Results) -> RunName:
    environment = results.environment
    about = environment.get("repository") or environment.get("profiler") or {}
    return RunName(
        id=results.run.id,
        recipe=results.run.recipe,
        started=results.run.started,
        status=results.run.status,
        commit=about.get("commit"),
        variants=results.variants,
    )


def _notes(first: Results, second: Results) -> list[str]:
    found = []
    for results in dict.fromkeys(map(id, (first, second))):
        each = first if results == id(first) else second
        if each.run.status != "complete":
            found.append(f"{each.run.id} is not complete ({each.run.status}): what it has measured is compared.")
    one_round = [
        each.run.id
        for each in (first, second)
        if any(cell.latency_s and len(cell.latency_s.rounds) < 2 for cell in each.cells)
    ]
    if one_round:
        found.append(
            f"{' and '.join(dict.fromkeys(one_round))} went through one round only, so how much the machine changes "
            "from minute to minute is not known: only large differences are called. measure.rounds=5 tells more."
        )
    return found
