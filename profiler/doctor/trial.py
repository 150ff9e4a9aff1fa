"""The A/A trial: one small model, measured in several equal runs side by side, through the machinery of a real run.

    load worker 1, 2, ... 7 | round 1: 3 1 7 2 6 4 5 | round 2: 5 2 6 1 4 7 3 | ... round 10

Each run has a worker of its own, as real runs have, and each round a fork of it: a few calls after warm-up. A real run
spreads the rounds of a cell over minutes, so that a burst of a few seconds falls on few of them; here runs take turns,
and each is spread over the whole trial. Nothing differs between them: what differs in their figures is noise. What
changes slower than the trial lasts shows against earlier trials (conditions/floor.py). torch is in the workers alone.
"""

from __future__ import annotations

import math
import os
import random
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from profiler.conditions.counters import between, read_counters
from profiler.doctor.checks import BUSY_CPUS, swapped_pages
from profiler.execution.channel import CellJob
from profiler.execution.workers import Workers
from profiler.measure.latency import RoundSize
from profiler.measure.passes.time import Round
from profiler.recipe.load import LoadedRecipe
from profiler.recipe.schema import Recipe
from profiler.results.types import Condition
from profiler.temporary import TemporaryFolder

VARIANT = "float32"
SECONDS = 2.0  # of audio
RECIPE = {
    "pretrained_model": {"source": "profiler.doctor.encoder.TrialEncoder", "type": "Module", "weights": "random"},
    "profiling_dimensions": {"audio_mockup_secs": [SECONDS], "batch_sizes": [1]},
}
SIZE = RoundSize(warmup=2, min_calls=3, max_calls=5, seconds=0.5)
RUNS, ROUNDS = 7, 10  # as many rounds as a run has by default
FEWEST_ROUNDS = 3
CONFIDENCE = 0.8  # of the bound on the floor: a standard deviation of a handful of runs is rough
POWER = 0.8  # a change of the smallest size is found in 4 of 5 comparisons, as is usual
LEVEL = 0.95  # of the comparison's interval
FEWEST_RUNS = 3
# The whole takes less than a minute: no worker is started after the first, no round after the second. On a machine so
# slow that the fewest runs and rounds take longer, these are made all the same.
LOADING_SECONDS, TRIAL_SECONDS = 25.0, 48.0
ROUND_TIMEOUT = 60.0

OnStep = Callable[[int, int], None]  # workers loaded and rounds done, and how many there are in all


@dataclass
class Trial:
    """What the trial measured, and what happened on the machine meanwhile."""

    runs: list[list[float]] = field(default_factory=list)  # the median of each round, in seconds
    handoff_s: list[float] = field(default_factory=list)
    conditions: Condition = field(default_factory=Condition)
    busy: list[tuple[str, float]] = field(default_factory=list)  # other processes and the CPUs they used
    swapped: tuple[int | None, int | None] = (None, None)  # pages, before and after
    seconds: float = 0.0


def run_trial(threads: int, on_step: OnStep = lambda done, of: None) -> Trial:
    """Measure; raises WorkerError where a worker cannot be started or dies."""
    trial, start = Trial(), time.monotonic()
    processes, pages = _cpu_seconds(), swapped_pages()
    counters = read_counters([], _children())
    with TemporaryFolder() as folder, ExitStack() as workers:
        runs: list[Workers] = []
        while len(runs) < RUNS and (len(runs) < FEWEST_RUNS or time.monotonic() - start < LOADING_SECONDS):
            on_step(len(runs), RUNS + ROUNDS)
            runs.append(_workers(folder / str(len(runs)), threads))
            workers.callback(runs[-1].close)
            runs[-1].ready(VARIANT)
        trial.runs = [[] for _ in runs]
        order = list(range(len(runs)))
        for number in range(ROUNDS):
            if number >= FEWEST_ROUNDS and time.monotonic() - start >= TRIAL_SECONDS:
                break
            on_step(RUNS + number, RUNS + ROUNDS)
            # The same audio in every run.
            job = CellJob(
                threads=threads,
                passes=("time",),
                seconds=SECONDS,
                batch_size=1,
                seed=number,
                size=SIZE,
                handoff=threads > 1,
            )
            random.Random(number).shuffle(order)
            for run in order:
                found: Round = runs[run].do(VARIANT, job, ROUND_TIMEOUT, lambda event: None)["time"].result
                trial.runs[run].append(statistics.median(found.timing.samples))
                trial.handoff_s += [found.handoff_s] if found.handoff_s is not None else []
    trial.seconds = time.monotonic() - start
    trial.conditions = between(counters, read_counters([], _children()))
    trial.busy = busiest(processes, _cpu_seconds(), trial.seconds)
    trial.swapped = (pages, swapped_pages())
    return trial


