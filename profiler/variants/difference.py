"""How far a converted model's output is from the float one's, on the same speech.

The output of one run is written to a file by a process that holds the float model, and by one that holds the converted
model; a third compares them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from profiler.results.types import Distance, OutputDifference
from profiler.variants.layers import all_modules, hooked, recorded_calls

if TYPE_CHECKING:
    import torch

    from profiler.models.model import Model

FINAL = "final output"
NONE: Mapping[str, Any] = {}


class ModelOutputs(NamedTuple):
    """Of one run: the first output of each component, and the final output last."""

    tensors: dict[str, torch.Tensor]
    texts: list[str]


def save_outputs(model: Model, value: Any, path: Path, parts: Mapping[str, torch.nn.Module] = NONE) -> None:
    """Run the model on one prepared input and write what came out. For a process of its own: it adds hooks."""
    import torch

    torch.save(tuple(capture_outputs(model, value, parts)), path)


def load_outputs(path: Path) -> ModelOutputs:
    import torch

    return ModelOutputs(*torch.load(path, weights_only=True))


def capture_outputs(model: Model, value: Any, parts: Mapping[str, torch.nn.Module] = NONE) -> ModelOutputs:
    """Of what has weights, and only the largest floating-point tensor. A search is left out: what it gives after its
    first wrong turn is another sentence, not a measure of distance. `parts`: modules to look at beside the components.
    """
    import torch

    tensors: dict[str, torch.Tensor | None] = {}
    counts: Counter[str] = Counter()
    places = {id(module): number for number, module in enumerate(all_modules(model))}
    handles = []
    watched = {**model.components, **parts}
    watched = {name: part for name, part in watched.items() if not isinstance(part, torch.jit.ScriptModule)}  # no hooks
    for name, part in watched.items():
        if next(part.parameters(), None) is not None or _is_converted(part):
            handles.append(part.register_forward_hook(_keep_first(tensors, counts, name)))
    with hooked(handles), torch.no_grad(), recorded_calls(model) as calls:
        output = model.run(value)
    searches = [name for name, part in watched.items() if places[id(part)] in calls.looping]
    # What is called step by step (a decoder, a language model) has not got all of the speech at its first call.
    order = sorted(tensors, key=lambda name: counts[name] == 1)
    kept = {name: tensor for name in order if name not in searches and (tensor := tensors[name]) is not None}
    final = _largest(output)
    if final is not None:
        kept[FINAL] = final.detach().float().clone()
    return ModelOutputs(kept, _texts(output))


def difference(before: ModelOutputs, after: ModelOutputs, parts: Collection[str] = ()) -> OutputDifference:
    """How far the outputs of two runs lie apart: the final output where it is of numbers, else that of the last
    component which takes all of the speech at once and gives the same shape in both runs. Where `parts` were changed
    and nothing else, the one of them that is furthest off."""
    components = {
        name: _distance(tensor, after.tensors[name])
        for name, tensor in before.tensors.items()
        if name in after.tensors and after.tensors[name].shape == tensor.shape
    }
    compared = next(reversed(components), None)
    changed_parts = [name for name in components if name in parts]
    if changed_parts and compared != FINAL:
        compared = max(changed_parts, key=lambda name: components[name].max or 0.0)
    headline = components[compared] if compared else Distance()
    pairs = list(zip(before.texts, after.texts, strict=False))
    changed = sum(one != other for one, other in pairs) / len(pairs) if pairs else None
    named = f"{compared} output" if compared not in (None, FINAL) else compared
    return OutputDifference(
        compared=named,
        components=components,
        texts=len(pairs),
        texts_changed=changed,
        tokens_agree=_agreement(pairs),
        **dict(headline),
    )


def _agreement(pairs: Sequence[tuple[str, str]]) -> float | None:
    """The share of tokens that both have, in the same order; None where the first has none."""
    import jiwer

    known = [(tokens, _tokens(other)) for one, other in pairs if (tokens := _tokens(one))]
    if not known:
        return None
    counted = jiwer.process_words([one for one, _ in known], [other for _, other in known])
    return counted.hits / (counted.hits + counted.substitutions + counted.deletions + counted.insertions)


def _tokens(text: str) -> str:
    """Of one row of what `_texts` gives, as words: ids where a model gives these, else letters."""
    if text.startswith("[") and text.endswith("]"):
        return text[1:-1].replace(",", " ")
    return " ".join(text.replace(" ", "_"))


def _keep_first(tensors: dict[str, torch.Tensor | None], counts: Counter[str], name: str) -> Any:
    def hook(module: Any, arguments: Any, output: Any) -> None:
        counts[name] += 1
        if counts[name] == 1:
            largest = _largest(output)
            tensors[name] = None if largest is None else largest.detach().float().clone()

    return hook


def _is_converted(module: Any) -> bool:
    """Int8 layers keep their weights packed, where they are no parameters."""
    return any("quantized" in type(inner).__module__ for inner in module.modules())


def _largest(output: Any) -> Any:
    """The largest floating-point tensor in an output, or None."""
    import torch

    if isinstance(output, torch.Tensor):
        return output if output.is_floating_point() and output.numel() else None
    if isinstance(output, dict):
        output = list(output.values())
    if not isinstance(output, (tuple, list)):
        return None
    found = [tensor for tensor in map(_largest, output) if tensor is not None]
    return max(found, key=lambda tensor: tensor.numel(), default=None)


def _texts(output: Any) -> list[str]:
    """What an ASR model gives for each recording: texts, or rows of token ids."""
    import torch

    if isinstance(output, torch.Tensor):
        return [str(row) for row in output.tolist()] if not output.is_floating_point() and output.dim() else []
    if isinstance(output, (tuple, list)) and output and all(isinstance(part, (str, list)) for part in output):
        return [str(part) for part in output]
    return []


def _distance(one: Any, other: Any) -> Distance:
    """A difference that is no number (an overflow on one side) is None."""
    gap = (one.double() - other.double()).abs()
    size = one.double().abs().mean().item()
    figures = {"max": gap.max().item(), "mean": gap.mean().item()}
    figures["relative"] = figures["mean"] / size if size else math.nan
    return Distance(**{name: value if math.isfinite(value) else None for name, value in figures.items()})
