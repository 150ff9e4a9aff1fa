"""Adapter for a file that was exported for an engine: .onnx, OpenVINO's .xml, ExecuTorch's .pte, AOTInductor's .pt2.

    pretrained_model: {source: model.onnx, type: ONNX}
    pretrained_model: {source: whisper-tiny-onnx, type: ONNX}         # a folder: see onnx_folder.py
    pretrained_model: {source: whisper-tiny-ct2, type: CTranslate2}   # see ctranslate2_folder.py

Its inputs are found by looking at the file in a fork (own/signature.py). Engines are native code that reads the file:
they run in the sandbox or with `--trust`. A .pt2 holds machine code and needs `--trust` anyway.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profiler import sandbox
from profiler.errors import ModelError, whole_line
from profiler.models.formats import File, Found, local_folder
from profiler.models.model import Model, ModelRequest
from profiler.models.own.ctranslate2_folder import is_ctranslate2_folder
from profiler.models.own.ctranslate2_folder import load as load_ctranslate2
from profiler.models.own.module import wrap
from profiler.models.own.onnx_folder import files_of, is_onnx_folder
from profiler.models.own.onnx_folder import load as load_folder
from profiler.models.own.signature import Signature, read_signature
from profiler.models.registry import Needs
from profiler.runtimes import ENGINES, engine
from profiler.runtimes.base import Options, TensorInfo
from profiler.runtimes.part import ExportedPart, Runtime
from profiler.user_path import user_path

if TYPE_CHECKING:
    import torch

    from profiler.runtimes.base import EngineCall, Session, Settings

LIBRARY = "engines of deployment"
ENGINE_OF = {"ONNX": "onnxruntime", "OpenVINO": "openvino", "ExecuTorch": "executorch", "AOTInductor": "aot_inductor"}
ENGINE_OF |= {"CTranslate2": "ctranslate2"}
INTERFACES = tuple(ENGINE_OF)
SUFFIXES = {"ONNX": ".onnx", "OpenVINO": ".xml", "ExecuTorch": ".pte", "AOTInductor": ".pt2"}


@dataclass(frozen=True)
class FileOrFolder(File):
    """A file; for ONNX also a folder of transformers, for CTranslate2 a folder."""

    def check(self, source: str, kind: str, base: Path) -> None:
        folder = local_folder(source, base)
        if kind == "CTranslate2" and (folder is None or not is_ctranslate2_folder(folder)):
            raise ModelError(
                f"{user_path(source, base)} is no folder of CTranslate2: expected model.bin, config.json and "
                "vocabulary.json"
            )
        if folder is None or kind not in ("ONNX", "CTranslate2"):
            super().check(source, kind, base)
        elif kind == "ONNX" and not is_onnx_folder(folder):
            raise ModelError(
                f"{folder} is no folder of transformers with ONNX files: expected config.json, and model.onnx, or "
                "encoder_model.onnx with decoder_model_merged.onnx or with decoder_model.onnx and "
                "decoder_with_past_model.onnx"
            )

    def find(self, request: ModelRequest) -> Found:
        return Found(str(request.folder or request.file))


FORMAT = FileOrFolder(tuple(SUFFIXES.values()), "an exported model")
NEEDS = {
    kind: Needs(ENGINES[name].modules, f'pip install "speech-profiler[{ENGINES[name].extra}]"', ENGINES[name].title)
    for kind, name in ENGINE_OF.items()
    if ENGINES[name].modules
}
# What ONNX Runtime has itself; others come from libraries that a file can name.
DOMAINS = ("", "ai.onnx", "ai.onnx.ml", "com.microsoft", "ai.onnx.preview.training")
HERTZ = 100  # frames a second of our features


@dataclass
class FilePart(ExportedPart):
    """The whole model, in one file: opened at the first call in each process, as the parts of other models."""

    file: Path = Path()
    session: Session | None = None

    def open(self, options: Options) -> list[Settings]:
        self.session = self.runtime.engine.load(self.file, options)
        return [self.session.describe()]

    def calls(self) -> list[EngineCall]:
        return self.session.calls() if self.session is not None else []

    def run(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        self.runtime.open()
        assert self.session is not None
        return self.session.run(tensors)


def load_pretrained(request: ModelRequest, source: str) -> Model:
    file, name = Path(source), ENGINE_OF[request.type]
    if request.type == "CTranslate2":
        _require_safe(request, file)
        return load_ctranslate2(request, file)
    if file.is_dir():
        for each in files_of(file):
            _check(request, each)
        return load_folder(request, file)
    if request.overrides:
        raise ModelError(f"pretrained_model.overrides: a file of type {request.type} has no configuration to override.")
    _check(request, file)
    from profiler.processes import TrialFailed, in_fork

    chosen = engine(name)
    try:
        found = in_fork(lambda: _described(chosen.load(file, Options())), list[list[Any]])
    except TrialFailed as error:
        raise ModelError(f"{ENGINES[name].title} cannot read {file}: {error}.") from None
    signature = read_signature([TensorInfo(name, kind, tuple(shape)) for name, kind, shape in found], request)
    runtime = Runtime(name, chosen, Options())
    part = FilePart(file.name, runtime, [], file=file)
    runtime.parts.append(part)
    lengths = "_and_lengths" if signature.lengths else ""
    called = replace(
        request,
        input=("features" if signature.features else "waveform") + lengths,
        mels=signature.mels,
        lengths="counts" if signature.lengths in ("mask", "counts") else "fractions",
    )
    model = wrap(_module(part, signature), called)
    model.notes.insert(0, f"{file.name} takes {signature.text}.")
    model.runtime = runtime
    model.file_bytes = sum(path.stat().st_size for path in (file, file.with_suffix(".bin")) if path.is_file())
    model.trained_by = {}
    if signature.fixed is not None:
        model.window = signature.fixed / (HERTZ if signature.features else model.rate)
    return model


def build_random(request: ModelRequest, folder: Path | None) -> Model:
    raise ModelError(f"{request.source} is only there with its weights.")


def _check(request: ModelRequest, file: Path) -> None:
    """Whether the file may be given to the engine. Raises ModelError."""
    suffix = SUFFIXES[request.type]
    if file.suffix != suffix:
        raise ModelError(f"{file} does not end in {suffix}, as files of type {request.type} do.")
    if request.type == "AOTInductor" and not request.trust:
        raise ModelError(f"{file} holds machine code, which is run as it is. If you trust it, add --trust.")
    _require_safe(request, file)
    if request.type == "ONNX":
        check_onnx(file)


def _require_safe(request: ModelRequest, file: Path) -> None:
    if request.device != "cpu":
        raise ModelError(f"A model of type {request.type} is run on the CPU here: leave --device out.")
    if not request.trust and not sandbox.in_force():
        raise ModelError(
            f"{file} is read by native code, and this system has no sandbox for it (Landlock, Linux 5.13 and "
            "newer). If you trust the file, add --trust."
        )


def check_onnx(file: Path) -> None:
    """Raise ModelError for operators of a library that is not there, and weights outside the file's folder."""
    import onnx

    try:
        model = onnx.load(str(file), load_external_data=False)
    except Exception as error:  # whatever protobuf raises
        raise ModelError(f"{file} is no ONNX file, or a damaged one ({whole_line(str(error))}).") from None
    own = {function.domain for function in model.functions}
    graphs = [model.graph, *model.functions]
    custom = {node.domain for graph in graphs for node in _nodes(graph)} - own - set(DOMAINS)
    if custom:
        raise ModelError(
            f"{file} has operators of {', '.join(sorted(custom))}, which ONNX Runtime does not have: libraries of "
            "operators are not loaded. Export the model with ONNX's own."
        )
    folder = file.resolve().parent
    for tensor in _tensors(model.graph):
        for entry in tensor.external_data:
            place = folder / entry.value
            if entry.key == "location" and not place.resolve().is_relative_to(folder):
                raise ModelError(f"{file} names weights outside its folder ({entry.value}), which are not read.")


