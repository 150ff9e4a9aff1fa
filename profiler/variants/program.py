"""A module + one way in which it is called -> a file for an engine: torch.export's program, written and tried.

    the model runs --calls of this way--> torch.export --program--> the engine's exporter --file--> same shapes again

Separate, since it deals with one module and what stands in the way of its export: inputs that nothing uses, packed
rows, caches that grow, sizes that torch.export would fix. Which modules are tried, and where files are kept: parts.py.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from profiler.errors import NotSupported
from profiler.measure.passes.memory import status_bytes
from profiler.processes import run_all
from profiler.runtimes.part import Manifest, Runtime
from profiler.runtimes.tensors import Given, Leaves, given, outputs
from profiler.variants.layers import hooked

if TYPE_CHECKING:
    from profiler.models.model import Model


@dataclass(frozen=True)
class Way:
    """One way in which a module is called, as one file serves it."""

    how: str  # as `Given` tells
    fixed: tuple[tuple[int, ...], ...] | None  # the shapes that it is for; None: any
    free: list[list[int]]  # of each tensor, the dimensions of any size

    def fits(self, call: Given) -> bool:
        return self.how == call.how and self.fixed in (None, call.shapes)


def export_module(runtime: Runtime, model: Model, module: Any, values: list[Any], way: Way, to: Path) -> Manifest:
    """Run the model to see how it calls the module, write that call as a file, and see that the engine runs the file.

    For a process of its own.
    """
    from torch.utils import _pytree

    made = _recorded(model, module, values, way)
    example = max(made, key=lambda one: one.size)  # torch.export fixes what is 1
    warnings.simplefilter("ignore")  # of exporters, about themselves
    begin = time.perf_counter()
    every = list(range(len(example.call.tensors)))
    program, packed = _program(module, example.call, dict.fromkeys(every), way.free)
    takes = [place for place, node in zip(every, _inputs(program, len(every)), strict=True) if node.users]
    if takes != every:  # engines differ in what they do with an input that nothing uses
        program, packed = _program(module, example.call, _without_unused(program, takes, len(every)), way.free)
    _require_free(program, [way.free[place] for place in takes])
    file = f"model{runtime.engine.SUFFIX}"
    runtime.engine.export(program, to / file, runtime.options)
    took = time.perf_counter() - begin
    peak = status_bytes("VmHWM")
    session = runtime.engine.load(to / file, runtime.options)
    for one in made:  # an exporter may write what its engine cannot run
        shapes = [tuple(tensor.shape) for tensor in session.run([one.call.tensors[place] for place in takes])]
        if shapes != one.shapes:
            raise NotSupported("what was exported gives outputs of another shape")
    return Manifest(
        file=file,
        output=_pytree.treespec_dumps(example.structure),
        leaves=example.leaves,
        export_s=took,
        export_peak_bytes=peak,
        full_rows=packed,
        takes=None if takes == every else takes,
    )


@dataclass
class _Made:
    """A call of a module that was made, and what came of it."""

    call: Given
    shapes: list[tuple[int, ...]]  # of the outputs
    leaves: Leaves
    structure: Any

    @property
    def size(self) -> int:
        return sum(tensor.numel() for tensor in self.call.tensors)


def _recorded(model: Model, module: Any, values: list[Any], way: Way) -> list[_Made]:
    """The calls of this way: of each value the first and the largest, to which a cache has grown."""
    found: list[list[_Made]] = []
    pending: list[Given] = []

    def enter(module: Any, arguments: Any, named: Any) -> None:
        pending.append(given(arguments, named).kept())

    def leave(module: Any, arguments: Any, named: Any, output: Any) -> None:
        call = pending.pop()
        if way.fits(call):
            tensors, leaves, structure = outputs(output, call)
            made = _Made(call, [tuple(tensor.shape) for tensor in tensors], leaves, structure)
            if len(found[-1]) < 2 or made.size >= found[-1][1].size:
                found[-1][1:] = [made]

    before = module.register_forward_pre_hook(enter, with_kwargs=True)
    with hooked([before, module.register_forward_hook(leave, with_kwargs=True)]):
        for value in values:
            found.append([])
            run_all(model, [value])
    return [one for of_value in found for one in of_value]


Sizes = list[int | tuple[int, int]]  # of a tensor that is not given; (tensor, dimension): as that of another
Takes = dict[int, Sizes | None]  # by the place of a tensor: None where it is given


def _without_unused(program: Any, takes: list[int], count: int) -> Takes:
    """Inputs that nothing uses are left out. Their sizes may be asked for all the same: they are those of others."""
    shapes = [node.meta["val"].shape for node in _inputs(program, count)]
    known = {str(size): (place, at) for place in reversed(takes) for at, size in enumerate(shapes[place])}
    found: Takes = dict.fromkeys(takes)
    for place in range(count):
        if place not in found:
            found[place] = [size if isinstance(size, int) else known.get(str(size), 1) for size in shapes[place]]
    return found


def _program(module: Any, call: Given, takes: Takes, free: list[list[int]]) -> tuple[Any, bool]:
    """The exported program of a call that is given some of its tensors, and whether it packs rows."""
    import torch

    places = [place for place, sizes in takes.items() if sizes is None]
    tensors = [call.tensors[place].detach().clone() for place in places]
    dims = tuple(dict.fromkeys(free[place], torch.export.Dim.AUTO) for place in places)
    with torch.no_grad(), _unpacked(any(tensor.dim() == 1 for tensor in tensors)) as packed, _growing():
        flat = _flat(module, call, takes)
        program = torch.export.export(flat, tuple(tensors), dynamic_shapes={"tensors": dims}, strict=False)
    return program, bool(packed)


@contextmanager
def _growing() -> Iterator[None]:
    """A cache's first keys are what it holds, and not joined to an empty vector: not every engine can join these."""
    library: Any = sys.modules.get("transformers.cache_utils")
    if library is None:
        yield
        return
    kind = library.DynamicLayer
    update = kind.update

    def first(self: Any, keys: Any, values: Any, *more: Any, **named: Any) -> Any:
        if self.keys is not None and self.keys.dim() > 1:
            return update(self, keys, values, *more, **named)
        self.keys, self.values, self.is_initialized = keys, values, True
        self.dtype, self.device = keys.dtype, keys.device
        return keys, values

    kind.update = first
    try:
        yield
    finally:
        kind.update = update


