"""Loaded model + variant -> the model converted in place, with proof of what changed.

    float32 --precision--> --memory format--> --attention--> --quantize--> --compile--> --graph--> what the cells run
    float32 --runtime: another engine than torch, see parts.py and exported.py--> what the cells run

Runs in the worker before the first cell, on one thread. What computes runs in forks of it: see processes.py.
"""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profiler.errors import NotSupported
from profiler.measure.parameters import size_bytes
from profiler.measure.passes.memory import hand_back_freed_memory
from profiler.processes import run_all, trial
from profiler.results.types import Conversion
from profiler.variants.difference import NONE, difference, load_outputs, save_outputs
from profiler.variants.exported import put_in_place
from profiler.variants.layers import Step, all_modules, failing, layers, unique_parameters
from profiler.variants.parts import find_parts

SECONDS = 2.0  # of speech on which outputs are compared, and of each piece that a calibration takes
PIECES = 4

if TYPE_CHECKING:
    import torch.nn

    from profiler.audio import Speech
    from profiler.dataset.items import TrainingSpeech
    from profiler.models.model import Model
    from profiler.recipe.schema import Variant
    from profiler.runtimes.part import EngineRequest


def convert_loaded(
    model: Model,
    variant: Variant,
    speech: Speech,
    engine: EngineRequest | None = None,
    finetuning: TrainingSpeech | None = None,
) -> Conversion | None:
    """Convert in place; None where the variant leaves the model as it is. Raises NotSupported. `finetuning`: what a
    variant that is trained is trained on.

    Both outputs are taken in forks of this process: it must not compute anything itself, see worker.py.
    """
    if engine is None and not changes_model(variant):
        return None
    import torch

    with tempfile.TemporaryDirectory() as folder:
        before, after = Path(folder) / "before.pt", Path(folder) / "after.pt"

        def save_before(value: Any, parts: Mapping[str, torch.nn.Module] = NONE) -> None:
            with failing("the model itself does not run"):
                trial(model, lambda: save_outputs(model, value, before, parts), None)

        if engine is not None:
            found = find_parts(model, variant, speech, engine)
            value, parts = found.examples[0].value, found.modules
            save_before(value, parts)
            conversion = put_in_place(model, found)
        else:
            inputs = [model.prepare(speech.batch(SECONDS, 1, seed=number)) for number in range(PIECES)]
            value, parts = inputs[0], {}
            save_before(value)
            conversion = convert(model, variant, lambda: inputs, finetuning)

        def save_after() -> None:
            if engine is not None:
                torch.set_num_threads(engine.threads)  # as in a cell: the engine's threads are those of the variant
            save_outputs(model, value, after, parts)

        with failing("the converted model does not run here"):
            trial(model, save_after, None)
        changed = difference(load_outputs(before), load_outputs(after), parts)
    gc.collect()
    hand_back_freed_memory()  # what the float weights took is not the variant's
    return conversion.model_copy(update={"difference": changed})


def changes_model(variant: Variant) -> bool:
    """Whether there is anything to convert; else the variant differs by settings of the recipe and threads alone."""
    lower = variant.precision in ("bfloat16", "float16")
    changed = variant.quantize or variant.compile or variant.cuda_graph or variant.attention or variant.memory_format
    return bool(lower or changed)


def convert(
    model: Model,
    variant: Variant,
    calibrate: Callable[[], Iterable[Any]],
    finetuning: TrainingSpeech | None = None,
) -> Conversion:
    """Convert the model in place. `calibrate` gives prepared inputs made of sample speech, at least one.

    Raises NotSupported, with the reason for the variant's place in the tables, where nothing would be converted or the
    converted model does not run here. The model may then be half converted, and is not to be used.
    """
    total_layers = len(layers(model))
    total_parameters = sum(parameter.numel() for parameter in unique_parameters(model).values())
    before = size_bytes(model)
    inputs = list(calibrate()) if changes_model(variant) else []
    steps = [step(model, inputs) for step in _steps(variant, finetuning)]
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
        bytes_after=size_bytes(model),
        graphs=next((step.graphs for step in steps if step.graphs is not None), None),
        graph_breaks=next((step.graph_breaks for step in steps if step.graph_breaks is not None), None),
        notes=[note for step in steps for note in step.notes],
    )


