"""All that differs between CPU, CUDA and MPS, in one place: synchronising, device time, device peak memory.

There is no GPU on the machines where this is tested, so it is kept small: each method is one documented torch call.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from profiler.errors import UserError

KINDS = ("cpu", "cuda", "mps")


def check_device_name(name: str) -> str:
    """'cuda:1' -> 'cuda:1'; anything that is not a device raises UserError. Needs no torch."""
    if not re.fullmatch(r"cpu|mps|cuda(:\d+)?", name):
        raise UserError(f"Unknown device `{name}`; expected one of {', '.join(KINDS)}, or cuda:N.")
    return name


@dataclass(frozen=True)
class Device:
    """A device that is there."""

    name: str

    @property
    def kind(self) -> str:
        return self.name.split(":")[0]

    @property
    def can_fork(self) -> bool:
        """A CUDA or MPS context cannot be forked."""
        return self.kind == "cpu"

    def require(self) -> None:
        """Raise UserError when this machine, or this build of torch, has no such device."""
        import torch

        if self.kind == "cuda":
            index = int(self.name.split(":")[1]) if ":" in self.name else 0
            if not torch.cuda.is_available():
                raise UserError(
                    "CUDA was asked for, but torch sees no CUDA device here "
                    f"(torch {torch.__version__}). Use --device cpu, or install a CUDA build of torch."
                )
            if index >= torch.cuda.device_count():
                raise UserError(f"There is no {self.name}; torch sees {torch.cuda.device_count()} CUDA device(s).")
        if self.kind == "mps" and not torch.backends.mps.is_available():
            raise UserError("MPS was asked for, but torch sees no Apple GPU here. Use --device cpu.")

    def synchronize(self) -> None:
        """Wait until the device has done what it was given."""
        import torch

        if self.kind == "cuda":
            torch.cuda.synchronize(self.name)
        elif self.kind == "mps":
            torch.mps.synchronize()

    def event(self) -> Any:
        """A recorded point on the device's own clock, or None where it has none of its own."""
        import torch

        if self.kind != "cuda":
            return None
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def seconds_between(self, start: Any, end: Any) -> float | None:
        """Device time between two events; only after a synchronise."""
        return start.elapsed_time(end) / 1000.0 if start is not None else None

    def reset_peak(self) -> None:
        import torch

        if self.kind == "cuda":
            torch.cuda.reset_peak_memory_stats(self.name)

    def peak_bytes(self) -> int | None:
        """Peak allocation on the device, weights included; None on a CPU, and on MPS, which keeps no peak."""
        import torch

        return torch.cuda.max_memory_allocated(self.name) if self.kind == "cuda" else None

    def activities(self) -> list[Any]:
        """What torch.profiler shall record."""
        from torch.profiler import ProfilerActivity

        return [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if self.kind == "cuda" else [])
