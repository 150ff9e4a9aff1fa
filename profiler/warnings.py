"""All that a run may warn of, as full sentences in one place."""

from __future__ import annotations

FIRST_CALL_SLOW = "The first timed call of a round was slow: the warm-up is too short (measure.warmup)."
THROTTLED = "The processor was throttled meanwhile, by heat or by a CPU limit of the container."
UNKNOWN_NOISE = "Calls differ more than wanted for no reason that the system shows; a larger measure.budget may help."
RANDOM_DATA = "The input is random data, not speech: decoders may take other paths on it than on speech."
RANDOM_WEIGHTS = "Random weights: the exact architecture, unlearned. Speed and memory hold, the output means nothing."


def caching(ratio: float) -> str:
    return (
        f"A repeated input took {ratio:.0%} of the time of a new one: something caches results, "
        "so the figures are too good for real use."
    )


def drift_between_rounds(share: float) -> str:
    return f"One round was {share:.0%} slower than another: the machine's speed changed during the run."


def other_processes(cpus: float) -> str:
    return f"Other processes used {cpus:.1f} CPUs meanwhile."


def cpu_stolen(cpus: float) -> str:
    return f"The hypervisor took {cpus:.2f} CPUs away meanwhile (steal)."


def cores_moved(shortest: float, longest: float) -> str:
    return (
        "The cores that threads ran on were nearer to each other at one time than at another: handing work over took "
        f"{shortest * 1e6:.1f} to {longest * 1e6:.1f} us (--threads 1 does not depend on it)."
    )


def busy_at_start(load: float, cores: int) -> str:
    return (
        f"The machine is busy (load {load:.1f} on {cores} cores): figures will be noisy, and with more than one thread "
        "many times too slow, because threads spin while they wait for one another (--threads 1 does not)."
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
    return f"{count} other process(es) use the GPU: figures will be noisy."
