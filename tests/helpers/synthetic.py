"""Runs made of seeded random samples, in the shape of real ones: calls of a round are alike, rounds drift, runs differ.

For tests of what is done with many runs, whose truth must be known. Real runs are compared in tests/integration.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from profiler.results.statistics import estimate
from profiler.results.types import CellResult, Latency, ModelResult, PeakMemory, Results, Run

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
    floor: float = 0.005  # what `doctor` would have found: run to run, all of the above together


QUIET = Machine()
SHARED = Machine(run=0.015, drift=0.015, round=0.01, call=0.02, disturbed=0.05, floor=0.018)
STEADY = Machine(run=0.0, drift=0.0, round=0.0, call=0.001, disturbed=0.0, floor=0.0005)


@dataclass
class Made:
    """What a run is made of."""

    seed: int = 0
    id: str = ""
    started: str = "2026-01-01T00:00:00+00:00"
    recipe: str = "recipes/synthetic.yaml"
    grid: tuple[tuple[float, int], ...] = GRID
    rounds: int = 10
    variants: tuple[str, ...] = ("float32",)
    factors: Mapping[Any, float] = field(
        default_factory=dict
    )  # of (seconds, batch) or of a variant: 1.1 is 10 % slower
    machine: Machine = QUIET
    environment: Mapping[str, Any] = field(default_factory=dict)
    gflops: tuple[float, float] = (100.0, 100.0)
    source: str = "modules.Synthetic"
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
    for variant in made.variants:
        for seconds, batch in made.grid:
            factor = made.factors.get((seconds, batch), 1.0) * made.factors.get(variant, 1.0)
            level = math.log(0.01 * seconds * batch * factor) + whole
            levels = [level + drift for drift in drifts]
            cells.append(_cell(made.machine, random_, variant, seconds, batch, levels))
    reference = [{"gflops": value, "gb_per_s": 10.0, "threads": 2} for value in made.gflops]
    environment = {
        **MACHINE,
        "reference": reference[0],
        "reference_at_end": reference[1],
        "settings": {variant: {"threads": 2} for variant in made.variants},
        "noise_floor": {"value": made.machine.floor, "threads": 2, "measured": "2026-01-01T00:00:00+00:00"},
    }
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
            ModelResult(
                variant=variant,
                source=made.source,
                type="Module",
                weights=made.weights,
                parameters={"total": 1000},
                size_bytes={"total": 4000},
            )
            for variant in made.variants
        ],
        cells=cells,
    )


def _cell(
    machine: Machine, random_: random.Random, variant: str, seconds: float, batch: int, levels: list[float]
) -> CellResult:
    rounds = []
    for level in levels:
        here = level + random_.gauss(0, machine.round)
        here += abs(random_.gauss(0, 0.1)) if random_.random() < machine.disturbed else 0.0
        rounds.append([math.exp(here + random_.gauss(0, machine.call)) for _ in range(random_.randint(3, 8))])
    return CellResult(
        variant=variant,
        seconds=seconds,
        batch_size=batch,
        status="ok",
        latency_s=latency(rounds),
        rtf=latency(rounds).median / (seconds * batch),
        rtfx=seconds * batch / latency(rounds).median,
        verdict="stable",
        conditions=[{"round": number} for number in range(len(levels))],
        peak_memory_bytes=PeakMemory(process=500_000_000, tensors=1_000_000 * batch),
        input={"audio": "speech.flac", "seconds_of_audio": seconds * batch, "share_of_padding": 0.0},
    )


def latency(rounds: list[list[float]]) -> Latency:
    """What a run would have made of the calls of these rounds."""
    figure, samples = estimate(rounds), [call for calls in rounds for call in calls]
    return Latency(
        median=figure.value,
        ci95=figure.ci95,
        mean=figure.value,
        std=0.0,
        min=min(samples),
        n=len(samples),
        samples=samples,
        rounds=[len(calls) for calls in rounds],
        warmup=[],
        stopped_by="width",
    )


def save(results: Results, logdir: Path) -> Path:
    """The folder of the run, as the program would have left it."""
    folder = logdir / Path(results.run.recipe).stem / results.run.id
    folder.mkdir(parents=True)
    (folder / "results.json").write_text(json.dumps(results.model_dump(mode="json", by_alias=True)))
    return folder
