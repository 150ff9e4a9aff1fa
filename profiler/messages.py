"""All that a run may warn of, as full sentences in one place."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from profiler.units import many, seconds_text

RANDOM_DATA = "The input is random data, not speech: decoders may take other paths on it than on speech."
RANDOM_ADDRESSES = (
    "Address space randomisation cannot be switched off here (containers may forbid it): equal sides may differ by "
    "1 to 2 %, because their processes lie at other addresses."
)
SHARED_PAGES = (
    "Processes cannot be given memory pages of their own here (that takes Linux 5.14): equal sides may differ by about "
    "1 % in all rounds alike, because of where their weights lie."
)
LARGE_MODEL = (
    "The model is too large for a copy of its memory pages in each round: equal sides may differ by about 1 % in all "
    "rounds alike, because of where their weights lie."
)
WAITING_THREADS = (
    "Threads of torch that wait for others follow OMP_WAIT_POLICY={} in all variants, since this run compares engines: "
    "by themselves they would spin for a while, and take CPU time from whatever else runs."
)
NO_SANDBOX = (
    "No sandbox was in force: {}. What the model's files make their library do could write files and open connections; "
    "run models that you do not trust elsewhere."
)
RANDOM_WEIGHTS = "Random weights: the exact architecture, untrained. Speed and memory hold, the output means nothing."

# What a cell may have met, by kind, each with the figure that shows it. Of several cells the worst is said.
DISTURBANCES: dict[str, Callable[[float], str]] = {
    "too_few_rounds": lambda rounds: (
        f"{many(round(rounds), 'round')}: too few for a 95 % CI, which takes 6 (measure.rounds)."
    ),
    "long_calls": lambda seconds: (
        f"calls of up to {seconds_text(seconds)}: the time of a cell (measure.budget) is too short for the 6 rounds "
        "that a 95 % CI takes."
    ),
    "other_processes": lambda cpus: f"other processes used up to {cpus:.1f} CPUs meanwhile.",
    "stretched": lambda ratio: (
        f"wall time grew up to {ratio:.1f} times while CPU time did not: other processes ran on the same CPUs."
    ),
    "stolen": lambda cpus: f"the hypervisor took up to {cpus:.2f} CPUs away (steal).",
    "throttled": lambda count: "the processor was throttled, by heat or by a CPU limit of the container.",
    "gpu_held_back": lambda share: (
        f"the GPU's clock was lowered by heat or its power limit in up to {share:.0%} of a round."
    ),
    "gpu_used": lambda share: f"another process used the GPU, up to {share:.0%} of the time.",
    "gpu_others": lambda count: f"other processes ({count:.0f}) had the GPU open.",
    "thread_latency": lambda seconds: (
        f"inter-thread latency varied between rounds (up to {seconds * 1e6:.1f} µs): vCPUs were probably moved; "
        "--threads 1 does not depend on it."
    ),
    "paused": lambda calls: (
        f"{many(round(calls), 'call')} left out: the process was stopped, or the machine slept, in the middle of them."
    ),
    "slow_first_call": lambda ratio: (
        f"the first timed call took {ratio:.1f} times as long as the others: the warm-up is too short (measure.warmup)."
    ),
    "unknown": lambda spread: f"rounds differ by up to {spread:.0%}, for no reason that the system shows.",
    "caching": lambda ratio: (
        f"a repeated input took {ratio:.0%} of the time of a new one: something caches results, so the figures are too "
        "good for real use."
    ),
}


def disturbance(kind: str, value: float) -> str:
    """A sentence without its subject, to follow '8 of 9 cells: '."""
    return DISTURBANCES[kind](value)


def sentence(kind: str, value: float) -> str:
    """The same about one cell, as a sentence of its own."""
    text = disturbance(kind, value)
    return text[0].upper() + text[1:]


def worst(found: list[Mapping[str, float]]) -> dict[str, tuple[int, float]]:
    """Of several cells: each kind with the number of cells that met it and the worst figure, in the order above."""
    listed = {kind: [each[kind] for each in found if kind in each] for kind in DISTURBANCES}
    smallest_is_worst = ("caching", "too_few_rounds")
    return {
        kind: (len(values), min(values) if kind in smallest_is_worst else max(values))
        for kind, values in listed.items()
        if values
    }


def busy_at_start(load: float, cores: int, threads: int | None) -> str:
    said = f"The machine is busy (load {load:.1f} on {cores} cores): figures will be unstable"
    if threads == 1:
        return f"{said}."
    return (
        f"{said}, and with several threads many times too slow, because threads spin while they wait for one another "
        "(--threads 1 does not)."
    )


def governor(name: str) -> str:
    return f"The CPU governor is `{name}`, so the clock changes with load; `performance` gives steadier figures."


def reference_drift(change: float) -> str:
    direction = "slower" if change < 0 else "faster"
    return (
        f"The reference workload ran {abs(change):.0%} {direction} at the end than at the start: "
        "the machine changed during the run."
    )


def gpu_shared(count: int) -> str:
    return f"Other processes use the GPU ({count}): figures will be unstable."


def several_devices(names: list[str]) -> str:
    return (
        f"Cells are measured at the same time on {len(names)} equal devices ({', '.join(names)}), all rounds of a cell "
        "on the same one. They share the machine's CPUs and memory: for the steadiest figures use one."
    )


def gpu_unwatched(why: str) -> str:
    return f"Whether heat, power or other processes disturb the GPU cannot be seen: {why}."


def stopped(by: str, rounds: int, unstable: int, cells: int) -> str:
    """Why a run made no more rounds."""
    if by == "width":
        return f"Stopped after {rounds} rounds: the 95 % CI of every cell is as narrow as wanted."
    wide = f"{unstable} of {cells} cells are still wider than wanted"
    if by == "budget":
        return f"Stopped after {rounds} rounds: the time is spent (measure.budget); {wide}."
    if by == "decided":
        return f"Stopped after {rounds} rounds: every cell is decided."
    return f"Stopped after {many(rounds, 'round')}, as asked (measure.rounds): too few for a 95 % CI."


FAILED_IN_LIBRARY = (
    "An error inside the model or its library: worker.log in the run's folder has all of it. Install what it asks for; "
    "a setting that it names goes into pretrained_model.overrides; leave out lengths and batch sizes that the model "
    "does not take."
)
