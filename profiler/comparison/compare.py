"""Runs against a baseline: which cells are faster, which slower, what else changed, and what differs between the runs.

    results of two runs --match--> pairs of cells --judge, or paired within one run--> the four words

Needs results only: no model, no torch. Views of a comparison are in profiler/report/comparison/.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from profiler.comparison.judge import ALPHA, THRESHOLD, judge, mean_speed
from profiler.comparison.match import Pairs, match_cells, match_rounds
from profiler.comparison.paired import paired_mean, paired_speed
from profiler.comparison.result import CellComparison, Comparison, RunComparison, RunName, VariantComparison
from profiler.conditions.differences import different_models, find_differences, unequal_machines
from profiler.conditions.floor import floor_of
from profiler.conditions.speed import floor_between, normalised
from profiler.errors import UserError
from profiler.metrics import cell_changes, variant_changes
from profiler.results.types import CellResult, Results

PAIRED_FROM = 6  # matched rounds: with fewer there is no CI of their ratios


def compare_results(
    runs: Sequence[Results],
    variants: tuple[str, str] | None = None,
    across_machines: bool = False,
    threshold: float = THRESHOLD,
) -> Comparison:
    """All runs against the first; with `variants`, one variant of it against one of the others."""
    baseline, others = runs[0], list(runs[1:])
    if not others:
        if variants is None:
            raise UserError("There is one run only. Give another one to compare it with, or --variants A B within it.")
        others = [baseline]
    equal = variants is None or variants[0] == variants[1]
    if equal and any(other.run.id == baseline.run.id for other in others):
        raise UserError(
            f"{baseline.run.id} is given twice: a run is equal to itself. Give another run, or compare two of "
            "its variants with --variants A B."
        )
    return Comparison(
        baseline=_name(baseline),
        others=[_against(baseline, other, variants, across_machines, threshold) for other in others],
        settings={"threshold": threshold, "alpha": ALPHA, "across_machines": across_machines},
    )


def compare_sides(results: Results) -> Comparison:
    """B against A of an A/B run."""
    sides = results.run.sides
    if sides is None:
        raise UserError(f"{results.run.id} is no A/B run; compare two of its variants with --variants A B.")
    compared = [compare_results([results], pair, threshold=sides.threshold) for pair in sides.pairs]
    whole = compared[0]
    for other in compared[1:]:
        whole.others += other.others
    whole.about = sides.about
    return whole


def _against(
    first: Results, second: Results, variants: tuple[str, str] | None, across_machines: bool, threshold: float
) -> RunComparison:
    pairs = match_cells(first, second, variants)
    same_machine = not unequal_machines(first.environment, second.environment)
    unfinished = {each.run.id: each.run.status for each in (first, second) if each.run.status != "complete"}
    found = RunComparison(
        run=_name(second),
        same_machine=same_machine,
        judged=across_machines or same_machine,
        different_models=different_models(first, second, pairs.variants),
        differences=find_differences(first, second, pairs.variants),
        cells=[_cell(*pair) for pair in pairs.cells],
        only_in_baseline=pairs.only_first,
        only_in_other=pairs.only_second,
        variants=[
            VariantComparison(variants=names, metrics=variant_changes(first, second, names)) for names in pairs.variants
        ],
        notes=[f"{run} is not complete ({why}): what it has measured is compared." for run, why in unfinished.items()],
    )
    _judge(found, pairs, first, second, threshold)
    speeds = [(cell.speed, cell.variants) for cell in found.cells] + [(found.geometric_mean, pairs.variants[0])]
    for speed, names in speeds if not same_machine else []:
        if speed.ratio is not None and found.judged:
            speed.normalised = normalised(speed.ratio, first, second, names)
        elif speed.ratio is not None:
            speed.verdict, speed.reason = "not judged", "another machine"
    return found


def _judge(found: RunComparison, pairs: Pairs, first: Results, second: Results, threshold: float) -> None:
    """Rounds of one run that both cells went through are compared in pairs; else the runs are compared as wholes."""
    same_run, timed, unpaired, paired = first.run.id == second.run.id, [], [], []
    for cell, (one, two) in zip(found.cells, pairs.cells, strict=True):
        problems = [f"baseline {_problem(one)}" if _problem(one) else "", _problem(two)]
        cell.speed.reason = "; ".join(problem for problem in problems if problem)
        if cell.speed.reason or one.latency_s is None or two.latency_s is None:
            continue
        rounds = match_rounds(one, two) if same_run else []
        if len(rounds) >= PAIRED_FROM:
            paired.append(([calls for calls, _ in rounds], [calls for _, calls in rounds]))
            cell.speed = paired_speed(*paired[-1], threshold)
        else:
            timed.append((one.latency_s, two.latency_s))
            unpaired.append(cell)
    if timed and not same_run:  # the run-to-run floor is nothing that two variants of one run differ by
        floor = floor_between(first, second, pairs.variants[0]) if found.same_machine else floor_of(first, second)
        found.floor, found.floor_source = floor.value, floor.source
    for cell, speed in zip(unpaired, judge(timed, found.floor or 0.0, threshold), strict=True):
        cell.speed = speed
    found.paired = bool(paired)
    if paired and not unpaired:
        found.geometric_mean = paired_mean(paired, threshold)
    else:
        found.geometric_mean = mean_speed([cell.speed for cell in found.cells], threshold)


def _problem(cell: CellResult) -> str:
    """Why a cell cannot be judged; empty where it can."""
    latency = cell.latency_s
    if cell.status != "ok":
        return f"{cell.status}: {cell.reason or 'no reason given'}"
    if latency is None or not latency.samples:
        return "raw samples are missing"
    if not all(math.isfinite(sample) and sample > 0 for sample in (*latency.samples, latency.median)):
        return "raw samples are damaged: not all are times above 0"
    return "" if sum(latency.rounds) == len(latency.samples) else "raw samples are damaged: they do not fit the rounds"


def _cell(first: CellResult, second: CellResult) -> CellComparison:
    latencies = first.latency_s, second.latency_s
    return CellComparison(
        variants=(first.variant, second.variant),
        seconds=first.seconds,
        batch_size=first.batch_size,
        latency_s=tuple(each.median if each else None for each in latencies),
        latency_ci95=tuple(each.ci95 if each else None for each in latencies),
        status=(first.status, second.status),
        other_metrics=cell_changes(first, second),
    )


def _name(results: Results) -> RunName:
    run, commit = results.run, results.environment.commit
    return RunName(id=run.id, recipe=run.recipe, started=run.started, status=run.status, commit=commit)
