"""Loaded model + the parts that an engine can run -> the same model with them in place, proved by a trial.

    parts.py: parts found --> forward replaced --> weights that nothing else needs dropped --a fork--> sessions run

Gives the `Conversion` of results.json, with threads and precision as the engine itself says. Separate from parts.py,
which decides what the files in the cache hold: after a change here nothing is exported anew.
"""

from __future__ import annotations

import gc
import importlib.metadata
from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

from profiler.measure.passes.memory import hand_back_freed_memory
from profiler.processes import run_all, trial
from profiler.results.types import Conversion, RuntimeUse, Size
from profiler.runtimes import ENGINES, cache, engine
from profiler.runtimes.part import Runtime
from profiler.runtimes.waiting import SPINNING, waiting_cpus
from profiler.variants.layers import all_modules, failing, layers, unique_parameters
from profiler.variants.parts import Found

if TYPE_CHECKING:
    from profiler.models.model import Model


def put_in_place(model: Model, found: Found) -> Conversion:
    """Have the engine run the parts, and see in a trial that it does as asked. Raises NotSupported."""
    from profiler.measure.parameters import size_bytes

    before, all_layers, runtime = size_bytes(model), layers(model), found.runtime
    numbers = sum(parameter.numel() for parameter in unique_parameters(model).values())
    inner = only_inside(model, found)
    weighted = [layer for layer in all_layers if id(layer) in inner]
    exported = {id(p): p.numel() for module in inner.values() for p in module.parameters(recurse=False)}
    for part in runtime.parts:
        part.put(found.modules[part.name])
    _drop_weights(model, inner)
    model.runtime = runtime
    sizes = _sizes(runtime, size_bytes(model))
    told = _try(model, found)
    exports = [export for part in runtime.parts for export in part.exports]
    chosen = runtime.engine
    titles = [part.name for part in runtime.parts]
    left = [
        name
        for name, component in model.components.items()
        if id(component) not in inner and not any(id(module) in inner for module in component.modules())
    ]
    use = RuntimeUse(
        engine=runtime.name,
        version=importlib.metadata.version(chosen.PACKAGES[0]),
        parts=titles,
        in_torch=left,
        refused=[reason for reason in found.refused if _worth_telling(reason)],
        files=len(exports),
        any_shape=chosen.DYNAMIC,
        threads=told.threads,
        precision=told.precision,
        spinning=told.spinning or told.waiting_cpus > SPINNING,
        waiting_cpus=told.waiting_cpus,
        export_s=sum(export.manifest.export_s for export in exports),
        export_peak_bytes=max(export.manifest.export_peak_bytes for export in exports),
        cached=all(export.cached for export in exports),
        file_bytes=sum(cache.size_of(export.folder) for export in exports),
        load_s=told.load_s,
    )
    quantized = ", int8 matrix products" if runtime.options.quantize else ""
    return Conversion(
        kind=f"{ENGINES[runtime.name].title}{quantized}",
        engine=f"{runtime.name} {use.version}",
        layers_converted=len(weighted),
        layers_total=len(all_layers),
        share_of_layers=len(weighted) / len(all_layers) if all_layers else None,
        share_of_parameters=sum(exported.values()) / numbers if numbers else None,
        bytes_before=before,
        bytes_after=sizes,
        notes=[*_notes(use), *_about_steps(runtime), *told.notes],
        runtime=use,
    )


def _about_steps(runtime: Runtime) -> list[str]:
    steps = [part.name for part in runtime.parts if part.takes_steps]
    if not steps:
        return []
    return [
        f"Each step of the search is a call of {', '.join(steps)} with its cache of keys and values: one file for the "
        "first step, one for all later ones, each with the weights. The search itself runs in torch."
    ]


def only_inside(model: Model, found: Found) -> dict[int, Any]:
    """By their ids, the modules of parts that nothing else calls: what a decoder takes of a network whose encoder is a
    part keeps its weights."""
    modules = all_modules(model)
    exported = {id(module) for module in found.modules.values()}
    parts = {number for number, module in enumerate(modules) if id(module) in exported}
    elsewhere: set[int] = set()
    for example in found.examples:
        todo = set(example.seen.modules.outermost) if example.seen is not None else set()
        while todo := todo - parts - elsewhere:
            number = todo.pop()
            elsewhere.add(number)
            todo |= example.seen.modules.inside.get(number, set()) if example.seen is not None else set()
    inner = {id(inner): inner for module in found.modules.values() for inner in module.modules()}
    kept = {id(used) for number in elsewhere if id(modules[number]) in inner for used in modules[number].modules()}
    return {place: module for place, module in inner.items() if place not in kept}


class _Told(msgspec.Struct):
    """What a trial of the sessions found."""

    threads: int | None
    precision: str | None
    spinning: bool | None
    waiting_cpus: float
    notes: list[str]
    load_s: float


def _try(model: Model, found: Found) -> _Told:
    """Open the sessions in a fork, as a cell does, and run all examples."""
    import torch

    runtime = found.runtime

    def run() -> _Told:
        torch.set_num_threads(found.request.threads)
        runtime.open()
        run_all(model, [example.value for example in found.examples])
        took = runtime.settings
        assert took is not None
        assert runtime.load_s is not None
        busy = waiting_cpus(lambda: run_all(model, [found.examples[0].value]))
        return _Told(took.threads, took.precision, took.spinning, busy, list(took.notes), runtime.load_s)

    with failing(f"{ENGINES[runtime.name].title} cannot run what was exported"):
        return trial(model, run, _Told)


def _drop_weights(model: Model, inner: dict[int, Any]) -> None:
    """Weights that the engine has in its file are not held twice. What other modules use too stays."""
    import torch

    used = {
        id(tensor)
        for module in (*all_modules(model), *(part for root in model.beside.values() for part in root.modules()))
        if id(module) not in inner
        for tensor in (*module.parameters(recurse=False), *module.buffers(recurse=False))
    }
    for module in inner.values():
        for tensor in (*module.parameters(recurse=False), *module.buffers(recurse=False)):
            if id(tensor) not in used:
                tensor.data = torch.empty(0, dtype=tensor.dtype)
    gc.collect()
    hand_back_freed_memory()


def _sizes(runtime: Runtime, left: Size) -> Size:
    """The files by part, and what torch still holds. Of the files of a part, those of one call would be deployed."""
    files = {
        part.name: sum(cache.size_of(export.folder) for export in part.exports if export.in_a_call)
        for part in runtime.parts
    }
    components = Counter(left.components)
    components.update(files)
    return Size(total=sum(components.values()), components={name: size for name, size in components.items() if size})


def _worth_telling(reason: str) -> bool:
    return any(words in reason for words in ("cannot take it", "times in a call", "TorchScript", "grows with every"))


def _notes(use: RuntimeUse) -> list[str]:
    title = ENGINES[use.engine].title
    notes = [f"{title} {use.version} runs {', '.join(use.parts)}; all else of the call runs in torch."]
    notes += [f"Not exported: {reason}." for reason in use.refused]
    if use.spinning:
        notes.append(
            f"Waiting threads of {title} spin, and it has no setting for that: they kept {use.waiting_cpus:.1f} CPUs "
            "busy in the 20 ms after a call, which what runs beside them lacks. With threads: 1 there are none."
        )
    if timeline := engine(use.engine).TIMELINE:
        notes.append(f"Operators of {title} are in no trace: {timeline}.")
    return notes