def _steps(variant: Variant, speech: TrainingSpeech | None) -> list[Callable[[Model, list[Any]], Step]]:
    """The changes that a variant asks for, in the order in which they can be made."""
    from profiler.variants import compiled, graphed, precision, qat, quantize

    steps: list[Callable[[Model, list[Any]], Step]] = []
    if (dtype := variant.precision) in ("bfloat16", "float16"):
        steps.append(lambda model, inputs: precision.to_precision(model, inputs, str(dtype)))
    if variant.memory_format:
        steps.append(to_channels_last)
    if kind := variant.attention:
        steps.append(lambda model, inputs: set_attention(model, inputs, kind))
    if variant.quantize == "dynamic" and variant.compile:
        steps.append(quantize.dynamic_compiled)
    elif variant.quantize == "dynamic":
        recurrent = variant.layers == "linear_and_recurrent"
        steps.append(lambda model, inputs: quantize.dynamic(model, inputs, recurrent, variant.engine))
    elif variant.quantize == "static":
        steps.append(lambda model, inputs: quantize.static(model, inputs, variant.engine))
    elif variant.quantize == "weight_only":
        steps.append(quantize.weight_only)
    elif (settings := variant.qat) is not None and speech is not None:
        steps.append(lambda model, inputs: qat.qat(model, inputs, settings, speech, variant.threads))
    if variant.compile:
        steps.append(compiled.compile_parts)
    if variant.cuda_graph:
        steps.append(graphed.record_calls)
    return steps


def _share(part: int | None, whole: int) -> float | None:
    return part / whole if part is not None and whole else None


def to_channels_last(model: Model, inputs: list[Any]) -> Step:
    """Two-dimensional convolutions with the channels of a weight side by side; activations follow."""
    import torch

    kinds = (torch.nn.Conv2d, torch.nn.ConvTranspose2d)
    found = [module for module in all_modules(model) if isinstance(module, kinds) and "weight" in module._parameters]
    # With one channel, or a kernel of one, both orders are the same.
    changed = [conv for conv in found if not conv.weight.is_contiguous(memory_format=torch.channels_last)]
    if not changed:
        raise NotSupported("the model has no two-dimensional convolution that channels_last would change")
    for conv in changed:
        conv.weight.data = conv.weight.data.to(memory_format=torch.channels_last)
    with failing("the model does not run with channels_last"):
        trial(model, lambda: run_all(model, inputs), None)
    return Step("channels_last", changed, sum(conv.weight.numel() for conv in changed))


def set_attention(model: Model, inputs: list[Any], wanted: str) -> Step:
    """Set it in this process, and so in its forks, and prove it by counting calls."""
    import torch

    before = _fused_calls(model, inputs)
    for module in all_modules(model):
        if hasattr(module, "set_attn_implementation") and hasattr(module, "config"):
            module.set_attn_implementation("eager" if wanted == "eager" else "sdpa")
    if wanted == "math":
        torch.backends.cuda.enable_flash_sdp(False)
        torch.backends.cuda.enable_mem_efficient_sdp(False)
        torch.backends.cuda.enable_cudnn_sdp(False)
        torch.backends.cuda.enable_math_sdp(True)
    after = _fused_calls(model, inputs)
    if wanted == "eager" and (after or not before):
        raise NotSupported(
            "the model's library has no attention to choose from"
            if after
            else "the model never calls torch's scaled_dot_product_attention: it is eager as it is"
        )
    if wanted != "eager" and not after:
        raise NotSupported("the model never calls torch's scaled_dot_product_attention: its attention is its own")
    notes = [f"Calls of scaled_dot_product_attention in the sample run: {before} before, {after} after."]
    if wanted == "sdpa" and before == after:
        notes.append("sdpa is what the model uses by itself.")
    return Step(f"attention {wanted}", notes=notes)


def _fused_calls(model: Model, inputs: list[Any]) -> int:
    """How often the model calls scaled_dot_product_attention."""
    import torch
    from torch.overrides import TorchFunctionMode

    class Count(TorchFunctionMode):  # type: ignore[misc]
        calls = 0

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is torch.nn.functional.scaled_dot_product_attention:
                self.calls += 1
            return func(*args, **(kwargs or {}))

    def work() -> int:
        with Count() as count:
            run_all(model, inputs)
        return int(count.calls)

    with failing("the model does not run with this attention"):
        return trial(model, work, int)
