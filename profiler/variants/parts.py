"""Loaded model -> the parts of it that an engine can run: found, exported, cached.

    calls watched in a fork --> modules tried, the largest first --program.py, in a fork--> files in the cache --> Found

A part is the largest module with weights that is called once in a call of the model (or twice), with tensors in and
out, and in which no Fourier transform is made: features are the library's, and stay. What a part's own export refuses
is tried with the modules that it calls.

A search calls its decoder again and again. That is a part too where the module is handed a cache of keys and values
each time: one file for the first step, which fills the cache, one for all later ones. The search around it stays, and
so does what is called again and again without such a cache.

Separate from exported.py: what is found here is not yet in place.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from profiler.errors import NotSupported
from profiler.measure.passes.memory import status_bytes
from profiler.processes import TrialFailed, device_of, run_all, trial
from profiler.runtimes import ENGINES, cache, ctranslate2, engine
from profiler.runtimes.base import Options
from profiler.runtimes.part import MANIFEST, EngineRequest, Export, ExportedPart, Manifest, Runtime
from profiler.runtimes.reasons import explained
from profiler.runtimes.tensors import Given, given, outputs
from profiler.variants import program
from profiler.variants.layers import ModuleCalls, all_modules, failing, hooked, recorded_calls
from profiler.variants.program import Way, export_module

if TYPE_CHECKING:
    import torch

    from profiler.audio import Speech
    from profiler.models.model import Model, OwnExport
    from profiler.recipe.schema import Variant

CODE = (Path(__file__), Path(program.__file__))  # of this folder: what decides what an exported file holds
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
    code = [*cache.code_of(runtime.name), *CODE]
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
            code = [*cache.code_of(runtime.name), *CODE]
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
