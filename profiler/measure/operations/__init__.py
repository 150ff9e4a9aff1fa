"""The operations pass: the multiply-accumulates (MACs) of one call, in total, by component and by operator.

    one call under torch's counter, which sees every operator below autograd | formula | for whom is it? | sums

Formulas use the shapes that really arrive, so fused kernels, searches and padding are counted as they run, and nothing
is switched off for it: the call takes the road of the timed one. What multiplies and has no formula is named. The
breakdown by label and module is a sum of the same count.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from profiler.measure.parameters import REST
from profiler.results.types import Operations
from profiler.units import many

if TYPE_CHECKING:
    import torch

    from profiler.measure.operations.count import Count
    from profiler.training.step import TrainingStep

FLOPS_PER_MAC = 2

CONVENTION = (
    "1 MAC = 1 multiply-accumulate = 2 FLOPs. Counted are matrix products, convolutions, attention (in full, masked "
    "positions included), recurrent layers and Fourier transforms (n complex points: 2.5 n log2 n MACs, real points "
    "half of that); padding counts as it is computed. Not counted are elementwise operators, normalisation, softmax, "
    "pooling, interpolation, lookups, sorting and copies."
)


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
    from profiler.measure.operations.count import count_call

    return by_component(count_call(run, value, components, step), components, seconds_of_audio)


def by_component(count: Count, components: dict[str, torch.nn.Module], seconds_of_audio: float) -> Operations:
    macs, operators = count.by_component, count.by_operator
    zeros = [name for name in components if name in count.with_weights & count.called and not macs[name]]
    total = operators.total()
    uncounted = [f"{name} ({many(calls, 'call')})" for name, calls in count.unknown.most_common()]
    for name in zeros if total else [*zeros, "the whole call"]:
        uncounted.append(f"{name}: 0, for torch saw nothing in it that the convention counts")
    return Operations(
        macs=total,
        components={name: macs[name] for name in (*components, REST) if macs[name] or name in zeros},
        per_second=total / seconds_of_audio,
        uncounted=uncounted,
        by_operator=dict(operators.most_common()),
        bytes_moved=count.bytes_moved,
        flops=FLOPS_PER_MAC * total,
        convention=CONVENTION,
    )
