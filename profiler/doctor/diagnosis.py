"""All checks and the trial -> the answer: fit, usable with care, not fit; and as text or JSON."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import psutil

from profiler.conditions import floor as floors
from profiler.conditions.floor import ASSUMED, Floor
from profiler.conditions.gpu import with_slowdown
from profiler.doctor import checks
from profiler.doctor.checks import Check
from profiler.doctor.trial import CONFIDENCE, FEWEST_RUNS, Noise, OnStep, Trial, estimate_noise, run_trial
from profiler.environment import (
    RECORDED,
    allowed_cpus,
    available_memory,
    memory_limit,
    read_gpus,
    versions,
    worker_environment,
)
from profiler.errors import StorageError, WorkerError
from profiler.recipe.schema import Measure
from profiler.results.runs import now
from profiler.results.types import Gpu
from profiler.units import many, seconds_text

Answer = Literal["fit", "care", "unfit", "unknown"]
UNFIT = 0.25  # where a quarter more time cannot be seen between two runs, they are not worth comparing
WIDTH = 80
STATUS_WIDTH, NAME_WIDTH = 9, 17
NO_BREAK = "\N{NO-BREAK SPACE}"
DISTURBANCES = ("other processes", "steal", "throttling", "swap")  # during the trial
ASK_SECONDS = 60.0  # importing torch and waking a GPU take some seconds
ASK_TORCH = """
import json
from profiler.device import Device
device = Device("cuda:0")
device.require()
facts = device.facts()
print(json.dumps([device.flags(), facts and facts.compute]))
"""
SPIN = (*RECORDED, "GOMP_SPINCOUNT")


@dataclass(frozen=True)
class Diagnosis:
    """Everything that doctor says."""

    threads: int
    checks: list[Check]
    noise: Noise | None  # None where the trial failed
    floor: Floor | None  # what is kept; None likewise
    rounds: int  # of a default run, for the smallest change
    seconds: float

    @property
    def answer(self) -> Answer:
        status = {check.status for check in self.checks}
        if self.floor is None:
            return "unknown"
        if "bad" in status or self.smallest["compare"] > UNFIT:
            return "unfit"
        return "care" if "warn" in status or self.floor.value > ASSUMED else "fit"

    @property
    def smallest(self) -> dict[str, float]:
        """The smallest change that can be seen: {compare}, as a share; empty without a trial."""
        if self.noise is None or self.floor is None:
            return {}
        noise = Noise(**{**asdict(self.noise), "floor": self.floor.value})
        return {"compare": noise.smallest_between_runs(self.rounds)}

    def to_json(self) -> dict[str, Any]:
        return {
            "answer": self.answer,
            "sentence": self.sentence(),
            "threads": self.threads,
            "floor": asdict(self.floor) if self.floor else None,
            "floor_file": str(floors.state_file()),
            "noise": asdict(self.noise) if self.noise else None,
            "smallest_change": self.smallest | {"rounds": self.rounds},
            "checks": [asdict(check) for check in self.checks],
            "seconds": round(self.seconds, 1),
        }

    def sentence(self) -> str:
        """The answer in one sentence."""
        worst = "bad" if any(check.status == "bad" for check in self.checks) else "warn"
        problems = [check.name for check in self.checks if check.status == worst]
        if self.answer == "unknown":
            return "Not known: the trial could not be made, so the noise was not measured."
        seen = f"changes of {_percent(self.smallest['compare'])} or more can be seen between runs"
        if self.answer == "fit":
            return f"Fit for measuring: {seen}."
        if self.answer == "care":
            return f"Usable with care: {seen}{_look_at(problems)}."
        return f"Not fit for measuring: only {seen}{_look_at(problems)}."

    def text(self) -> str:
        """At most 80 columns wide, the answer first."""
        lines = [*_wrap(self.sentence(), "", ""), ""]
        for check in self.checks:
            lines += _lines(check)
        lines.append("")
        if self.floor is not None:
            kept = f"Noise floor for `compare`: {_share(self.floor.value)} with {many(self.threads, 'thread')}"
            lines += [f"{kept},", f"{self.floor.source},", f"in {floors.state_file()}"]
        if self.answer in ("care", "unfit"):
            lines.append("The last trial counts: run doctor again once what is marked is fixed.")
        lines.append(f"Took {seconds_text(self.seconds)}.")
        return "\n".join(lines)


def diagnose(
    threads: int | None,
    logdir: Path,
    on_step: OnStep = lambda done, of: None,
    measure: Callable[[int, OnStep], Trial] = run_trial,
) -> Diagnosis:
    """Look at the machine, make the trial, keep the floor."""
    start = time.monotonic()
    cpus = allowed_cpus()
    threads = threads or len(cpus)
    load = os.getloadavg()[0]  # before the trial adds to it
    memory = checks.memory(available_memory(), psutil.virtual_memory().total, memory_limit())
    problem = ""
    try:
        trial = measure(threads, on_step)
    except WorkerError as error:
        trial, problem = Trial(), str(error)
    noise = estimate_noise(trial.runs) if len(trial.runs) >= FEWEST_RUNS else None
    others, rounds = trial.conditions.other_cpus, Measure().rounds
    # What the speed of the trial's model depends on; levels of different versions are not compared.
    software = " ".join(["torch", *filter(None, [versions().get("torch")])])
    found = [
        *_noise_checks(noise, problem, threads, software),
        checks.load(load, len(cpus)),
        checks.other_processes(others, trial.busy),
        checks.steal(trial.conditions.stolen_cpus, len(cpus)),
        checks.throttling(trial.conditions.throttled),
        checks.cpu_limit(threads),
        checks.affinity(threads, cpus, os.cpu_count() or len(cpus)),
        checks.hyperthreading(threads, cpus),
        checks.spinning(threads, len(cpus), others),
        checks.inter_thread_latency(trial.handoff_s, threads),
        checks.governor(),
        checks.frequency(),
        checks.turbo(),
        checks.clock_source(),
        memory,
        checks.swapping(*trial.swapped),
        checks.huge_pages(),
        checks.settings(os.environ, SPIN),
        checks.disk(logdir),
        checks.untrusted_models(),
        *_gpu_checks(with_slowdown(read_gpus())),
    ]
    kept = None
    if noise is not None:
        disturbed = any(check.name in DISTURBANCES and check.status in ("warn", "bad") for check in found)
        kept, remark = _keep(threads, noise, software, not disturbed)
        found = [_floor_check(noise, kept), *found, *remark]
    return Diagnosis(threads, found, noise, kept, rounds, time.monotonic() - start)


def _gpu_checks(gpus: list[Gpu]) -> list[Check]:
    if not gpus:
        return checks.gpus(gpus)
    flags, compute = _torch_on_gpu()
    return [*checks.gpus(gpus), checks.torch_on_gpu(flags, compute, os.environ)]


def _torch_on_gpu() -> tuple[dict[str, str] | None, str | None]:
    """Settings of torch, and the first GPU's capability, asked in a process of its own: this one has no torch."""
    program = [sys.executable, "-P", "-c", ASK_TORCH]
    try:
        answer = subprocess.run(
            program, env=worker_environment(1), capture_output=True, text=True, timeout=ASK_SECONDS, check=True
        )
        flags, compute = json.loads(answer.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None, None
    return flags, compute


def _noise_checks(noise: Noise | None, problem: str, threads: int, software: str) -> list[Check]:
    """What the trial says beside the floor itself."""
    if noise is None:
        return [Check("noise floor", "unknown", f"the trial failed: {problem or 'too few runs'}")]
    found = [Check("rounds", "ok", f"SD {_share(noise.between_rounds)} within a run")]
    earlier = [trial for trial in floors.earlier_trials(threads) if trial.software == software]
    words = "; no earlier trial to compare with"
    if earlier:
        change, day = noise.level_s / earlier[-1].level_s - 1, earlier[-1].measured.split("T")[0]
        words = f", {_share(abs(change))} {'slower' if change > 0 else 'faster'} than on {day}"
    return [*found, Check("speed", "ok", f"{seconds_text(noise.level_s)} per call{words}")]


def _floor_check(noise: Noise, floor: Floor) -> Check:
    found = f"{_share(floor.value)} (SD of {noise.runs} equal runs {_share(noise.between_runs)}, "
    found += f"{100 * CONFIDENCE:.0f} % upper bound {_share(noise.floor)})"
    if floor.value > noise.floor:
        found += "; earlier trials differ more"
    if floor.value <= ASSUMED:
        return Check("noise floor", "ok", found)
    return Check("noise floor", "warn", found, "See what else is marked here; compare turn by turn with `ab`.")


def _keep(threads: int, noise: Noise, software: str, undisturbed: bool) -> tuple[Floor, list[Check]]:
    try:
        return floors.keep_floor(threads, noise.floor, noise.level_s, software, now(), undisturbed), []
    except StorageError as error:
        advice = f"Make the folder writable, or name another in {floors.STATE}."
        return Floor(noise.floor, "measured now, not kept"), [Check("state folder", "warn", str(error), advice)]


def _look_at(problems: list[str]) -> str:
    if not problems:
        return ""
    shown = ", ".join(problems[:3]) + (f" and {len(problems) - 3} more" if len(problems) > 3 else "")
    return f"; look at {shown}"


def _percent(share: float) -> str:
    """Rounded up to whole per cents: it is an estimate."""
    return f"{max(1, math.ceil(100 * share - 1e-9))} %"


def _share(value: float) -> str:
    return f"{100 * value:.1f} %"


def _lines(check: Check) -> list[str]:
    indent = " " * (STATUS_WIDTH + NAME_WIDTH)
    start = f"{check.status:<{STATUS_WIDTH}}{check.name:<{NAME_WIDTH}}"
    lines = _wrap(check.found, start, indent)
    return lines + (_wrap(f"-> {check.advice}", indent, indent + "   ") if check.advice else [])


def _wrap(text: str, start: str, indent: str) -> list[str]:
    """Lines of at most 80 columns, with no number parted from its `%`."""
    whole = text.replace(" %", NO_BREAK + "%")
    lines = textwrap.wrap(whole, WIDTH, initial_indent=start, subsequent_indent=indent, break_on_hyphens=False)
    return [line.replace(NO_BREAK, " ") for line in lines]
