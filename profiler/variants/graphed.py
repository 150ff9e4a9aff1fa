"""A model's call -> the same, recorded as a graph of the device once for a shape, and replayed: one launch for all.

    begin of a cell   inputs copied into buffers that stay where they are | 3 calls on a stream of their own | record
    each call         copy the input into the buffers, replay; the output is always the same tensor

Everything that the CPU does in a call happens once, while it is recorded. So a call that waits for the device (text, a
search) cannot be recorded, and one whose first step is the CPU's (features, tokens) would repeat its first answer: both
are refused.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from profiler.device import Device
from profiler.errors import NotSupported
from profiler.processes import device_of, run_all, trial
from profiler.variants.layers import Step, failing

if TYPE_CHECKING:
    from profiler.models.model import Model

WARMUP = 3  # calls before recording, as torch advises: libraries choose kernels and take memory in them
NOTE = (
    "Each cell's call is recorded as a graph of the device and replayed. Operations are counted without it. Memory of "
    "tensors within the call belongs to the graph: it is in the peak reserved on the device, not in the allocated one."
)
ON_CPU = "the model's first step (features or tokens) runs on the CPU, which no graph of a device records"


@dataclass
class Recording:
    buffers: Any
    graph: Any
    output: Any


class Graphed:
    """`run` by graphs, one for each shape of input."""

    def __init__(self, run: Callable[[Any], Any], device: Device) -> None:
        self.run, self.device = run, device
        self._recorded: dict[Hashable, Recording] = {}

    def __call__(self, value: Any) -> Any:
        found = self._recorded.get(shape_of(value)) or self._record(value)
        copy_into(found.buffers, value)
        found.graph.replay()
        return found.output

    def prepare(self, inputs: Iterable[Any]) -> None:
        """Record what the calls of a cell will need, before any of them is timed."""
        for value in inputs:
            if shape_of(value) not in self._recorded:
                self._record(value)

    def forget(self) -> None:
        """Give the memory of all recordings back."""
        self._recorded.clear()

    def _record(self, value: Any) -> Recording:
        import torch

        shape = shape_of(value)
        buffers, _ = self.device.moved(value, copied=True)
        stream = torch.Stream(device=self.device.name)
        self.device.synchronize()
        with stream:
            for _ in range(WARMUP):
                self.run(buffers)
        gc.collect()  # nothing is freed in the middle of a recording
        self.device.synchronize()
        graph = self.device.graph()
        with stream:
            graph.capture_begin()
            try:
                output = self.run(buffers)
            finally:
                graph.capture_end()
        self.device.synchronize()
        self._recorded[shape] = Recording(buffers, graph, output)
        return self._recorded[shape]


def record_calls(model: Model, inputs: list[Any]) -> Step:
    """Have the model's calls recorded and replayed. Raises NotSupported where they cannot be."""
    device = Device(device_of(model))
    if not device.records:
        raise NotSupported(
            f"cuda_graph needs a device that records its work (CUDA, ROCm, XPU), and the model is on {device.name}"
        )
    for value in inputs:
        shape_of(value)
    graphed = Graphed(model.run, device)
    model.graph, model.run = graphed, graphed
    with failing("a call of the model cannot be recorded as a graph (one that decodes waits for the device)"):
        trial(model, lambda: run_all(model, inputs[:1]), None)
    return Step("graph of the device", notes=[NOTE])


def shape_of(value: Any) -> Hashable:
    """What a recording depends on: shapes and types of tensors, and all plain values. Raises NotSupported."""
    import torch

    if isinstance(value, torch.Tensor):
        return tuple(value.shape), str(value.dtype)
    if isinstance(value, dict):
        return tuple((name, shape_of(each)) for name, each in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(shape_of(each) for each in value)
    if value is None or isinstance(value, (bool, int, float)):
        return value  # type: ignore[no-any-return]
    raise NotSupported(ON_CPU)


def copy_into(buffers: Any, value: Any) -> None:
    """The input of a call, into where the graph reads it."""
    import torch

    if isinstance(value, torch.Tensor):
        buffers.copy_(value)
    elif isinstance(value, dict):
        for name, each in value.items():
            copy_into(buffers[name], each)
    elif isinstance(value, (list, tuple)):
        for inner, each in zip(buffers, value, strict=True):
            copy_into(inner, each)
