"""The breakdown pass: where the time, the memory and the operations of a call go, by label, module and operator.

    labelled calls and bare ones in turns | calls under the profiler (memory, operators) | one call that is counted

It has calls of its own, after the timing pass, which never has a hook. What the labels cost is measured in the turns
and is part of the result. Labels are patterns of the recipe; without any, the parts that the model says it has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from profiler.device import Device
from profiler.errors import UserError
from profiler.results.types import Breakdown, BreakdownFile, LabelOverhead, Part

if TYPE_CHECKING:
    import torch

    from profiler.measure.breakdown.labels import Chains, LabelledCall, Patterns
    from profiler.measure.breakdown.watch import Timed
    from profiler.measure.operations.count import Count
    from profiler.models.model import Model
    from profiler.recipe.schema import Trace
    from profiler.results.types import OperatorPart
    from profiler.training.step import TrainingStep

FILE = "breakdown.json"
COMPILED = "torch.compile fuses the model's modules into kernels in which they cannot be told apart"
RECORDED = "the call is a recorded graph: the model's modules are not called one by one"
NAMED = 5  # modules of a label that are named in the result


def find_parts(model: Model, patterns: Patterns) -> Chains | None:
    """The model's modules and labels; None where they are not called. Raises ModelError for a label without a match."""
    from profiler.measure.breakdown.labels import Chains, Tree, find_labels

    tree = Tree(model)
    labels = find_labels(model, tree, patterns)
    # Compiled code has no modules to watch, and hooks would have it compiled anew.
    compiled = any(getattr(module, "_compiled_call_impl", None) is not None for module in tree.modules)
    return None if compiled or model.graph is not None else Chains(tree, labels)


@contextmanager
def spans_in_trace(model: Model, settings: Trace, step: TrainingStep | None = None) -> Iterator[None]:
    """Labels as spans while a trace is recorded: the recipe's, or the model's own unless no breakdown is wanted."""
    from profiler.measure.breakdown.profiled import spans_of_labels

    parts = find_parts(model, settings.labels) if settings.labels or settings.breakdown else None
    with spans_of_labels(parts, step) if parts is not None else nullcontext():
        yield


def count_parts(call: LabelledCall, components: dict[str, torch.nn.Module]) -> Count:
    """Count one call for both tables: by component, and by label, which methods of labelled modules belong to."""
    from profiler.measure.breakdown.watch import watching_methods
    from profiler.measure.operations.count import count_call

    labelled = [call.chains.tree.modules[place] for place in call.chains.labelled_places]
    return count_call(call.run, call.value, components, call.step, partial(watching_methods, labelled))


def measure_breakdown(
    call: LabelledCall,
    seconds_of_audio: float,
    folder: Path,
    count: bool | Count = True,
    steps: int = 1,
    turns: bool = True,
    of_engine: Sequence[OperatorPart] = (),
) -> Breakdown:
    """The result of a cell; modules and operators, which are long, go to a file in `folder`.

    At least so many `steps` are labelled, and as many profiled: as many as the trace holds. With a training step there
    are rows of the backward phase too. A `count` of such a call that was made before serves here as well. Without
    `turns`, where calls are long, there are no more calls than these. `of_engine`: operators that another engine than
    torch ran.
    """
    from profiler.measure.breakdown.profiled import profile_parts
    from profiler.measure.breakdown.rows import Rows, operator_rows
    from profiler.measure.breakdown.watch import time_parts

    notes: list[str] = []
    chains, training = call.chains, call.step is not None
    timed, profiled = time_parts(call, steps, turns), profile_parts(call, steps)
    counted = _counted(call, notes) if count is True else count or None
    wall = sum(timed.labelled_ns) / timed.calls / 1e9
    whole = Rows(chains, timed.tally.sums, timed.calls, wall, seconds_of_audio, profiled.memory, counted)
    phases = [whole]
    labelled, optimizer = timed.tally.labelled, None
    if timed.backward is not None:
        back, memory = timed.backward, profiled.backward_memory
        phases.append(Rows(chains, back.sums, timed.calls, wall, seconds_of_audio, memory, counted, "backward"))
        labelled, optimizer = labelled + back.labelled, timed.optimizer_ns / 1e9
    labels = [row for rows in phases for row in rows.labels()]
    for row in labels:
        row.matched = [chains.tree.shown(place) for place in chains.labels.roots[row.name][:NAMED]]
    labels += whole.last(labelled, profiled.peak, optimizer)
    folder.mkdir(exist_ok=True)
    details = BreakdownFile(
        seconds_of_audio=seconds_of_audio,
        calls=timed.calls,
        profiled_calls=profiled.calls,
        modules=[row for rows in phases for row in rows.modules(folded=True)],
        modules_unfolded=[row for rows in phases for row in rows.modules(folded=False)],
        operators=[*of_engine, *operator_rows(profiled, counted, seconds_of_audio)],
    )
    (folder / FILE).write_text(details.model_dump_json(), encoding="utf-8")
    return Breakdown(
        labels=_without_unused(labels, chains, notes),
        automatic=chains.labels.automatic,
        calls=timed.calls,
        profiled_calls=profiled.calls,
        call_s=wall,
        seconds_of_audio=seconds_of_audio,
        overhead=LabelOverhead(
            measured=timed.overhead,
            known=timed.known_overhead,
            hook_s=timed.hook_ns / 1e9,
            labelled_s=[took / 1e9 for took in timed.labelled_ns],
            bare_s=[took / 1e9 for took in timed.bare_ns],
            module_calls=timed.module_calls,
            backward_steps=timed.steps if training else None,
            backward_hook_s=timed.step_ns / 1e9 if training else None,
        ),
        file=FILE,
        notes=notes + _notes(chains, timed, call.device),
    )


def _counted(call: LabelledCall, notes: list[str]) -> Count | None:
    try:
        return count_parts(call, {})
    except (MemoryError, KeyboardInterrupt, UserError):
        raise
    except Exception as error:  # whatever a model does that the counter cannot follow
        notes.append(f"Operations are not counted: the model does not run under the counter ({type(error).__name__}).")
        return None


def _without_unused(rows: list[Part], chains: Chains, notes: list[str]) -> list[Part]:
    """A label of the recipe stays, with the reason for its zeros; of those found in the model only what was called."""
    unused = [row.name for row in rows if row.calls == 0 and row.phase == "forward"]
    if not unused:
        return rows
    if chains.labels.automatic:
        notes.append(f"Not called: {', '.join(unused)}.")
        return [row for row in rows if row.name not in unused]
    notes.append(f"No call was seen of: {', '.join(unused)}. {HIDDEN}")
    return rows


HIDDEN = (
    "Modules are seen when they are called as modules, not when code reads their weights, runs a fused kernel of "
    "torch's own layers, or is a script."
)


def _notes(chains: Chains, timed: Timed, device: Device) -> list[str]:
    import torch

    notes, tree = [], chains.tree
    scripts = [
        tree.shown(place)
        for place, module in enumerate(tree.modules)
        if isinstance(module, torch.jit.ScriptModule)
        and not any(isinstance(tree.modules[above], torch.jit.ScriptModule) for above in tree.path(place)[:-1])
        and timed.tally.sums[place].calls
    ]
    if scripts:
        notes.append(f"A script is one part, what is in it cannot be told apart: {', '.join(scripts[:NAMED])}.")
    if timed.threads > 1:
        notes.append("The model works in several threads; their times are added, so that shares may exceed the call.")
    if device.kind != "cpu":
        notes.append(
            "The device is waited for at every module, so that nothing overlaps as it does in the timing pass."
        )
    return notes