def _nodes(graph: Any) -> Iterator[Any]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from _nodes(inner)


def _tensors(graph: Any) -> Iterator[Any]:
    yield from graph.initializer
    for node in _nodes(graph):
        for attribute in node.attribute:
            yield from (attribute.t, *attribute.tensors)
            for inner in (attribute.g, *attribute.graphs):
                yield from inner.initializer


def _described(session: Any) -> list[list[Any]]:
    """The inputs, as plain values."""
    return [[info.name, info.dtype, list(info.shape)] for info in session.inputs]


def _module(part: FilePart, signature: Signature) -> Any:
    import torch

    floats = getattr(torch, signature.dtype)

    class Exported(torch.nn.Module):
        """The file, called with what a module of one's own is called with."""

        def forward(self, inputs: Any, lengths: Any = None) -> Any:
            value = inputs.to(floats)
            rows, size = value.shape[0], value.shape[1]
            if signature.batch is not None and rows != signature.batch:
                raise ModelError(f"the file takes batches of {signature.batch} alone; this one has {rows}")
            if signature.fixed is not None:
                value = _padded(value, size, signature.fixed)
            if signature.frames_last:
                value = value.transpose(1, 2)
            if signature.channel:
                value = value.unsqueeze(1)
            given = [value.contiguous()]
            if signature.lengths == "mask":
                given.append((torch.arange(size)[None] < lengths[:, None]).to(getattr(torch, signature.lengths_dtype)))
            elif signature.lengths:
                given.append(lengths.to(getattr(torch, signature.lengths_dtype)))
            outputs = part.run(given)
            return outputs[0] if len(outputs) == 1 else tuple(outputs)

    return Exported()


def _padded(value: Any, size: int, fixed: int) -> Any:
    """To the only length that a file takes. What is longer would be cut off, and its figure would claim more audio."""
    import torch

    if size > fixed:
        raise ModelError(f"the file takes {fixed} samples or frames alone; this audio has {size}")
    missing = [0, 0] * (value.dim() - 2) + [0, fixed - size]
    return torch.nn.functional.pad(value, missing)
