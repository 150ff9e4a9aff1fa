"""Runs against a baseline: which cells are faster, which slower, what else changed, and what differs between the runs.

    results of two runs --match_cells--> pairs of cells --judge--> the four words

Needs results only: no model, no torch. Views of a comparison are in profiler/report/comparison.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from profiler.comparison.judge import ALPHA, THRESHOLD, judge, mean_speed, paired_mean, paired_speed
from profiler.comparison.loads import compare_loads, place_name, places
from profiler.comparison.result import CellComparison, Comparison, RunComparison, RunName, Settings, VariantComparison
from profiler.conditions.differences import different_models, find_differences, unequal_machines
from profiler.conditions.floor import floor_between, floor_of, normalised
from profiler.errors import UserError, did_you_mean
from profiler.metrics import cell_changes, variant_changes
from profiler.results.types import CellResult, Results
from profiler.units import place_text

PAIRED_FROM = 6  # matched rounds: with fewer there is no CI of their ratios


def compare_results(
    runs: Sequence[Results],
    variants: tuple[str, str] | None = None,
    across_machines: bool = False,
    threshold: float = THRESHOLD,
) -> Comparison:
    """All runs against the first; with `variants`, one variant of it against one of the others."""
    baseline, others = runs[0], list(runs[1:])
    loaded = [run for run in runs if run.serving]
    if loaded and len(loaded) < len(runs):
        other = next(run for run in runs if not run.serving)
        raise UserError(
            f"{loaded[0].run.id} is a run of mode: serving, and {other.run.id} is not: nothing is the same."
        )
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
        settings=Settings(threshold=threshold, alpha=ALPHA, across_machines=across_machines),
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
    under_load = bool(first.serving)
    pairs = Pairs(match_variants(first, second, variants), []) if under_load else match_cells(first, second, variants)
    same_machine = not unequal_machines(first.environment, second.environment)
    unfinished = {each.run.id: each.run.status for each in (first, second) if not each.run.is_finished}
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
    (_judge_loads if under_load else _judge)(found, pairs, first, second, threshold)
    speeds = [(cell.speed, cell.variants) for cell in found.cells] + [(found.geometric_mean, pairs.variants[0])]
    for speed, names in speeds if not same_machine else []:
        if speed.ratio is not None and found.judged:
            speed.normalised = normalised(speed.ratio, first, second, names)
        elif speed.ratio is not None:
            speed.verdict, speed.reason = "not judged", "another machine"
    return found


def _judge_loads(found: RunComparison, pairs: Pairs, first: Results, second: Results, threshold: float) -> None:
    """At the loads that both were put under. Variants of one run stood under load one after another, minutes apart:
    they differ by the machine's floor, too, unless they took turns."""
    found.paired = first.run.id == second.run.id and first.run.sides is not None
    if not found.paired:
        floor = floor_between(first, second, pairs.variants[0]) if found.same_machine else floor_of(first, second)
        found.floor, found.floor_source = floor.value, floor.source
    for names in pairs.variants:
        one, two = first.under_load(names[0]), second.under_load(names[1])
        found.cells += compare_loads(one, two, found.floor or 0.0, threshold)
        mine, theirs = places(one), places(two)
        found.only_in_baseline += [place_name(place) for place in mine if place not in theirs]
        found.only_in_other += [place_name(place) for place in theirs if place not in mine]
    if not found.cells and not found.paired:
        raise UserError(
            f"{first.run.id} and {second.run.id} have no load in common. Set the same serving.loads, or "
            "serving.streams, in both recipes."
        )


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


@dataclass(frozen=True)
class Pairs:
    """Cells that belong together, and those that have no partner."""

    variants: list[tuple[str, str]]
    cells: list[tuple[CellResult, CellResult]]
    only_first: list[str] = field(default_factory=list)
    only_second: list[str] = field(default_factory=list)


def match_cells(first: Results, second: Results, chosen: tuple[str, str] | None = None) -> Pairs:
    """Raises UserError where nothing can be paired; the message says what each run has."""
    variants = match_variants(first, second, chosen)
    cells, only_first, only_second = [], [], []
    for one, two in variants:
        mine = {(cell.seconds, cell.batch_size): cell for cell in first.cells if cell.variant == one}
        theirs = {(cell.seconds, cell.batch_size): cell for cell in second.cells if cell.variant == two}
        cells += [(mine[place], theirs[place]) for place in sorted(mine.keys() & theirs.keys())]
        only_first += [f"{one} {place_text(*place)}" for place in sorted(mine.keys() - theirs.keys())]
        only_second += [f"{two} {place_text(*place)}" for place in sorted(theirs.keys() - mine.keys())]
    if chosen is None:
        only_first += [f"{name} (all cells)" for name in first.variants if name not in [one for one, _ in variants]]
        only_second += [f"{name} (all cells)" for name in second.variants if name not in [two for _, two in variants]]
    # What neither run measured, as the heavy corner of a grid, is no news.
    cells = [pair for pair in cells if {cell.status for cell in pair} != {"skipped"}] or cells
    if not cells:
        raise UserError(
            f"The runs have no cell in common.\n  {first.run.id} has {_grid(first, [one for one, _ in variants])}\n"
            f"  {second.run.id} has {_grid(second, [two for _, two in variants])}\n"
            "Run both with the same audio_mockup_secs and batch_sizes."
        )
    return Pairs(variants, cells, only_first, only_second)


def match_rounds(first: CellResult, second: CellResult) -> list[tuple[list[float], list[float]]]:
    """The calls of both in each round that both went through; by place where a run does not number its rounds."""
    one, two = _numbered(first), _numbered(second)
    if one is None or two is None:
        sides = [cell.latency_s.by_round if cell.latency_s else [] for cell in (first, second)]
        return list(zip(*sides, strict=True)) if len(sides[0]) == len(sides[1]) else []
    return [(one[number], two[number]) for number in sorted(one.keys() & two.keys())]


def _numbered(cell: CellResult) -> dict[int, list[float]] | None:
    numbers = [condition.round for condition in cell.conditions]
    rounds = cell.latency_s.by_round if cell.latency_s else []
    if len(numbers) != len(rounds) or not all(isinstance(number, int) for number in numbers):
        return None
    return {number: calls for number, calls in zip(numbers, rounds, strict=True) if number is not None and calls}


def match_variants(first: Results, second: Results, chosen: tuple[str, str] | None) -> list[tuple[str, str]]:
    for results in (first, second):
        if not results.cells and not results.serving:
            raise UserError(f"The run {results.run.id} is empty: it has no cell to compare ({results.run.status}).")
    if chosen is not None:
        for name, results in zip(chosen, (first, second), strict=True):
            if name not in results.variants:
                known = did_you_mean(name, results.variants)
                raise UserError(f"The run {results.run.id} has no variant `{name}`.{known}")
        return [chosen]
    common = [(name, name) for name in first.variants if name in second.variants]
    if common:
        return common
    if len(first.variants) == len(second.variants) == 1:
        return [(first.variants[0], second.variants[0])]
    raise UserError(
        f"The runs have no variant in common: {first.run.id} has {', '.join(first.variants)}; {second.run.id} has "
        f"{', '.join(second.variants)}. Choose one of each with --variants A B."
    )


def _grid(results: Results, variants: list[str]) -> str:
    places = sorted({(cell.seconds, cell.batch_size) for cell in results.cells if cell.variant in variants})
    return ", ".join(place_text(*place) for place in places) or "none"
