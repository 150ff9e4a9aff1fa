"""Parameters and bytes of a model, in total and by component; what is shared counts once, and is named.

Shipped recipes are counted once, into recipes/counts.json (`make counts`), so that `ls` and `show` need no torch for
them. Any other model is counted by building it without memory for its weights, which takes some seconds.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from profiler.recipe.schema import Recipe
from profiler.results.types import ComponentCounts, Parameters, Size
from profiler.shipped import shipped_folder

if TYPE_CHECKING:
    import torch

    from profiler.models.model import Model


REST = "other"
# Keys of pretrained_model on which the size of a model does not depend.
WITHOUT_SIZE = ("weights", "tokens_per_second", "prompt", "new_tokens")


def count_parameters(model: Model) -> Parameters:
    """In total and by component; what is shared counts in the first component that has it."""
    if model.file_bytes is not None:  # they are the engine's, which does not tell how many there are
        return Parameters()
    seen: set[int] = set()
    components: dict[str, int] = {}
    details: dict[str, ComponentCounts] = {}
    for name, part in (*model.components.items(), (REST, model.module)):
        parameters, buffers = _unseen(part.parameters(), seen), _unseen(part.buffers(), seen)
        if parameters or buffers:
            components[name] = _numbers(parameters)
            details[name] = ComponentCounts(trainable=_trainable(parameters), buffers=_numbers(buffers))
    return Parameters(
        total=_numbers(_unseen(model.module.parameters(), set())),
        trainable=_trainable(_unseen(model.module.parameters(), set())),
        buffers=_numbers(_unseen(model.module.buffers(), set())),
        shared=shared_names(model.module),
        components={name: count for name, count in components.items() if count},
        details=details,
    )


def shared_names(module: torch.nn.Module) -> list[list[str]]:
    """Groups of names that lead to one parameter or one module with parameters. What is inside a named one is not."""
    places: dict[int, dict[tuple[int, str], str]] = {}
    for path, owner in module.named_modules(remove_duplicate=False):
        for name, thing in _children(owner):
            places.setdefault(id(thing), {}).setdefault((id(owner), name), f"{path}.{name}" if path else name)
    return [list(names.values()) for names in places.values() if len(names) > 1]


def _children(owner: torch.nn.Module) -> Iterator[tuple[str, Any]]:
    """What a module holds under its own names: parameters, and modules that have any."""
    yield from ((name, parameter) for name, parameter in owner._parameters.items() if parameter is not None)
    for name, child in owner._modules.items():
        if child is not None and next(child.parameters(), None) is not None:
            yield name, child


def size_bytes(model: Model) -> Size:
    """Of the values that torch.save would write; what is shared counts once, where it is first.

    A packed int8 layer counts as it is saved: int8 weights, scales, zero points, bias.
    """
    if model.file_bytes is not None:
        return Size(total=model.file_bytes, components={"file": model.file_bytes})
    seen: set[int] = set()
    components = {name: _module_bytes(part, seen) for name, part in model.components.items()}
    components[REST] = _module_bytes(model.module, seen)
    return Size(total=sum(components.values()), components={name: count for name, count in components.items() if count})


def _module_bytes(root: torch.nn.Module, seen: set[int]) -> int:
    """Module by module, because a packed layer makes new tensors each time it is asked for its state."""
    total = 0
    for module in root.modules():
        if id(module) in seen:
            continue
        seen.add(id(module))
        state: dict[str, Any] = {}
        module._save_to_state_dict(state, "", keep_vars=True)
        held = {id(tensor) for tensor in (*module.parameters(recurse=False), *module.buffers(recurse=False))}
        for value in state.values():
            if id(value) not in seen:
                total += _value_bytes(value)
            if id(value) in held:
                seen.add(id(value))
    return total


def _value_bytes(value: Any) -> int:
    import torch

    if isinstance(value, (tuple, list)):
        return sum(_value_bytes(part) for part in value)
    if isinstance(value, torch.ScriptObject):  # packed weights of an engine
        return _value_bytes(value.__getstate__())
    if not isinstance(value, torch.Tensor):
        return 0
    if hasattr(value, "__tensor_flatten__"):  # torchao: a tensor made of several
        return sum(_value_bytes(getattr(value, name)) for name in value.__tensor_flatten__()[0])
    own = value.numel() * value.element_size()
    if value.is_quantized and value.qscheme() in (torch.per_channel_affine, torch.per_channel_symmetric):
        own += _value_bytes(value.q_per_channel_scales()) + _value_bytes(value.q_per_channel_zero_points())
    return int(own)


def _unseen(tensors: Iterable[Any], seen: set[int]) -> list[Any]:
    found = {id(tensor): tensor for tensor in tensors if id(tensor) not in seen}
    seen.update(found)
    return list(found.values())


def _numbers(tensors: Iterable[Any]) -> int:
    return sum(tensor.numel() for tensor in tensors)


def _trainable(parameters: Iterable[Any]) -> int:
    return sum(parameter.numel() for parameter in parameters if parameter.requires_grad)


def counts_file() -> Path:
    return shipped_folder() / "recipes" / "counts.json"


def shipped_counts() -> list[dict[str, Any]]:
    """[{recipe, variant, model, parameters, size_bytes}] of all shipped recipes."""
    found: list[dict[str, Any]] = json.loads(counts_file().read_bytes()) if counts_file().exists() else []
    return found


def model_key(recipe: Recipe) -> dict[str, Any]:
    """What decides how large a model is."""
    wanted = recipe.pretrained_model.model_dump(mode="json", exclude_defaults=True)
    return {name: value for name, value in wanted.items() if name not in WITHOUT_SIZE}


class Counts(BaseModel):
    """Of one model."""

    parameters: Parameters
    size_bytes: Size


def known_counts(recipe: Recipe) -> Counts | None:
    """Of a model that ships, else None. Needs no torch."""
    key = model_key(recipe)
    for entry in shipped_counts():
        if entry["model"] == key:
            return Counts.model_validate(entry)
    return None


def count_now(recipe: Recipe, base: Path, trust: bool = False) -> Counts:
    """Of any model, by building it on the meta device: in a process of its own, in the sandbox unless it is trusted."""
    from profiler import sandbox
    from profiler.errors import ModelError, UserError
    from profiler.models.load import build_for_counting
    from profiler.models.model import may_download, model_request
    from profiler.processes import TrialFailed, in_fork

    request = model_request(recipe, base, trust=trust)

    def count(folder: str) -> tuple[str, str]:
        """(what is wrong, counts as JSON)."""
        if not trust:
            places = sandbox.Places(Path(folder), Path(folder), Path(folder))
            sandbox.restrict(places, may_download(request))
            os.environ.update(sandbox.environment(places))
            tempfile.tempdir = folder
        import torch

        torch.set_num_threads(1)  # a fork of a process that used several would wait for them
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for chatter in (1, 2):  # of libraries that are imported; errors are raised, not printed
            os.dup2(nowhere, chatter)
        try:
            built = build_for_counting(request)
        except UserError as error:
            return str(error), ""
        return "", Counts(parameters=count_parameters(built), size_bytes=size_bytes(built)).model_dump_json()

    with tempfile.TemporaryDirectory(prefix="speech-profiler-") as folder:
        try:
            wrong, found = in_fork(lambda: count(folder), tuple[str, str])
        except TrialFailed as error:
            raise ModelError(f"The parameters cannot be counted: {error}. Leave them out with --no-counts.") from error
    if wrong:
        raise ModelError(wrong)
    return Counts.model_validate_json(found)
