"""All that differs between devices, in one place: synchronising, device time, device memory. Through torch.accelerator,
which speaks for CUDA, ROCm (which torch calls cuda), XPU, MTIA and MPS alike; through the kind's own module where
torch.accelerator does not know it yet: graphs of CUDA and XPU, the cache of MPS.

There is no GPU on the machines where this is tested, so it is kept small: each method is one or two documented torch
calls, and tests run them against a stand-in that counts calls, time and bytes (tests/helpers/accelerator.py).
"""

from __future__ import annotations

import gc
import re
from dataclasses import dataclass
from typing import Any

from profiler import sandbox
from profiler.errors import UserError
from profiler.results.types import DeviceFacts

# How float32 is computed, as torch calls it, and by what: tf32, or ieee (none: torch's default, which is ieee).
CONVOLUTIONS, RECURRENT, PRODUCTS = "cudnn.conv.fp32", "cudnn.rnn.fp32", "matmul.fp32"
TF32, IEEE = "tf32", "ieee"
KINDS = ("cpu", "cuda", "xpu", "mtia", "mps")
HIDDEN = (  # a driver makes its files in /dev when they are first needed, which a worker in the sandbox may not
    " If torch sees it outside of a run, the driver's files in /dev were not there yet: run `nvidia-modprobe -u` (as "
    "root) and try again, or use --trust, without the sandbox."
)
GRAPHS = {"cuda": "CUDAGraph", "xpu": "XPUGraph"}  # classes of torch.cuda and torch.xpu
NO_CLOCK = ("cpu", "mps")  # no events with times, and no peaks of memory, that torch tells


def check_device_name(name: str) -> str:
    """'cuda:1' -> 'cuda:1'; anything that is not a device raises UserError. Needs no torch."""
    if not re.fullmatch(r"cpu|mps|(cuda|xpu|mtia)(:\d+)?", name):
        raise UserError(
            f"Unknown device `{name}`; expected one of {', '.join(KINDS)}, or one with its number as cuda:1."
        )
    return name


def check_device_names(names: str) -> str:
    """'cuda:0,cuda:1' as it is; raises UserError. Several must be of one kind, each with its number."""
    listed = [check_device_name(name) for name in names.split(",")]
    if len(listed) == 1:
        return names
    if len(set(listed)) < len(listed):
        raise UserError(f"--device {names} names a device twice.")
    if len({name.partition(":")[0] for name in listed}) > 1 or not all(":" in name for name in listed):
        raise UserError(
            f"--device {names}: several devices must be of one kind, each with its number, as cuda:0,cuda:1."
        )
    return names


