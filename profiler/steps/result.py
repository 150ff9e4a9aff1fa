"""Steps of one's own code -> an ordinary run: results.json in a folder of its own, which every command opens."""

from __future__ import annotations

import hashlib
import itertools
import json
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profiler import __version__, messages
from profiler.conditions.floor import record_floor
from profiler.environment import read_environment, read_repository, read_state, recorded_settings
from profiler.measure.phases import phases_of
from profiler.measure.verdict import judge
from profiler.metrics import LATENCY, PEAK, RTF
from profiler.results.runs import now
from profiler.results.statistics import BLOCKS, cut, percentiles
from profiler.results.store import ResultsFile
from profiler.results.types import (
    LOOP_PHASES,
    CellInput,
    CellResult,
    Environment,
    Latency,
    ModelResult,
    Parameters,
    Results,
    Run,
    Size,
    StepFigures,
)

if TYPE_CHECKING:
    import torch

    from profiler.steps.recorder import Steps

ONE_PROCESS = (
    "Steps of one process, one after another: the 95 % CI is over blocks of consecutive ones, and does not tell how "
    "the next start of the program will differ."
)
ONCE = "every step was recorded, and timing under the profiler is not timing: more steps have a time"

DISTURBED = "another profiler was on in the steps that were to be timed"


@dataclass(frozen=True)
class Profiled:
    """What a run of one's own code is of."""

    name: str
    source: str  # the function or the class
    kind: str  # function, loop, Brain, ...
    settings: dict[str, Any]
    seconds: float
    batch_size: int
    width: float  # wanted of the 95 % CI
    loop: bool  # steps have a data loader to wait for
    device: str
    file: Path | None  # where the code is


def begin_run(folder: Path, about: Profiled) -> Results:
    """Results that have no cell yet. The machine is looked at before the first step."""
    import torch

    threads = torch.get_num_threads()
    settings = {"own_code": about.settings, "mode": _mode(about)}
    text = json.dumps(settings, sort_keys=True, default=str)
    run = Run(
        id=folder.name,
        recipe=about.name,
        recipe_sha256=hashlib.sha256(text.encode()).hexdigest(),
        command=" ".join(sys.argv),
        started=now(),
        profiler_version=__version__,
        resolved=json.loads(text),
        notes=[ONE_PROCESS],
    )
    environment: Environment = read_environment().model_copy(
        update={
            "repository": read_repository(about.file.resolve().parent) if about.file else None,
            "threads": threads,
            "device": about.device,
            "settings": {about.name: recorded_settings(threads)},
            "noise_floor": record_floor(threads),
        }
    )
    return Results(run=run, environment=environment)


def write_run(
    folder: Path,
    results: Results,
    about: Profiled,
    steps: Steps,
    model: torch.nn.Module | None,
    ended_by: BaseException | None,
    final: bool,
) -> Results:
    """All that is known of the steps, on disk. `ended_by`: the error that they ended with; `final`: no more come."""
    error = f"{type(ended_by).__name__}: {ended_by}" if ended_by is not None else None
    cell = cell_of(about, steps, error)
    results.cells = [cell]
    results.models = [_model(about, model)]
    run = results.run
    run.resolved["mode"] = _mode(about)
    run.rounds = len(cell.latency_s.rounds) if cell.latency_s else 0
    if final:
        run.finished = now()
        stopped = isinstance(ended_by, KeyboardInterrupt)
        failed = error is not None or not steps.seen
        run.status = "interrupted" if stopped else "finished with failures" if failed else "complete"
    run.notes = [ONE_PROCESS, *_notes(steps, error)]
    results.environment.at_end = read_state()
    file = ResultsFile(folder, results)
    file.write()
    file.close()
    return results


def _mode(about: Profiled) -> str:
    return "training" if about.loop else "inference"


def summary(results: Results) -> str:
    """A run of one's own code in one line: '12.3 ms per call ~4%, RTF 0.02, peak memory 512 MB'."""
    cell = results.cells[0]
    if cell.status == "failed":
        return f"failed: {cell.reason}"
    thing = "step" if cell.training else "call"
    without = " ".join(cell.verdict_reasons).rstrip(".").replace("No time", "no time")
    found = [f"{LATENCY.cell_text(cell)} per {thing}" if cell.latency_s else without]
    for name, phase in ((cell.training.phases if cell.training else None) or {}).items():
        found.append(f"{name} {phase.share:.0%}")
    found += [f"{metric.short} {metric.cell_text(cell)}" for metric in (RTF, PEAK) if metric.in_cell(cell) is not None]
    return ", ".join(found)


