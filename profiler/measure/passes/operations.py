"""The operations pass: multiply-accumulates of a call, by component and by operator; counted in measure/operations/."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from profiler.measure.operations import FLOPS_PER_MAC
from profiler.measure.parameters import REST
from profiler.measure.passes.base import Absent, Pass, Work
from profiler.results.metric import HIGHER, Metric, detail, of
from profiler.results.types import CellResult, Operations
from profiler.units import many, significant

if TYPE_CHECKING:
    import torch

    from profiler.measure.operations.count import Count
    from profiler.recipe.schema import Recipe

CONVENTION = (
    "1 MAC = 1 multiply-accumulate = 2 FLOPs. Counted are matrix products, convolutions, attention (in full, masked "
    "positions included), recurrent layers and Fourier transforms (n complex points: 2.5 n log2 n MACs, real points "
    "half of that); padding counts as it is computed. Not counted are elementwise operators, normalisation, softmax, "
    "pooling, interpolation, lookups, sorting and copies."
)
ABOVE_PEAK = (
    "Of peak is n/a where a call was faster than the measured peak: something disturbed the reference workload, so "
    "take no share of this run at its word. int8, half precision and TF32 alone may pass it, which is that of float32."
)


def _of_peak(cell: CellResult) -> float | None:
    share = cell.operations.share_of_peak if cell.operations else None
    return None if share is None or share > 1.0 else share


_operations = partial(of, "operations")
OPERATIONS = (
    Metric("macs", "Operations of one call", "GMAC per call", "MAC", "macs", _operations("macs"), detail=True),
    detail("gflop", "GFLOP per call", "GFLOP", "", lambda cell: cell.operations and 2 * cell.operations.macs / 1e9),
    detail("macs_per_second", "GMAC per s of audio", "MAC", "macs_per_audio_second", _operations("per_second")),
    detail("achieved", "GFLOP/s", "GFLOP/s", "achieved_gflop_per_s", _operations("achieved_gflops"), **HIGHER),
    detail("of_peak", "of peak", "share", "share_of_peak_fraction", _of_peak, **HIGHER),
    detail("bound", "bound by", "", "bound_by", _operations("bound")),
)


class OperationsPass(Pass[Operations, Operations]):
    name = "operations"
    result = Operations
    field = "operations"
    metrics = OPERATIONS
    table = "Operations"
    absent = "not counted"

    def wanted(self, recipe: Recipe) -> bool:
        return recipe.measure.operations

    def measure(self, work: Work) -> Operations | Absent:
        if work.model.runtime is not None:
            return Absent(f"{work.model.runtime.name} runs the model, where torch cannot count")
        try:
            return by_component(work.count, work.model.components, work.seconds_of_audio)
        except (MemoryError, KeyboardInterrupt):
            raise
        except Exception as error:  # whatever a model does that the counter cannot follow; the other passes go on
            return Absent(f"the model does not run under the counter ({type(error).__name__}: {error})")

    def remarks(self, cells: Sequence[CellResult]) -> list[str]:
        counted = [cell.operations for cell in cells if cell.operations]
        remarks = [counted[0].convention]
        bounded = next((found for found in counted if found.peak_gflops and found.peak_gb_per_s), None)
        if bounded:
            remarks.append(
                f"Peak: {significant(bounded.peak_gflops or 0, 3)} GFLOP/s and "
                f"{significant(bounded.peak_gb_per_s or 0, 3)} GB/s, in float32, measured in this run. Bound by: what "
                "the counted work would need longer for at that peak, computing or moving every operator's inputs and "
                "outputs once; overhead where the call took several times longer than both."
            )
        if any((found.share_of_peak or 0.0) > 1.0 for found in counted):
            remarks.append(ABOVE_PEAK)
        uncounted = dict.fromkeys(name for found in counted for name in found.uncounted)
        return remarks + ([f"Not counted: {', '.join(uncounted)}."] if uncounted else [])


PASS = OperationsPass()


def by_component(count: Count, components: dict[str, torch.nn.Module], seconds_of_audio: float) -> Operations:
    """`seconds_of_audio` is that of the whole batch. A multiplication goes to the component that owns its weights; one
    without weights, as in attention, to the innermost component at work; else to `other`. Of a training step, what the
    backward pass computes belongs to whom the forward pass computed for.
    """
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
