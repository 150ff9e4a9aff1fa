"""The operations pass: the multiply-accumulates (MACs) of one call, in total, by component and by operator.

    one call under a counter that sees every operator below autograd | formula | whose weights are these? | sums

Formulas use the shapes that really arrive, so fused kernels, searches and padding are counted as they run, and nothing
is switched off for it: the call takes the road of the timed one. What multiplies and has no formula is named.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from profiler.measure.parameters import REST
from profiler.units import many

if TYPE_CHECKING:
    import torch

    from profiler.training.step import TrainingStep

FLOPS_PER_MAC = 2

CONVENTION = (
    "1 MAC = 1 multiply-accumulate = 2 FLOPs. Counted are matrix products, convolutions, attention (in full, masked "
    "positions included), recurrent layers and Fourier transforms (n complex points: 2.5 n log2 n MACs, real points "
    "half of that); padding counts as it is computed. Not counted are elementwise operators, normalisation, softmax, "
    "pooling, interpolation, lookups, sorting and copies."
)


@dataclass(frozen=True)
class Operations:
    """What one call computes. `uncounted` says by name what the figures leave out; no zero is left unexplained."""

    macs: int
    components: dict[str, int]  # those that were called, and `other`: what belongs to none
    per_second: float  # MACs for each second of audio
    uncounted: list[str]
    by_operator: dict[str, int]
    bytes_moved: int  # inputs and outputs of every operator once; an estimate, see traffic.py

    @property
    def flops(self) -> int:
        return FLOPS_PER_MAC * self.macs


def count_operations(
    run: Callable[[Any], Any],
    value: Any,
    components: dict[str, torch.nn.Module],
    seconds_of_audio: float,
    step: TrainingStep | None = None,
) -> Operations:
    """Count one call of `run`. Without data-dependent code the model may live on the meta device: same count, no work.

    `seconds_of_audio` is that of the whole batch. A multiplication goes to the component that owns its weights; one
    without weights, as in attention, to the innermost component at work; else to `other`. With a training step its
    backward pass is counted too: what it computes belongs to whom the forward pass computed for.
    """
    from profiler.measure.operations.counter import OperationCounter
    from profiler.measure.operations.numpy_calls import watch_numpy
    from profiler.measure.operations.owners import Owners

    owners = Owners(components)
    counter = OperationCounter(owners)
    with (
        _uncompiled(gradients=step is not None),
        watch_numpy(counter.unknown),
        owners.following_calls(counter.unknown, step),
        counter,
    ):
        run(value)
    counts, macs = counter.by_component, sum(counter.by_operator.values())
    zeros = [name for name in components if name in owners.with_weights and counts.get(name) == 0]
    return Operations(
        macs=macs,
        components={name: counts[name] for name in (*components, REST) if counts.get(name) or name in zeros},
        per_second=macs / seconds_of_audio,
        uncounted=_uncounted(counter.unknown, zeros, macs),
        by_operator=dict(counter.by_operator.most_common()),
        bytes_moved=counter.bytes_moved,
    )


@contextmanager
def _uncompiled(gradients: bool) -> Iterator[None]:
    """Compiled kernels do not pass the counter; uncompiled, the same model computes the same."""
    import torch

    in_use = "torch._dynamo" in sys.modules
    with torch.set_grad_enabled(gradients), torch.compiler.set_stance("force_eager") if in_use else nullcontext():
        yield


def _uncounted(unknown: Counter[str], zeros: list[str], macs: int) -> list[str]:
    named = [f"{name} ({many(calls, 'call')})" for name, calls in unknown.most_common()]
    zeros = [*zeros, "the whole call"] if not macs else zeros
    return named + [f"{name}: 0, for torch saw nothing in it that the convention counts" for name in zeros]
