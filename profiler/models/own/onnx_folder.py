"""A folder of transformers with its network as ONNX files, as optimum writes it: config.json and *.onnx.

    pretrained_model: {source: whisper-tiny-onnx, type: ONNX}

The library's own code around the network is what runs: feature extractor, search, tokenizer. In the network's place are
the files: encoder_model.onnx with decoder_model_merged.onnx, or with decoder_model.onnx for the first step and
decoder_with_past_model.onnx for all later ones; or model.onnx, the whole of it. Their inputs and outputs are told by
their names.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profiler.errors import ModelError, NotSupported
from profiler.models.transformers.kinds import interfaces_of, read_config
from profiler.runtimes import engine
from profiler.runtimes.base import Options
from profiler.runtimes.part import Export, ExportedPart, Manifest, Runtime

if TYPE_CHECKING:
    import torch

    from profiler.models.model import Model, ModelRequest

ENGINE = "onnxruntime"
WHOLE, ENCODER = "model.onnx", "encoder_model.onnx"
FIRST, LATER, MERGED = "decoder_model.onnx", "decoder_with_past_model.onnx", "decoder_model_merged.onnx"
INSIDE = "onnx"  # a folder for the files, where others keep them
CACHED = re.compile(r"^(?:past_key_values|present)\.(\d+)\.(decoder|encoder)\.(key|value)$")


def files_of(folder: Path) -> list[Path]:
    """The files that are run: the whole network, or an encoder and one or two of a decoder; none of another folder."""
    for place in (folder, folder / INSIDE):
        for names in ((ENCODER, MERGED), (ENCODER, FIRST, LATER), (WHOLE,)):
            if all((place / name).is_file() for name in names):
                return [place / name for name in names]
    return []


def is_onnx_folder(folder: Path) -> bool:
    return (folder / "config.json").is_file() and bool(files_of(folder))


def load(request: ModelRequest, folder: Path) -> Model:
    from profiler.models.transformers.adapter import around

    files, runtime = files_of(folder), Runtime(ENGINE, engine(ENGINE), Options())
    whole = files[0].name == WHOLE
    kind = _interface(folder, whole)
    parts: list[NamedPart] = []

    def put(module: Any) -> None:
        if whole:
            parts.append(NamedPart(WHOLE, runtime, [_export(files[0])], output=_output_class(kind)))
            parts[0].put(module)
            return
        encoder, decoder = module.get_encoder(), module.get_decoder()
        parts.append(NamedPart("encoder", runtime, [_export(files[0])], output="BaseModelOutput"))
        parts.append(DecoderPart("decoder", runtime, [_export(file) for file in files[1:]]))
        for part, inner in zip(parts, (encoder, decoder), strict=True):
            part.put(inner)
        _leave_out(module, module.get_output_embeddings())  # the files of a decoder give scores

    model = around(replace(request, type=kind), folder, put)
    runtime.parts = list(parts)
    model.runtime = runtime
    model.file_bytes = sum(_bytes(file) for file in files)
    model.trained_by = {}
    named = ", ".join(file.name for file in files)
    model.notes.insert(0, f"ONNX Runtime runs {named}; features, search and text are transformers' own code.")
    return model


def _interface(folder: Path, whole: bool) -> str:
    found = interfaces_of(read_config(folder))
    if not whole:
        found = [kind for kind in found if kind == "AutoModelForSpeechSeq2Seq"]
    if not found:
        raise ModelError(
            f"{folder}: its config.json is of no model that {'is whole' if whole else 'has encoder and decoder'} and "
            "that transformers has an interface for"
        )
    return found[0]


def _output_class(kind: str) -> str:
    return {"AutoModel": "BaseModelOutput", "AutoModelForAudioXVector": "XVectorOutput"}.get(kind, "CausalLMOutput")


def _export(file: Path) -> Export:
    manifest = Manifest(file=file.name, output="", leaves=[], export_s=0.0, export_peak_bytes=0)
    return Export("", (), file.parent, manifest, cached=True)


def _bytes(file: Path) -> int:
    """With the weights that lie beside it."""
    beside = [file.with_name(f"{file.name}{end}") for end in ("_data", ".data")]
    return sum(path.stat().st_size for path in (file, *beside) if path.is_file())


def _leave_out(module: Any, head: Any) -> None:
    import torch

    for parent in module.modules():
        for name, child in parent.named_children():
            if child is head:
                setattr(parent, name, torch.nn.Identity())


@dataclass
class NamedPart(ExportedPart):
    """Takes the place of a module by one file: what the file calls its inputs, the module calls its arguments."""

    output: str = ""  # the class of transformers that it gives
    signature: inspect.Signature | None = None

    def put(self, module: Any) -> None:
        self.signature = inspect.signature(module.forward)
        super().put(module)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        from transformers import modeling_outputs

        self.runtime.open()
        found = self._named(0, self._arguments(arguments, named))
        kind: Any = getattr(modeling_outputs, self.output)
        fields = {name: tensor for name, tensor in found.items() if name in inspect.signature(kind).parameters}
        if not fields:
            raise NotSupported(f"{self._file(0)} gives {', '.join(found)}, which is not what a {self.output} has")
        return kind(**fields)

    def _arguments(self, arguments: Any, named: Any) -> dict[str, Any]:
        assert self.signature is not None
        bound = self.signature.bind(*arguments, **named).arguments
        more = next((each.name for each in self.signature.parameters.values() if each.kind is each.VAR_KEYWORD), "")
        return {**bound, **bound.pop(more, {})}

    def _file(self, number: int) -> str:
        return self.exports[number].manifest.file

    def _named(self, number: int, values: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        """Run a file: tensors by name in, and out."""
        import torch

        session = self._sessions[number]
        given = []
        for info in session.inputs:
            value = values.get(info.name)
            if value is None and info.name.endswith("attention_mask"):  # nothing is masked
                encoded = values.get("encoder_hidden_states") if info.name.startswith("encoder") else None
                like = encoded if encoded is not None else next(filter(torch.is_tensor, values.values()))
                value = torch.ones(like.shape[:2], dtype=torch.int64)
            if value is None:
                raise NotSupported(f"{self._file(number)} has an input {info.name}, which the model is not called with")
            given.append(value.to(getattr(torch, info.dtype)))
        return dict(zip((info.name for info in session.outputs), self._run(number, given), strict=True))


@dataclass
class DecoderPart(NamedPart):
    """Takes the place of a decoder and its head: one file, or one for the first step and one for all later ones."""

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        import torch
        from transformers.modeling_outputs import BaseModelOutputWithPastAndCrossAttentions

        self.runtime.open()
        values = self._arguments(arguments, named)
        ids, cache = values["input_ids"], values.get("past_key_values")
        past = int(cache.get_seq_length()) if cache is not None else 0
        number = 1 if past and len(self.exports) > 1 else 0
        values["use_cache_branch"] = torch.tensor([bool(past)])
        values["cache_position"] = torch.arange(past, past + ids.shape[1])
        for info in self._sessions[number].inputs:
            if place := CACHED.match(info.name):
                values[info.name] = self._cached(cache, place, past, info.shape, len(ids))
        found = self._named(number, values)
        if cache is not None:
            self._keep(cache, found, past)
        return BaseModelOutputWithPastAndCrossAttentions(last_hidden_state=found["logits"], past_key_values=cache)

    @staticmethod
    def _cached(cache: Any, place: re.Match[str], past: int, shape: Any, rows: int) -> Any:
        import torch

        if not past:  # a file of both kinds of steps looks at none of it
            return torch.zeros(rows, shape[1] or 1, 1, shape[3] or 1)
        layer = _half(cache, place).layers[int(place[1])]
        return layer.keys if place[3] == "key" else layer.values

    @staticmethod
    def _keep(cache: Any, found: Mapping[str, Any], past: int) -> None:
        for name, keys in found.items():
            place = CACHED.match(name)
            if not place or place[3] != "key" or (past and place[2] == "encoder"):
                continue  # the encoder's are those of the first step
            number, half = int(place[1]), _half(cache, place)
            values = found[f"{name.removesuffix('key')}value"]
            if not past:
                half.update(keys[..., :0, :], values[..., :0, :], number)  # makes the layer; nothing is copied
            half.layers[number].keys, half.layers[number].values = keys, values
            if place[2] == "encoder":
                cache.is_updated[number] = True


def _half(cache: Any, place: re.Match[str]) -> Any:
    return cache.cross_attention_cache if place[2] == "encoder" else cache.self_attention_cache