@contextmanager
def _unpacked(wanted: bool) -> Iterator[list[bool]]:
    """Recurrent layers get rows as they are: where all have one length, packing them changes nothing, and no engine has
    packed ones. Gives whether any were to be packed. Without lengths among the inputs nobody could check that."""
    import torch

    rnn: Any = torch.nn.utils.rnn
    packed: list[bool] = []

    def pack(rows: Any, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True) -> Any:
        packed.append(True)
        return rows

    def pad(rows: Any, batch_first: bool = False, padding_value: float = 0.0, total_length: Any = None) -> Any:
        time, count = (1, 0) if batch_first else (0, 1)
        return rows, torch.full((rows.shape[count],), rows.shape[time], dtype=torch.int64)

    def mask(length: Any, max_len: Any = None, dtype: Any = None, device: Any = None) -> Any:
        """As SpeechBrain's, which asks len() how many rows there are: a number, which torch.export fixes."""
        longest = length.max().long().item() if max_len is None else max_len
        places = torch.arange(longest, device=length.device, dtype=length.dtype)
        return (places.unsqueeze(0) < length.unsqueeze(1)).to(dtype or length.dtype)

    others = {rnn.pack_padded_sequence: pack, rnn.pad_packed_sequence: pad} if wanted else {}
    if (library := sys.modules.get("speechbrain.dataio.dataio")) is not None:
        others[library.length_to_mask] = mask
    with _replaced(others):
        yield packed


@contextmanager
def _replaced(others: dict[Any, Any]) -> Iterator[None]:
    """Functions by others, wherever a module has them by name."""
    places = [
        (vars(module), name, value)
        for module in list(sys.modules.values())
        if isinstance(module, ModuleType)
        for name, value in list(vars(module).items())
        if isinstance(value, FunctionType) and value in others
    ]
    for names, name, value in places:
        names[name] = others[value]
    try:
        yield
    finally:
        for names, name, value in places:
            names[name] = value


def _flat(module: Any, call: Given, takes: Takes) -> Any:
    """The module as one that takes tensors and gives tensors, as this call has them."""
    import torch

    def empty(place: int, taken: dict[int, Any]) -> Any:
        sizes = [size if isinstance(size, int) else taken[size[0]].shape[size[1]] for size in takes[place] or []]
        return torch.zeros(sizes, dtype=call.tensors[place].dtype)

    class Flat(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.module = module

        def forward(self, *tensors: Any) -> Any:
            left = iter(tensors)
            taken = {place: next(left) for place, sizes in takes.items() if sizes is None}
            every = [taken[place] if place in taken else empty(place, taken) for place in range(len(takes))]
            again = call.again(every)
            positional, by_name = again.arguments
            return tuple(outputs(self.module(*positional, **by_name), again)[0])

    return Flat().eval()


def _inputs(program: Any, count: int) -> list[Any]:
    """The nodes of what it is given, parameters left out."""
    nodes = [node for node in program.graph.nodes if node.op == "placeholder"]
    return nodes[-count:]


def _require_free(program: Any, free: list[list[int]]) -> None:
    """torch.export fixes a size in silence where the code depends on it."""
    from torch.fx.experimental.symbolic_shapes import is_concrete_int

    for node, sizes in zip(_inputs(program, len(free)), free, strict=True):
        if any(is_concrete_int(node.meta["val"].shape[size]) for size in sizes):
            raise NotSupported("its code depends on the length or the batch size, which the export would fix")
