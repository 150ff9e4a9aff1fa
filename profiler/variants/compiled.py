"""torch.compile: which parts of a model to compile, and whether there is anything in them to compile.

Nothing is compiled here: a part is compiled at its first call in each cell, within the warm-up, for the length, batch
and threads of that cell. On a device, where one process serves several cells, what was compiled before is dropped
first. Here a trial traces the parts, which tells how many graphs they give.
"""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING, Any

from profiler.errors import NotSupported
from profiler.processes import device_of, run_all, trial
from profiler.variants import layers

if TYPE_CHECKING:
    from profiler.models.model import Model


def compile_parts(model: Model, inputs: list[Any]) -> layers.Step:
    """Have the model's parts compiled at their first call. The code that calls them stays as it is."""
    # A pool of compiling processes would be inherited by every cell, and not work there.
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
    config: Any = sys.modules.get("torch._inductor.config")
    if config is not None:  # it has read the environment already
        config.compile_threads = 1
    if device_of(model) == "cpu":
        _require_compiler()
    with layers.failing("torch.compile cannot trace the model"):
        calls = layers.observe_calls(model, inputs)
        parts = _parts(model, calls)
        graphs, breaks = trial(model, lambda: _trace(model, inputs, parts), tuple[int, int])
    if not graphs:
        raise NotSupported("torch.compile found nothing to compile in the model")
    for part in parts:
        _compile(part)
    modules = layers.all_modules(model)
    called = {id(modules[number]) for number in calls.called}
    inner = {id(module): module for part in parts for module in part.modules()}
    covered = [module for key, module in inner.items() if key in called and layers.owns_weights(module)]
    parameters = {id(p): p.numel() for module in covered for p in layers.own_parameters(module)}
    note = (
        f"Compiled at the first call of each cell: {layers.counted_classes(parts)}. "
        f"Traced on the sample speech: {graphs} graphs, {breaks} breaks between them."
    )
    return layers.Step("compile", covered, sum(parameters.values()), graphs=graphs, graph_breaks=breaks, notes=[note])


def forget_compiled() -> None:
    """Before a cell in a process that has run the model before, in another cell or a trial: torch would compile its
    code anew for shapes of any size, and the figures of a cell would depend on what came before it."""
    dynamo: Any = sys.modules.get("torch._dynamo")
    if dynamo is not None:
        dynamo.reset()


def _require_compiler() -> None:
    wanted = [os.environ["CXX"]] if os.environ.get("CXX") else ["g++", "clang++", "c++"]
    if not any(shutil.which(name) for name in wanted):
        raise NotSupported(
            f"torch.compile needs a C++ compiler and there is no {' or '.join(wanted)}: install g++, or name one in CXX"
        )


def _parts(model: Model, calls: layers.ModuleCalls) -> list[Any]:
    """The largest modules that do not repeat a layer within a call: a loop over steps is not to be unrolled."""
    modules = layers.all_modules(model)
    found: dict[int, Any] = {}

    def descend(number: int, above: frozenset[int]) -> None:
        if next(modules[number].parameters(), None) is None:
            return
        if number not in calls.looping:
            found[number] = modules[number]
            return
        for inner in sorted(calls.inside.get(number, set()) - above):
            descend(inner, above | {number})

    for number in sorted(calls.outermost):
        descend(number, frozenset())
    return [module for _, module in sorted(found.items())]


def _compile(part: Any, **how: Any) -> None:
    """As nn.Module.compile, by which whoever holds the module calls the compiled one from now on.

    That method passes over torch's own modules, such as a Sequential, whose code torch does not trace from outside.
    """
    import torch

    def call(*arguments: Any, **named: Any) -> Any:
        return part._call_impl(*arguments, **named)

    # torch counts recompilations by code object, and gives up after some: each part has a count of its own.
    call.__code__ = call.__code__.replace(co_name=f"call_{type(part).__name__}")
    part._compiled_call_impl = torch.compile(call, **how)


def _trace(model: Model, inputs: list[Any], parts: list[Any]) -> tuple[int, int]:
    """Graphs and graph breaks when the parts are traced; nothing is generated or built."""
    import torch
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    counters.clear()
    for part in parts:
        _compile(part, backend="eager")
    try:
        run_all(model, inputs)
        return int(counters["stats"]["unique_graphs"]), int(sum(counters["graph_break"].values()))
    finally:
        for part in parts:
            part._compiled_call_impl = None
        torch._dynamo.reset()
