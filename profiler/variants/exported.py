"""Loaded model -> the same with its largest modules run by an engine: found, exported, cached, put in place.

    calls watched in a fork --> parts --torch.export, the engine's exporter, in a fork--> files --> forward replaced

A part is the largest module with weights that is called once in a call of the model (or twice), with tensors in and
out, and in which no Fourier transform is made: features are the library's, and stay. What a part's own export refuses
is tried with the modules that it calls.

A search calls its decoder again and again. That is a part too where the module is handed a cache of keys and values
each time: one file for the first step, which fills the cache, one for all later ones. The search around it stays, and
so does what is called again and again without such a cache.
"""

from __future__ import annotations

import gc
import importlib.metadata
import shutil
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import msgspec

from profiler.errors import NotSupported
from profiler.measure.passes.memory import hand_back_freed_memory, status_bytes
from profiler.processes import TrialFailed, device_of, run_all, trial
from profiler.results.types import Conversion, RuntimeUse, Size
from profiler.runtimes import ENGINES, cache, ctranslate2, engine
from profiler.runtimes.base import Options
from profiler.runtimes.part import MANIFEST, EngineRequest, Export, ExportedPart, Manifest, Runtime
from profiler.runtimes.reasons import explained
from profiler.runtimes.tensors import Given, Leaves, given, outputs
from profiler.runtimes.waiting import SPINNING, waiting_cpus
from profiler.variants.layers import (
    ModuleCalls,
    all_modules,
    failing,
    hooked,
    layers,
    recorded_calls,
    unique_parameters,
)

if TYPE_CHECKING:
    import torch

    from profiler.audio import Speech
    from profiler.models.model import Model, OwnExport
    from profiler.recipe.schema import Variant

EXAMPLE, CONTRAST = (2.0, 2), (1.3, 1)  # seconds and rows: what differs between them may be of any size
LONGER = 1.2  # than a model's window: an example of audio that goes beyond it
MOST_CALLS = 2  # of a part in a call of the model: Whisper's encoder also tells the language
PADDING = 0.3  # of the example of a padded batch
REASON = 300  # characters of why an export failed


ShapesSeen = list[tuple[tuple[int, ...], ...]]  # of the tensors of each call, each once


class SeenCalls(msgspec.Struct):
    """How a module was called, and why it cannot be exported."""

    count: int = 0
    steps: bool = False  # whether it was handed a cache of keys and values
    ways: dict[str, ShapesSeen] = {}  # by what `Given` tells of a call
    refused: str = ""


class Seen(msgspec.Struct):
    """One call of the model. Modules by their place in `all_modules`."""

    calls: dict[int, SeenCalls]
    modules: ModuleCalls
    features: set[int]  # in which a Fourier transform is made


@dataclass
class Example:
    """An input of the model, and what was seen when it ran."""

    value: Any
    seen: Seen | None = None


@dataclass
class Found:
    """What the engine can run of a model: nothing is changed yet."""

    runtime: Runtime
    modules: dict[str, torch.nn.Module]  # by the names of the parts
    refused: list[str]  # why others stay in torch
    examples: list[Example]
    request: EngineRequest


def find_parts(model: Model, variant: Variant, speech: Speech, request: EngineRequest) -> Found:
    """Export what the engine takes. Raises NotSupported, with the reason, where that is nothing."""
    import torch

    name = str(variant.runtime)
    chosen = engine(name)
    options = Options(
        threads=request.threads,
        precision=variant.precision or "float32",
        quantize="dynamic" if variant.quantize == "dynamic" else None,
    )
    if model.own_export is not None and name in model.own_export.files:
        return _own_file(model, model.own_export, Runtime(name, chosen, options), speech, request)
    if any(isinstance(module, torch.jit.ScriptModule) for module in all_modules(model)):
        raise NotSupported("the model has parts in TorchScript, which torch.export does not take")
    if device_of(model) != "cpu":
        raise NotSupported(f"{ENGINES[name].title} is run on the CPU here; add --device cpu")
    if name == ctranslate2.NAME:
        return _find_whole(model, Runtime(name, chosen, options), speech, request)
    examples = _examples(model, speech, request, chosen.DYNAMIC)
    with failing("the model itself does not run"):
        for example in examples:
            example.seen = _observe(model, example.value)
    work = _Exporter(model, Runtime(name, chosen, options), examples, request)
    work.attempt()
    if not work.parts:
        reasons = "; ".join(dict.fromkeys(work.refused.values()))
        raise NotSupported(reasons or "no module with weights is called with tensors in and out")
    parts = dict(sorted(work.parts.items()))
    modules = {part.name: work.modules[number] for number, part in parts.items()}
    work.runtime.parts = list(parts.values())
    return Found(work.runtime, modules, list(work.refused.values()), examples, request)