def _notes(steps: Steps, error: str | None) -> list[str]:
    found = [f"The code ended with an error: {error}"] if error else []
    if steps.raised:
        found.append(f"Steps that raised an error, and are in no figure: {steps.raised}.")
    if steps.disturbed:
        found.append(f"Steps during which another profiler was on, and which are in no figure: {steps.disturbed}.")
    return found


def _model(about: Profiled, model: torch.nn.Module | None) -> ModelResult:
    result = ModelResult(variant=about.name, source=about.source, type=about.kind)
    if model is not None:
        parameters = list(model.parameters())
        buffers = list(model.buffers())
        result.parameters = Parameters(
            total=sum(each.numel() for each in parameters),
            trainable=sum(each.numel() for each in parameters if each.requires_grad),
            buffers=sum(each.numel() for each in buffers),
        )
        result.size_bytes = Size(total=sum(each.numel() * each.element_size() for each in (*parameters, *buffers)))
    return result


def cell_of(about: Profiled, steps: Steps, error: str | None) -> CellResult:
    """The one cell of such a run."""
    audio = about.seconds * about.batch_size
    cell = CellResult(
        variant=about.name,
        seconds=about.seconds,
        batch_size=about.batch_size,
        status="ok" if steps.seen else "failed",
        reason=None if steps.seen else error or "no step was seen to its end",
        timed_region=f"one {'step of the loop' if about.loop else 'call'} of {about.source}",
        peak_memory_bytes=steps.memory,
        energy_reason="energy is not measured in one's own code",
        operations_reason="operations are not counted in one's own code",
        trace=steps.trace,
        trace_reason=None if steps.trace else steps.trace_reason or "the schedule's recorded steps were not reached",
    )
    if audio:
        cell.input = CellInput(audio="the code's own", seconds_of_audio=audio)
    if steps.recorded is not None:
        cell.breakdown = steps.recorded.breakdown
    else:
        cell.breakdown_reason = cell.trace_reason
    if steps.wall:
        _put_times(cell, about, steps, audio)
    elif cell.status == "ok":
        cell.verdict_reasons = [f"No time: {DISTURBED if steps.disturbed else ONCE}."]
    return cell


def rounds_of(count: int) -> list[int]:
    """How many consecutive steps make each round: ten rounds, or one for each step where there are fewer."""
    rounds = min(count, BLOCKS)
    edges = [count * number // rounds for number in range(rounds + 1)]
    return [end - start for start, end in itertools.pairwise(edges)]


def _put_times(cell: CellResult, about: Profiled, steps: Steps, audio: float) -> None:
    wall, counts = steps.wall, rounds_of(len(steps.wall))
    by_round = cut(wall, counts)
    # Neighbouring steps of a loop have nothing to do with each other: no search for cached results in pairs of them.
    figure, cell.verdict, disturbances = judge(by_round, cut(steps.cpu, counts), [], about.width)
    cell.disturbances = {kind: value for kind, value in disturbances.items() if kind != "caching"}
    cell.verdict_reasons = [messages.sentence(*each) for each in cell.disturbances.items()]
    cell.latency_s = Latency(
        median=figure.value,
        ci95=figure.ci95,
        mean=statistics.fmean(wall),
        std=statistics.stdev(wall) if len(wall) > 1 else 0.0,
        min=min(wall),
        n=len(wall),
        samples=list(wall),
        cpu=list(steps.cpu),
        rounds=counts,
        warmup=list(steps.warmup),
        stopped_by="the code",
        percentiles=percentiles(wall),
        left_out=steps.disturbed,
    )
    if audio:
        cell.rtf = figure.value / audio
        cell.rtfx = 1.0 / cell.rtf if cell.rtf else None
    if about.loop:
        parts = [[waited, took - waited] for took, waited in zip(wall, steps.waited, strict=True)]
        cell.training = StepFigures(
            phases=phases_of(parts, LOOP_PHASES),
            seconds_of_audio_per_second=cell.rtfx,
            loss=None,
        )