def _workers(folder: Path, threads: int) -> Workers:
    folder.mkdir()
    recipe = Recipe.model_validate(RECIPE)
    loaded = LoadedRecipe(folder / "doctor.yaml", "", recipe, {VARIANT: recipe})
    return Workers(loaded, folder, "cpu", {VARIANT: threads})


def _children() -> float:
    """CPU seconds of processes that we started and that have ended, with what these started."""
    times = os.times()
    return times.children_user + times.children_system


def _cpu_seconds() -> dict[tuple[int, str], float]:
    """(pid, name) -> CPU seconds so far of every process but this one."""
    found = {}
    for process in psutil.process_iter(["pid", "name", "cpu_times"]):
        times = process.info["cpu_times"]
        if times is not None and process.pid != os.getpid():  # a process of others may not tell
            found[process.pid, process.info["name"] or "?"] = times.user + times.system
    return found


def busiest(
    before: dict[tuple[int, str], float], after: dict[tuple[int, str], float], seconds: float
) -> list[tuple[str, float]]:
    """Processes that used CPUs worth naming in between, the busiest first, as 'name (pid)'."""
    used = {
        f"{name} ({pid})": (spent - before.get((pid, name), 0.0)) / max(seconds, 1e-6)
        for (pid, name), spent in after.items()
    }
    return sorted(((who, cpus) for who, cpus in used.items() if cpus >= BUSY_CPUS), key=lambda found: -found[1])


# -- rounds of equal runs -> how much the machine varies, and the smallest change that can be seen between two runs. All
# on the log scale: estimates from a short trial, on the careful side


@dataclass(frozen=True)
class Noise:
    """What a trial says. Standard deviations are of logs: 0.02 is 2 %."""

    runs: int
    level_s: float  # median of the runs' figures: seconds of one call
    between_runs: float  # SD of the runs' figures
    floor: float  # its upper 80 % confidence bound
    between_rounds: float  # SD of rounds' medians within a run

    def smallest_between_runs(self, rounds: int) -> float:
        """The smallest change that `compare` finds between two runs of so many rounds, as a share (0.05: 5 %).

        exp((z_0.975 + z_0.8) sqrt(2 (floor^2 + pi/2 between_rounds^2 / rounds))) - 1: the figure of a run is the median
        of its rounds, whose variance is pi/2 times that of a mean. `compare` adds the two in the same way. The floor,
        being the SD of whole runs, has the rounds' share in it once more: that makes up for what a minute cannot show.
        """
        own = math.pi / 2 * self.between_rounds**2 / rounds
        normal = statistics.NormalDist()
        deviations = normal.inv_cdf((1 + LEVEL) / 2) + normal.inv_cdf(POWER)
        return math.exp(deviations * math.sqrt(2 * (self.floor**2 + own))) - 1


def estimate_noise(runs: Sequence[Sequence[float]]) -> Noise:
    """From the rounds' medians of each run, in seconds; at least 3 runs of at least 2 rounds.

    floor = s sqrt((k - 1) / chi2_0.2(k - 1)) with s the SD of the k runs' figures: the upper end of a one-sided 80 %
    confidence interval of a normal SD.
    """
    from scipy.special import gammaincinv

    figures = [math.log(statistics.median(rounds)) for rounds in runs]
    free = len(figures) - 1
    between = statistics.stdev(figures)
    logs = [[math.log(value) for value in rounds] for rounds in runs]
    chi2 = 2 * float(gammaincinv(free / 2, 1 - CONFIDENCE))
    return Noise(
        runs=len(figures),
        level_s=math.exp(statistics.median(figures)),
        between_runs=between,
        floor=between * math.sqrt(free / chi2),
        between_rounds=math.sqrt(statistics.fmean(statistics.variance(rounds) for rounds in logs)),
    )