def _find_whole(model: Model, runtime: Runtime, speech: Speech, request: EngineRequest) -> Found:
    """For an engine that has code of its own for a kind of model, search included, and takes its weights alone."""
    ctranslate2.require_known(model.module)
    examples = _examples(model, speech, request, dynamic=True)[:2]
    with failing("the model itself does not run"):
        prompts = trial(model, lambda: ctranslate2.prompts(model, examples[0].value), list[list[int]])
        weights = trial(model, lambda: cache.fingerprint(model.module), str)
    made_of = (weights, ctranslate2.told(model.module), runtime.engine.options(runtime.options))
    code = [*cache.code_of(runtime.name), Path(__file__)]
    folder = request.cache / cache.key(runtime.name, *made_of, packages=runtime.engine.PACKAGES, code=code)
    manifest = read_manifest(folder)
    cached = manifest is not None

    def convert() -> Manifest:
        with cache.made_whole(folder) as made:
            begin = time.perf_counter()
            ctranslate2.convert(model.module, made, runtime.options)
            took = time.perf_counter() - begin
            found = Manifest(
                file=ctranslate2.FILE,
                output="",
                leaves=[],
                export_s=took,
                export_peak_bytes=status_bytes("VmHWM"),
            )
            (made / MANIFEST).write_bytes(msgspec.json.encode(found))
        return found

    if manifest is None:
        try:
            manifest = trial(model, convert, Manifest)
        except TrialFailed as error:
            title = ENGINES[runtime.name].title
            raise NotSupported(f"{title} cannot convert it: {str(error)[:REASON]}") from None
    part = ctranslate2.search_part(model.module, runtime, Export("", (), folder, manifest, cached), prompts)
    runtime.parts = [part]
    return Found(runtime, {part.name: model.module}, [], examples, request)


def _examples(model: Model, speech: Speech, request: EngineRequest, dynamic: bool) -> list[Example]:
    if not dynamic:
        cells = dict.fromkeys(request.cells)
        return [
            Example(model.prepare(speech.batch(seconds, rows, seed=0, padding=request.padding)))
            for seconds, rows in cells
        ]
    sizes = [EXAMPLE, CONTRAST]
    if model.window and any(seconds > model.window for seconds, _ in request.cells):
        sizes.append((LONGER * model.window, 2))  # which a model may work on in another way
    shapes = [(seconds, rows if request.batches else 1) for seconds, rows in sizes]
    values = [model.prepare(speech.batch(seconds, rows, seed=0)) for seconds, rows in shapes]
    if request.padded and request.batches:
        values += [model.prepare(speech.batch(seconds, 2, seed=0, padding=PADDING)) for seconds, _ in shapes]
    return [Example(value) for value in values]


# -- what a model calls


def _observe(model: Model, value: Any) -> Seen:
    def work() -> Seen:
        with _watched(model) as calls, _fourier(model) as features, recorded_calls(model) as modules:
            run_all(model, [value])
        return Seen(calls, modules, features)

    return trial(model, work, Seen)


@contextmanager
def _watched(model: Model) -> Iterator[dict[int, SeenCalls]]:
    found: dict[int, SeenCalls] = {}
    pending: list[Given | str] = []  # of the calls that are not over yet, the innermost last

    def enter(module: Any, arguments: Any, named: Any) -> None:
        try:
            pending.append(given(arguments, named))
        except NotSupported as error:
            pending.append(str(error))

    def leave(number: int) -> Any:
        def hook(module: Any, arguments: Any, named: Any, output: Any) -> None:
            call, calls = pending.pop(), found.setdefault(number, SeenCalls())
            calls.count += 1
            if isinstance(call, str):
                calls.refused = call
                return
            calls.steps |= bool(call.caches)
            shapes = calls.ways.setdefault(call.how, [])
            if call.shapes not in shapes:
                shapes.append(call.shapes)
            try:
                outputs(output, call)
            except NotSupported as error:
                calls.refused = str(error)

        return hook

    handles = []
    for number, module in enumerate(all_modules(model)):
        handles.append(module.register_forward_pre_hook(enter, with_kwargs=True))
        handles.append(module.register_forward_hook(leave(number), with_kwargs=True))
    with hooked(handles):
        yield found


