"""Runs made of seeded random samples, in the shape of real ones: calls of a round are alike, rounds drift, runs differ.

For tests of what is done with many runs, whose truth must be known. Real runs are compared in tests/integration.
"""

from __future__ import annotations

import json
import math
import random
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from profiler.results import CellResult, Latency, Model, PeakMemory, Results, Run

GRID = tuple((seconds, batch) for seconds in (0.5, 1.0, 2.0, 4.0) for batch in (1, 2))
MACHINE = {
    "host": "bench",
    "cpu": "Some CPU",
    "cores": 2,
    "memory_bytes": 8_000_000_000,
    "device": "cpu",
    "gpu": [],
    "os": "Linux",
    "python": "3.11.7",
    "threads": 2,
    "packages": {"torch": "2.13.0", "numpy": "2.4.6"},
}


@dataclass(frozen=True)
class Machine:
    """How a machine behaves: standard deviations, as shares of a time."""

    run: float = 0.003  # the whole run
    drift: float = 0.005  # all cells of a round; the next round is half like it
    round: float = 0.005  # one cell in one round
    call: float = 0.01
    disturbed: float = 0.02  # the share of rounds of a cell that something slows by a tenth or so
    apart: float = 0.0  # how much slower a call is while the cores are far from each other
    moves: float = 0.1  # how often they are moved, from one cell to the next


QUIET = Machine()
SHARED = Machine(run=0.005, drift=0.015, round=0.01, call=0.02, disturbed=0.05)
MOVED = Machine(apart=0.4)
BUSY = Machine(run=0.003, drift=0.01, round=0.01, call=0.03, disturbed=0.6)
NEAR, FAR = 3.4e-6, 5.4e-6  # seconds to hand work to another thread


@dataclass
class Made:
    """What a run is made of."""

    seed: int = 0
    id: str = ""
    started: str = "2026-01-01T00:00:00+00:00"
    recipe: str = "recipes/synthetic.yaml"
    grid: tuple[tuple[float, int], ...] = GRID
    rounds: int = 3
    variants: tuple[str, ...] = ("float32",)
    factors: Mapping[Any, float] = field(
        default_factory=dict
    )  # of (seconds, batch) or of a variant: 1.1 is 10 % slower
    machine: Machine = QUIET
    environment: Mapping[str, Any] = field(default_factory=dict)
    gflops: tuple[float, float] = (100.0, 100.0)
    weights: str = "random"
    resolved: Mapping[str, Any] = field(default_factory=dict)


def make(made: Made) -> Results:
    """The results of such a run."""
    random_ = random.Random(made.seed)
    whole = random_.gauss(0, made.machine.run)
    drifts = [random_.gauss(0, made.machine.drift)]
    for _ in range(made.rounds - 1):
        drifts.append(0.5 * drifts[-1] + math.sqrt(0.75) * random_.gauss(0, made.machine.drift))
    cells = []
    distances = _distances(made)
    for variant in made.variants:
        for seconds, batch in made.grid:
            factor = made.factors.get((seconds, batch), 1.0) * made.factors.get(variant, 1.0)
            level = math.log(0.01 * seconds * batch * factor) + whole
            levels = [level + drift for drift in drifts]
            cells.append(_cell(made, random_, variant, seconds, batch, levels, distances.pop(0)))
    reference = [{"gflops": value, "gb_per_s": 10.0, "threads": 2} for value in made.gflops]
    settings = {variant: {"threads": 2} for variant in made.variants}
    environment = {**MACHINE, "reference": reference[0], "reference_at_end": reference[1], "settings": settings}
    return Results(
        run=Run(
            id=made.id or f"run-{made.seed}",
            recipe=made.recipe,
            recipe_sha256="0" * 64,
            command="profile.py",
            started=made.started,
            finished=made.started,
            status="complete",
            resolved=dict(made.resolved),
        ),
        environment={**environment, **made.environment},
        models=[
            Model(
                variant=variant,
                source="modules.Synthetic",
                type="Module",
                weights=made.weights,
                parameters={"total": 1000},
                size_bytes={"total": 4000},
            )
            for variant in made.variants
        ],
        cells=cells,
    )


def _distances(made: Made) -> list[list[tuple[float, float]]]:
    """Of each cell, in each round: how long handing over takes before and after. The cores stay where they are for some
    cells; a round is passed cell by cell."""
    random_, count = random.Random(made.seed + 1_000_000), len(made.variants) * len(made.grid)
    moved = [random_.random() < (0.5 if number == 0 else made.machine.moves) for number in range(count * made.rounds)]
    far = [sum(moved[: number + 1]) % 2 for number in range(len(moved))]
    places = [FAR if each else NEAR for each in [*far[:1], *far]]
    return [[(places[r * count + c], places[r * count + c + 1]) for r in range(made.rounds)] for c in range(count)]


def _cell(
    made: Made,
    random_: random.Random,
    variant: str,
    seconds: float,
    batch: int,
    levels: list[float],
    distances: list[tuple[float, float]],
) -> CellResult:
    machine, samples, counts = made.machine, [], []
    for level, (_, after) in zip(levels, distances, strict=True):
        here = level + random_.gauss(0, machine.round) + (machine.apart if after == FAR else 0.0)
        here += abs(random_.gauss(0, 0.1)) if random_.random() < machine.disturbed else 0.0
        calls = random_.randint(5, 40)
        samples += [math.exp(here + random_.gauss(0, machine.call)) for _ in range(calls)]
        counts.append(calls)
    median = statistics.median(samples)
    return CellResult(
        variant=variant,
        seconds=seconds,
        batch_size=batch,
        status="ok",
        rtf=median / (seconds * batch),
        rtfx=seconds * batch / median,
        latency_s=Latency(
            median=median,
            mean=median,
            std=0.0,
            min=min(samples),
            ci95=(median, median),
            n=len(samples),
            samples=samples,
            rounds=counts,
            warmup=[],
            stopped_by="width",
        ),
        verdict="stable",
        spread=0.01,
        conditions=[{"handoff_s": list(each)} for each in distances] if machine.apart else [],
        peak_memory_bytes=PeakMemory(process=500_000_000, tensors=1_000_000 * batch),
        input={"audio": "speech.flac", "seconds_of_audio": seconds * batch, "share_of_padding": 0.0},
    )


def save(results: Results, logdir: Path) -> Path:
    """The folder of the run, as the program would have left it."""
    folder = logdir / Path(results.run.recipe).stem / results.run.id
    folder.mkdir(parents=True)
    (folder / "results.json").write_text(json.dumps(results.model_dump(mode="json", by_alias=True)))
    return folder
