"""The traced pass: torch.profiler over a few calls, written as one gzipped trace that TensorBoard's plugin reads.

Its times are not timings: the profiler slows down what it watches. Figures come from the other passes.
"""

from __future__ import annotations

import gzip
import shutil
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profiler.device import Device
from profiler.measure.passes.base import Pass, Work
from profiler.results.types import CellResult

if TYPE_CHECKING:
    from profiler.recipe.schema import Recipe, Trace
    from profiler.runtimes.part import Runtime

SUFFIX = ".pt.trace.json.gz"
GZIP_LEVEL = 4  # a third of the time of the default for a tenth more bytes


class TracePass(Pass[str, str]):
    """Gives the place of the last file."""

    name = "trace"
    result = str
    field = "trace"
    absent = "not recorded"
    asked = True

    def wanted(self, recipe: Recipe) -> bool:
        return recipe.profiling_dimensions.export_logs

    def calls(self, recipe: Recipe) -> int:
        steps = recipe.trace.schedule
        return (steps.wait + steps.warmup + steps.active) * steps.repeat

    def fewest(self, recipe: Recipe) -> int:
        return recipe.trace.schedule.active * recipe.trace.schedule.repeat

    def measure(self, work: Work) -> str:
        from profiler.measure.breakdown import spans_in_trace
        from profiler.measure.phases import phase_spans

        folder, settings, runtime = work.folder / work.place, work.trace, work.model.runtime
        if work.long:  # what is done once was done long ago, and cannot be seen in such a call
            settings = settings.model_copy(
                update={"schedule": settings.schedule.model_copy(update={"wait": 0, "warmup": 0})}
            )
        with spans_in_trace(work.model, work.trace, work.step), phase_spans(work.step), _spans_of(runtime):
            files = record_trace(work.run, work.inputs[0], work.device, settings, folder, folder.name)
            if runtime is not None:
                from profiler.runtimes.profile import add_to_traces

                add_to_traces(
                    runtime, files, settings.schedule.wait + settings.schedule.warmup, settings.schedule.active
                )
        return f"{work.place}/{files[-1].name}"

    def put(self, cell: CellResult, found: str, width: float, stopped_by: str) -> None:
        """A worker says where the file is; it is believed within the folder of the cell."""
        place, _, name = found.rpartition("/")
        cell.trace = found if place == f"{cell.variant}/{cell.label}" and name.endswith(SUFFIX) else None


PASS = TracePass()


def _spans_of(runtime: Runtime | None) -> AbstractContextManager[None]:
    if runtime is None:
        return nullcontext()
    from profiler.runtimes.profile import spans

    return spans(runtime)


def prepare_profiler() -> None:
    """Start and stop torch's profiler once: its first use in a process takes a second, which forks need not repeat."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True):
        pass


def record_trace(
    run: Callable[[Any], Any], value: Any, device: Device, settings: Trace, folder: Path, name: str
) -> list[Path]:
    """Run the schedule and give the files written, one for each repetition."""
    from torch.profiler import profile, record_function, schedule

    folder.mkdir(exist_ok=True)
    written: list[Path] = []

    def write(recording: Any) -> None:
        # The name has the form that TensorBoard's profiler plugin looks for: worker.timestamp.pt.trace.json.gz
        stem = f"{name}.{time.time_ns() // 1_000_000}"
        plain = folder / f"{stem}.pt.trace.json.part"
        target = folder / f"{stem}{SUFFIX}"
        recording.export_chrome_trace(str(plain))
        with plain.open("rb") as source, gzip.open(target, "wb", compresslevel=GZIP_LEVEL) as sink:
            shutil.copyfileobj(source, sink)
        plain.unlink()
        written.append(target)

    steps = settings.schedule
    with profile(
        activities=device.activities(),
        schedule=schedule(wait=steps.wait, warmup=steps.warmup, active=steps.active, repeat=steps.repeat),
        on_trace_ready=write,
        record_shapes=settings.shapes,
        profile_memory=settings.memory,
        with_stack=settings.stacks,
    ) as recording:
        for _ in range((steps.wait + steps.warmup + steps.active) * steps.repeat):
            with record_function("call"):
                run(value)
                device.synchronize()
            recording.step()
    return written