@contextmanager
def _fourier(model: Model) -> Iterator[set[int]]:
    """Modules in which a Fourier transform is made."""
    import torch
    from torch.overrides import TorchFunctionMode

    transforms = [
        torch.stft,
        torch.istft,
        torch.Tensor.stft,
        *(made for made in vars(torch.fft).values() if callable(made)),
    ]
    found: set[int] = set()
    inside: list[int] = []

    class Watch(TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if function in transforms:
                found.update(inside)
            return function(*args, **(kwargs or {}))

    def enter(number: int) -> Any:
        return lambda module, arguments: inside.append(number)

    def leave(module: Any, arguments: Any, output: Any) -> None:
        inside.pop()

    handles = []
    for number, module in enumerate(all_modules(model)):
        handles += [module.register_forward_pre_hook(enter(number)), module.register_forward_hook(leave)]
    with hooked(handles), Watch():
        yield found


# -- exporting


@dataclass(frozen=True)
class Way:
    """One way in which a module is called, as one file serves it."""

    how: str  # as `Given` tells
    fixed: tuple[tuple[int, ...], ...] | None  # the shapes that it is for; None: any
    free: list[list[int]]  # of each tensor, the dimensions of any size

    def fits(self, call: Given) -> bool:
        return self.how == call.how and self.fixed in (None, call.shapes)


class _Exporter:
    """Exports parts of one model for one engine."""

    def __init__(self, model: Model, runtime: Runtime, examples: list[Example], request: EngineRequest) -> None:
        self.model = model
        self.runtime = runtime
        self.examples = examples
        self.request = request
        self.modules = all_modules(model)
        self.names = _names(model)
        self.parts: dict[int, ExportedPart] = {}
        self.refused: dict[int, str] = {}

    def attempt(self) -> None:
        """Find the largest modules that can be exported."""
        seen = self.examples[0].seen
        assert seen is not None
        for number in sorted(seen.modules.outermost):
            self._descend(number, seen, frozenset())

    def _descend(self, number: int, seen: Seen, above: frozenset[int], step: int | None = None) -> None:
        """`step`: the module around it that is called step by step."""
        module = self.modules[number]
        if number in self.parts or number in self.refused or next(module.parameters(), None) is None:
            return
        calls = seen.calls.get(number)
        divided = calls is not None and calls.steps and self._is_divided(number, seen)
        why = "modules in it are called by themselves too" if divided else self._why_not(number, step)
        if why is None:
            try:
                self.parts[number] = self._export(number)
                return
            except NotSupported as error:
                why = str(error)
        self.refused[number] = f"{self.names[number]}: {why}"
        if calls is not None and not divided and (calls.steps or calls.count > self._most(seen, step)):
            return  # so is all that it calls
        inside = number if calls is not None and calls.steps else step
        for inner in sorted(seen.modules.inside.get(number, set()) - above):
            self._descend(inner, seen, above | {number}, inside)

    def _is_divided(self, number: int, seen: Seen) -> bool:
        """Whether a module holds another one that a search calls apart from it, as it does an encoder."""
        inner = {id(module) for module in self.modules[number].modules()}
        return any(id(self.modules[other]) in inner for other in seen.modules.outermost - {number})

    def _most(self, seen: Seen, step: int | None) -> int:
        """How often a part may be called: in each step, where an engine takes steps."""
        around = seen.calls.get(step) if step is not None and self.runtime.engine.DYNAMIC else None
        return MOST_CALLS * (around.count if around else 1)

    def _why_not(self, number: int, step: int | None) -> str | None:
        """Why a module is not even tried."""
        import torch

        if isinstance(self.modules[number], torch.jit.ScriptModule):
            return "it is a TorchScript module, which torch.export does not take"
        for example in self.examples:
            seen = example.seen
            assert seen is not None
            calls = seen.calls.get(number)
            if calls is not None and calls.steps and not self.runtime.engine.DYNAMIC:
                title = ENGINES[self.runtime.name].title
                return f"its cache grows with every step, and a file of {title} is for one shape"
            if calls is None or not (calls.steps or calls.count <= self._most(seen, step)):
                return f"it is called {calls.count if calls else 0} times in a call"
            if number in seen.features:
                return "features are computed in it"
            if calls.refused:
                return calls.refused
            if number in seen.modules.looping:
                return "it calls its layers in a loop"
        return None

    def _export(self, number: int) -> ExportedPart:
        """One file for each way in which the module is called."""
        module, runtime = self.modules[number], self.runtime
        weights = trial(self.model, lambda: cache.fingerprint(module), str)
        ways: dict[tuple[str, Any], ShapesSeen] = {}
        for example in self.examples:
            assert example.seen is not None
            for how, seen in example.seen.calls[number].ways.items():
                for shapes in seen:
                    ways.setdefault((how, None if runtime.engine.DYNAMIC else shapes), []).append(shapes)
        assert self.examples[0].seen is not None
        first = self.examples[0].seen.calls[number].ways
        exports = []
        for (how, fixed), seen in ways.items():
            free = [_differing(each) for each in zip(*seen, strict=True)]
            decides = runtime.engine.options(runtime.options)
            made_of = (weights, how, fixed, free, decides)
            code = [*cache.code_of(runtime.name), Path(__file__)]
            named = cache.key(runtime.name, *made_of, packages=runtime.engine.PACKAGES, code=code)
            folder = self.request.cache / named
            manifest = read_manifest(folder)
            cached = manifest is not None
            if manifest is None:
                manifest = self._make(module, Way(how, fixed, free), folder)
            taken = tuple(
                tuple(None if place in sizes else size for place, size in enumerate(shape))
                for shape, sizes in zip(seen[0], free, strict=True)
            )
            in_a_call = how in first and (fixed is None or fixed in first[how])
            exports.append(Export(how, taken, folder, manifest, cached, in_a_call))
        return ExportedPart(self.names[number], runtime, exports)

    def _make(self, module: Any, way: Way, folder: Path) -> Manifest:
        runtime = self.runtime
        values = [example.value for example in self.examples]

        def work() -> Manifest:
            with cache.made_whole(folder) as made:
                manifest = export_module(runtime, self.model, module, values, way, made)
                (made / MANIFEST).write_bytes(msgspec.json.encode(manifest))
            return manifest

        try:
            return trial(self.model, explained(work), Manifest)
        except TrialFailed as error:
            raise NotSupported(f"{ENGINES[runtime.name].title} cannot take it: {str(error)[:REASON]}") from None


def read_manifest(folder: Path) -> Manifest | None:
    try:
        return msgspec.json.decode((folder / MANIFEST).read_bytes(), type=Manifest)
    except (OSError, msgspec.MsgspecError):
        return None


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


def _differing(shapes: tuple[tuple[int, ...], ...]) -> list[int]:
    """Dimensions of a tensor that are not the same in all calls."""
    return [place for place, sizes in enumerate(zip(*shapes, strict=True)) if len(set(sizes)) > 1]


def _names(model: Model) -> dict[int, str]:
    """How each module is called: by its path in the model, a component by its own name."""
    places = {id(module): number for number, module in enumerate(all_modules(model))}
    found: dict[int, str] = {}
    for name, module in model.module.named_modules():
        found.setdefault(places[id(module)], name or type(module).__name__)
    for title, component in model.components.items():
        for name, module in component.named_modules():
            found.setdefault(places[id(module)], f"{title}.{name}" if name else title)
    return found


# -- files that a model's package brings along


class _FilePart(ExportedPart):
    """The file takes the tensors that the module is called with, in their order."""

    def __call__(self, *tensors: Any) -> Any:
        self.runtime.open()
        return tuple(self._run(0, list(tensors)))


def _own_file(model: Model, own: OwnExport, runtime: Runtime, speech: Speech, request: EngineRequest) -> Found:
    """The package's file as the part: nothing is exported."""
    if runtime.options.quantize is not None:
        raise NotSupported(f"the file that its package brings for {ENGINES[runtime.name].title} is in float32")
    file = own.files[runtime.name]
    folder = request.cache / cache.key(runtime.name, file.name, file.read_bytes(), packages=(), code=())
    if not folder.is_dir():
        with cache.made_whole(folder) as made:
            shutil.copy(file, made / file.name)
    model.module, model.run, model.beside = own.module, own.run, {}
    model.notes.append(f"{file.name} is a file of the model's own package: nothing was exported.")
    examples = _examples(model, speech, request, dynamic=True)
    manifest = Manifest(file=file.name, output="", leaves=[], export_s=0.0, export_peak_bytes=0)
    part = _FilePart(file.stem, runtime, [Export("", (), folder, manifest, cached=False)])
    runtime.parts = [part]
    return Found(runtime, {part.name: own.module}, [], examples, request)


# -- in place


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
