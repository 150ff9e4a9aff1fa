"""What a GPU and torch are set to -> what that does to figures, in sentences with the figure behind each: for the notes
of a run, and for `doctor`. Reads what was recorded; asks no device.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from profiler.device import CONVOLUTIONS, PRODUCTS, RECURRENT, TF32
from profiler.results.types import Environment, Gpu

# Bits of nvidia-smi's clocks_throttle_reasons.active that slow a GPU down; idle and chosen clocks are not among them.
THROTTLING = {0x4: "power cap", 0x8: "hardware slowdown", 0x20: "heat", 0x40: "heat", 0x80: "power brake"}
NEAR_SLOWDOWN = 5.0  # degrees
LOWERED = 0.99  # of the usual power limit
FIRST_WITH_TF32 = 8.0  # compute capability
IN_TF32 = {CONVOLUTIONS: "convolutions", RECURRENT: "recurrent layers", PRODUCTS: "matrix products"}
SLOWING = {
    "CUDA_LAUNCH_BLOCKING": "every launch waits until its kernel is done, so CPU and GPU never work at the same time",
    "PYTORCH_NO_CUDA_MEMORY_CACHING": "every tensor is asked of the driver anew, which waits for the GPU",
}


@dataclass(frozen=True)
class Remark:
    """`weighs`: figures suffer from it; else it is good to know."""

    found: str
    advice: str
    weighs: bool = True

    @property
    def text(self) -> str:
        return f"{self.found[0].upper()}{self.found[1:]}. {self.advice}"


def used_gpus(environment: Environment, uuids: Iterable[str | None]) -> list[Gpu]:
    """Those of the machine that a run is made on; all where that cannot be told (as of a part of one, MIG)."""
    wanted = set(uuids)
    return [gpu for gpu in environment.gpu if gpu.uuid in wanted] or environment.gpu


def remarks_on_gpu(gpu: Gpu) -> list[Remark]:
    found = []
    if gpu.processes:
        found.append(
            Remark(
                f"{gpu.processes} other process(es) use it",
                "Wait until they are done, or choose another with --device cuda:N.",
            )
        )
    if slowed := throttled_by(gpu.throttle_reasons or ""):
        found.append(Remark(f"throttled by {slowed}", "Let it cool down, or raise its power limit."))
    temperature, slowdown = number(gpu.temperature), gpu.slowdown_temperature
    if temperature is not None and slowdown is not None and temperature >= slowdown - NEAR_SLOWDOWN:
        found.append(
            Remark(
                f"it has {temperature:g} °C, {max(0.0, slowdown - temperature):g} degrees below the {slowdown:g} °C at "
                "which it lowers its clock",
                "Let it cool down, and look to its fans and airflow.",
            )
        )
    limit, usual = number(gpu.power_limit), number(gpu.default_power_limit)
    if limit and usual and limit < LOWERED * usual:
        found.append(
            Remark(
                f"its power limit is {limit:g} W, {1 - limit / usual:.0%} below the usual {usual:g} W",
                f"Its clock is lower under load; `sudo nvidia-smi -pl {usual:g}` sets it back.",
            )
        )
    if gpu.mig == "Enabled":
        found.append(
            Remark(
                "it is cut into parts that share its memory bandwidth and power (MIG)",
                "Measure on a whole one, or say which part the figures are of.",
            )
        )
    if gpu.persistence not in (None, "Enabled"):
        found.append(Remark("persistence mode is off", "Switch it on: `sudo nvidia-smi -pm 1`."))
    return found


def remarks_on_torch(
    flags: Mapping[str, str],
    compute: str | None,
    environment: Mapping[str, str],
    float32: bool = True,
    new_shapes: bool = False,
) -> list[Remark]:
    """`flags`: of Device.flags; `compute`: the GPU's capability; `new_shapes`: whether timed calls have such as no call
    before them had."""
    found = []
    parts = _in_tf32(flags, compute, environment) if float32 else []
    if parts:
        named = ", ".join(IN_TF32[part] for part in parts)
        found.append(
            Remark(
                f"float32 is TF32 in {named} on this GPU: 10 bits of fraction in place of 23, and a higher speed "
                f"({', '.join(f'{part} {flags[part]}' for part in parts)})",
                "NVIDIA_TF32_OVERRIDE=0 makes it float32 again; compare only runs that have the same.",
                weighs=False,
            )
        )
    if flags.get("cudnn.benchmark") == "True":
        how = (
            "it tries its kernels on every new shape, and batches of a data set have one each: the trials are in their "
            "times"
            if new_shapes
            else "its kernels are chosen by a trial before each cell's timed calls, and two runs may choose differently"
        )
        found.append(Remark(f"cudnn.benchmark is on: {how}", "Leave it off, unless that is what you use."))
    if flags.get("cudnn.deterministic") == "True":
        found.append(
            Remark(
                "cudnn.deterministic is on: only kernels that repeat their results to the bit, which may be slower",
                "Leave it off, unless that is what you use.",
            )
        )
    return found + [
        Remark(f"{variable}={environment[variable]}: {effect}", f"Unset {variable}.")
        for variable, effect in SLOWING.items()
        if environment.get(variable, "0") not in ("0", "")
    ]


def _in_tf32(flags: Mapping[str, str], compute: str | None, environment: Mapping[str, str]) -> Sequence[str]:
    """Settings that have an effect: AMD's GPUs and older ones of NVIDIA have no TF32."""
    if "cuda" not in flags or environment.get("NVIDIA_TF32_OVERRIDE") == "0":
        return []
    if compute is not None and float(compute) < FIRST_WITH_TF32:
        return []
    return [part for part in IN_TF32 if flags.get(part) == TF32]


def throttled_by(reasons: str) -> str:
    """'0x0000000000000004' -> 'power cap'."""
    try:
        bits = int(reasons, 16)
    except ValueError:
        return ""
    return " and ".join(dict.fromkeys(name for bit, name in THROTTLING.items() if bits & bit))


def number(text: str | None) -> float | None:
    """'250.00 W' -> 250.0; None of '[N/A]'."""
    try:
        return float((text or "").split(" ")[0])
    except ValueError:
        return None
