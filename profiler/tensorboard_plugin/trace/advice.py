"""Facts about the GPUs of a trace -> what stands out, in words, with the figure behind each."""

from __future__ import annotations

from typing import Any

from profiler.units import seconds_text

MUCH_IDLE = 0.1  # of a step
MUCH_LOADING = 0.05
MUCH_COPYING = 0.05
MUCH_TALKING = 0.1
MUCH_ELIGIBLE = 0.3  # of the kernels' time
LEAST_COMPUTE = 7  # the compute capability of the first GPUs that have tensor cores
LOW_OCCUPANCY = 30.0  # percent
UNEVEN = 1.25  # the slowest step over the median one
WHOLE = "all"  # the name of the one step of a recording without steps


def is_launch_bound(facts: dict[str, Any]) -> bool:
    """The device waits, and most of that in short pauses until the CPU launches what runs next."""
    return bool(facts["idle"] >= MUCH_IDLE and (facts["waiting_for_launches"] or 0.0) >= 0.5)


def advice(facts: dict[str, Any]) -> list[str]:
    said = [*_idle(facts), *_parts(facts), *_kernels(facts), *_steps(facts)]
    return said or [f"Nothing stands out: a device works in {1 - facts['idle']:.0%} of a step."]


def _of_step(facts: dict[str, Any], share: float) -> str:
    step = sum(one["total_s"] for one in facts["steps"]) / max(len(facts["steps"]), 1)
    whole = "a step" if facts["steps"] and facts["steps"][0]["name"] != WHOLE else "the recording"
    return f"{share:.1%} of {whole} ({seconds_text(share * step)} of {seconds_text(step)})"


def _idle(facts: dict[str, Any]) -> list[str]:
    shares, idle = facts["shares"], facts["idle"]
    if idle < MUCH_IDLE:
        return []
    causes = {
        "waits for the DataLoader": shares["dataloader"],
        "waits while the CPU runs operators": shares["operator"],
        f"waits while the CPU is in calls of the driver, longest in {facts['slowest_call']}": shares["runtime"],
        "waits while the CPU does what the trace does not tell": shares["other"],
    }
    cause = max(causes, key=lambda name: causes[name])
    most = "most of it" if causes[cause] >= idle / 2 else "the largest part of it"
    said = f"The GPU is idle {_of_step(facts, idle)}; {most}, {causes[cause]:.1%}, {cause}."
    if not facts["launch_bound"]:
        return [said]
    median = f" the median kernel takes {seconds_text(facts['kernel_median_s'])}." if facts["kernel_median_s"] else ""
    return [
        said,
        f"Launch-bound: {facts['waiting_for_launches']:.0%} of the idle time are short pauses until the CPU launches "
        f"the next kernel;{median} Larger batches, torch.compile or CUDA graphs launch less often.",
    ]


def _parts(facts: dict[str, Any]) -> list[str]:
    found = (
        (
            "dataloader",
            MUCH_LOADING,
            "The DataLoader takes",
            "the GPU has nothing to do: raise `num_workers`, so that batches are made while the GPU computes",
        ),
        (
            "memcpy",
            MUCH_COPYING,
            "Copies take",
            "no kernel runs: pinned memory and `non_blocking=True` let them overlap with kernels",
        ),
        (
            "communication",
            MUCH_TALKING,
            "Communication between GPUs takes",
            "no kernel runs: larger batches, gradient accumulation or fewer, larger messages make it less",
        ),
    )
    return [
        f"{what} {_of_step(facts, facts['shares'][role])} in which {advised}."
        for role, much, what, advised in found
        if facts["shares"][role] >= much
    ]


def _kernels(facts: dict[str, Any]) -> list[str]:
    said, eligible = [], facts["eligible"] or 0.0
    used = max((one["tensor_cores"] or 0.0 for one in facts["devices"]), default=0.0)
    able = any((one["compute"] or 0) >= LEAST_COMPUTE for one in facts["devices"])
    if eligible >= MUCH_ELIGIBLE and used < 0.01 and able:
        said.append(
            f"Matrix products and convolutions take {eligible:.0%} of the kernels' time and none of it on tensor "
            "cores: float16 or bfloat16 (autocast), or TF32 where the GPU has it, would use them."
        )
    return said + [
        f"GPU {one['id']}: its kernels keep {one['occupancy']:.0f} % of the warps busy (estimated occupancy): they are "
        "small for this GPU, and larger batches would fill it."
        for one in facts["devices"]
        if one["occupancy"] is not None and one["occupancy"] < LOW_OCCUPANCY and (one["utilisation"] or 0) >= 0.5
    ]


def _steps(facts: dict[str, Any]) -> list[str]:
    times = sorted(one["total_s"] for one in facts["steps"])
    if len(times) < 3 or times[-1] <= UNEVEN * times[len(times) // 2]:
        return []
    slow = max(facts["steps"], key=lambda one: one["total_s"])
    return [f"Step {slow['name']} takes {times[-1] / times[len(times) // 2]:.1f} times as long as the median step."]
