"""Loaded model + variant -> the model converted in place, with proof of what changed.

    float32 --precision--> --memory format--> --attention--> --quantize--> --compile--> what the cells run

Runs in the worker before the first cell, on one thread. Nothing that computes runs in the worker itself: see trial.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from profiler.errors import NotSupported
from profiler.results.types import Conversion
from profiler.variants.layers import layers, unique_parameters
from profiler.variants.size import saved_bytes
from profiler.variants.step import Step

if TYPE_CHECKING:
    from profiler.models.model import Model
    from profiler.recipe.schema import Variant


def changes_model(variant: Variant) -> bool:
    """Whether there is anything to convert; else the variant differs by settings of the recipe and threads alone."""
    lower = variant.precision in ("bfloat16", "float16")
    return bool(variant.quantize or lower or variant.compile or variant.attention or variant.memory_format)


def convert(model: Model, variant: Variant, calibrate: Callable[[], Iterable[Any]]) -> Conversion:
    """Convert the model in place. `calibrate` gives prepared inputs made of sample speech, at least one.

    Raises NotSupported, with the reason for the variant's place in the tables, where nothing would be converted or the
    converted model does not run here. The model may then be half converted, and is not to be used.
    """
    total_layers = len(layers(model))
    total_parameters = sum(parameter.numel() for parameter in unique_parameters(model).values())
    before = saved_bytes(model)
    inputs = list(calibrate()) if changes_model(variant) else []
    steps = [step(model, inputs) for step in _steps(variant)]
    touched = [step for step in steps if step.layers is not None]
    count = len({id(layer) for step in touched for layer in step.layers or ()}) if touched else None
    parameters = max((step.parameters for step in touched), default=None)
    if touched and not count:
        raise NotSupported("nothing in the model was converted")
    return Conversion(
        kind=", ".join(step.kind for step in steps) or "float32",
        engine=next((step.engine for step in steps if step.engine), None),
        layers_converted=count,
        layers_total=total_layers,
        share_of_layers=_share(count, total_layers),
        share_of_parameters=_share(parameters, total_parameters),
        bytes_before=before,
        bytes_after=saved_bytes(model),
        graphs=next((step.graphs for step in steps if step.graphs is not None), None),
        graph_breaks=next((step.graph_breaks for step in steps if step.graph_breaks is not None), None),
        notes=[note for step in steps for note in step.notes],
    )


def _steps(variant: Variant) -> list[Callable[[Model, list[Any]], Step]]:
    """The changes that a variant asks for, in the order in which they can be made."""
    from profiler.variants import attention, compiled, layout, precision, quantize, static

    steps: list[Callable[[Model, list[Any]], Step]] = []
    if (dtype := variant.precision) in ("bfloat16", "float16"):
        steps.append(lambda model, inputs: precision.to_precision(model, inputs, str(dtype)))
    if variant.memory_format:
        steps.append(layout.to_channels_last)
    if kind := variant.attention:
        steps.append(lambda model, inputs: attention.set_attention(model, inputs, kind))
    if variant.quantize == "dynamic" and variant.compile:
        steps.append(quantize.dynamic_compiled)
    elif variant.quantize == "dynamic":
        recurrent = variant.layers == "linear_and_recurrent"
        steps.append(lambda model, inputs: quantize.dynamic(model, inputs, recurrent, variant.engine))
    elif variant.quantize == "static":
        steps.append(lambda model, inputs: static.static(model, inputs, variant.engine))
    elif variant.quantize == "weight_only":
        steps.append(quantize.weight_only)
    if variant.compile:
        steps.append(compiled.compile_parts)
    return steps


def _share(part: int | None, whole: int) -> float | None:
    return part / whole if part is not None and whole else None