@dataclass(frozen=True)
class Device:
    """A device that is there."""

    name: str

    @property
    def kind(self) -> str:
        return self.name.split(":")[0]

    @property
    def index(self) -> int:
        return int(self.name.split(":")[1]) if ":" in self.name else 0

    @property
    def can_fork(self) -> bool:
        """The context of an accelerator cannot be forked."""
        return self.kind == "cpu"

    def require(self) -> None:
        """Make it the current one. Raises UserError when this machine, or this build of torch, has no such device."""
        import torch

        if self.kind == "cpu":
            return
        there = torch.accelerator.current_accelerator(check_available=True)
        if there is None or there.type != self.kind:
            sees = "no accelerator" if there is None else f"one of the kind {there.type}"
            raise UserError(
                f"{self.name} was asked for, but torch sees {sees} here (torch {torch.__version__}). Use --device "
                f"{there.type if there is not None else 'cpu'}, or install a build of torch for {self.kind}."
                + (HIDDEN if there is None and self.kind == "cuda" and sandbox.in_force() else "")
            )
        if self.index >= torch.accelerator.device_count():
            raise UserError(f"There is no {self.name}; torch sees {torch.accelerator.device_count()} device(s).")
        torch.accelerator.set_device_index(self.index)  # events are recorded on streams of the current one

    def facts(self) -> DeviceFacts | None:
        """Which one it is; None of a CPU, which the environment tells of."""
        import torch

        if self.kind == "cpu":
            return None
        of_kind = getattr(getattr(torch, self.kind, None), "get_device_properties", None)
        found: Any = of_kind(self.index) if of_kind else None
        uuid = getattr(found, "uuid", None)
        return DeviceFacts(
            place=self.name,
            name=getattr(found, "name", None),
            memory_bytes=getattr(found, "total_memory", None),
            uuid=None if uuid is None else f"GPU-{str(uuid).removeprefix('GPU-')}",
            compute=f"{found.major}.{found.minor}" if hasattr(found, "major") else None,
        )

    def synchronize(self) -> None:
        """Wait until the device has done what it was given."""
        import torch

        if self.kind != "cpu":
            torch.accelerator.synchronize(self.name)

    def event(self) -> Any:
        """A recorded point on the device's own clock, or None where it has none of its own."""
        import torch

        if self.kind in NO_CLOCK:
            return None
        event = torch.Event(device=self.name, enable_timing=True)
        event.record()
        return event

    def seconds_between(self, start: Any, end: Any) -> float | None:
        """Device time between two events; only after a synchronise."""
        return start.elapsed_time(end) / 1000.0 if start is not None else None

    def moved(self, value: Any, copied: bool = False) -> tuple[Any, int]:
        """A prepared input with its tensors on this device, and how many there are; the rest of it stays as it is.
        `copied`: those that are there already, too."""
        import torch

        if isinstance(value, torch.Tensor):
            return value.to(self.name, copy=copied), 1
        if isinstance(value, dict):
            found = {name: self.moved(each, copied) for name, each in value.items()}
            return {name: each for name, (each, _) in found.items()}, sum(count for _, count in found.values())
        if isinstance(value, (list, tuple)):
            parts = [self.moved(each, copied) for each in value]
            return type(value)(each for each, _ in parts), sum(count for _, count in parts)
        return value, 0

    @property
    def records(self) -> bool:
        """Whether torch can record what this kind of device is given, and replay it."""
        import torch

        return hasattr(getattr(torch, self.kind, None), GRAPHS.get(self.kind, ""))

    def graph(self) -> Any:
        """An empty recording: capture_begin, capture_end, replay. torch.accelerator.Graph has no CUDA behind it."""
        import torch

        return getattr(getattr(torch, self.kind), GRAPHS[self.kind])()

    def start_clean(self) -> None:
        """Before a cell: what an earlier one in this process left is given back, so that neither its peak nor what its
        allocator kept is counted for this one."""
        if self.kind != "cpu":
            gc.collect()
            self.synchronize()
            self._of_torch("empty_cache")()
            self.reset_peak()

    def reset_peak(self) -> None:
        if self.kind not in NO_CLOCK:
            self._of_torch("reset_peak_memory_stats")(self.name)

    def peak_bytes(self) -> int | None:
        """Peak allocation on the device, weights included; None where torch keeps no peak."""
        return None if self.kind in NO_CLOCK else int(self._of_torch("max_memory_allocated")(self.name))

    def peak_reserved_bytes(self) -> int | None:
        """The most that torch's allocator took from the device; what another process could not have."""
        return None if self.kind in NO_CLOCK else int(self._of_torch("max_memory_reserved")(self.name))

    def free_and_total_bytes(self) -> tuple[int, int] | None:
        import torch

        if self.kind in NO_CLOCK:
            return None
        of_all = getattr(torch.accelerator, "get_memory_info", None)
        free, total = of_all(self.name) if of_all else getattr(torch, self.kind).mem_get_info(self.name)
        return int(free), int(total)

    def _of_torch(self, name: str) -> Any:
        """A function about memory: torch.accelerator has them since 2.9, the module of the kind before. In some
        versions torch.accelerator's fail on MPS."""
        import torch

        of_all = getattr(torch.accelerator, name, None) if self.kind != "mps" else None
        return of_all or getattr(getattr(torch, self.kind), name)

    def flags(self) -> dict[str, str]:
        """Settings of torch that decide how fast and how exact the same model is on this device; none of a CPU."""
        import torch

        if self.kind != "cuda":
            return {}
        cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
        library = "hip" if torch.version.hip else "cuda"
        found: dict[str, Any] = {library: getattr(torch.version, library), "cudnn": cudnn.version()}
        found |= {"cudnn.benchmark": cudnn.benchmark, "cudnn.deterministic": cudnn.deterministic}
        # Since 2.9 each has a setting of its own, and asking by the old names raises where a program used the new ones.
        if hasattr(cudnn, "conv"):
            found |= {CONVOLUTIONS: cudnn.conv.fp32_precision, RECURRENT: cudnn.rnn.fp32_precision}
            found |= {PRODUCTS: matmul.fp32_precision}
        else:
            found |= dict.fromkeys((CONVOLUTIONS, RECURRENT), TF32 if cudnn.allow_tf32 else IEEE)
            found |= {PRODUCTS: TF32 if matmul.allow_tf32 else IEEE}
        return {name: str(value) for name, value in found.items()}

    def activities(self) -> list[Any]:
        """What torch.profiler shall record."""
        from torch.profiler import ProfilerActivity

        own = getattr(ProfilerActivity, self.kind.upper(), None)
        return [ProfilerActivity.CPU] + ([own] if own is not None and self.kind != "cpu" else [])
