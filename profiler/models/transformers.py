"""Adapter for transformers: its Auto classes, on a hub id or a folder with config.json.

The timed region is what a user of the library runs: feature extractor, model, and for a recogniser decoding to text.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profiler.errors import ModelError
from profiler.models.model import Model, ModelRequest, refuse_longer
from profiler.models.reasons import reason
from profiler.models.torchaudio_on_cpu import ensure_torchaudio
from profiler.nearest import nearest

if TYPE_CHECKING:
    from profiler.audio import Batch

LIBRARY = "transformers"
DESCRIPTION_FILE = "config.json"

OUTPUTS = {
    "AutoModel": "hidden states",
    "AutoModelForAudioClassification": "class scores",
    "AutoModelForCTC": "text",
    "AutoModelForSpeechSeq2Seq": "text",
}


def interfaces() -> tuple[str, ...]:
    return tuple(OUTPUTS)


def has_weights(folder: Path) -> bool:
    return any(next(folder.glob(pattern), None) for pattern in ("*.safetensors", "pytorch_model*.bin"))


def load_pretrained(request: ModelRequest, source: str) -> Model:
    ensure_torchaudio()
    import transformers

    _quieten()
    auto_class = getattr(transformers, request.type)
    try:
        config = _config(source, request.overrides)
        # By itself the library takes the precision in which the weights were saved.
        module, loading = auto_class.from_pretrained(source, config=config, dtype="float32", output_loading_info=True)
    except (ModelError, MemoryError):
        raise
    except Exception as error:  # it lets errors of every library below it through
        raise ModelError(f"transformers cannot load {source} as {request.type}: {reason(error)}") from error
    _require_all_parts(module, set(loading["missing_keys"]), request, source)
    return _wrap(module, request, source)


def build_random(request: ModelRequest, folder: Path | None) -> Model:
    assert folder is not None
    ensure_torchaudio()
    import torch
    import transformers

    _quieten()
    auto_class = getattr(transformers, request.type)
    try:
        module = auto_class.from_config(_config(str(folder), request.overrides), dtype=torch.float32)
    except (ModelError, MemoryError):
        raise
    except Exception as error:
        raise ModelError(f"transformers cannot build {folder} as {request.type}: {reason(error)}") from error
    return _wrap(module, request, str(folder), pin_steps=True)


def _quieten() -> None:
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()


def _config(source: str, overrides: dict[str, Any]) -> Any:
    """The model's configuration with the recipe's overrides; a key that it does not have is refused."""
    import transformers

    config, unused = transformers.AutoConfig.from_pretrained(source, return_unused_kwargs=True, **overrides)
    for name in overrides:
        if name in unused:
            raise ModelError(
                f"pretrained_model.overrides: the configuration of {source} has no `{name}`."
                f"{nearest(name, sorted(config.to_dict()))}"
            )
    return config


def _require_all_parts(module: Any, missing: set[str], request: ModelRequest, source: str) -> None:
    """A head that the saved weights lack is filled with random numbers by the library, without an error."""
    for name, part in module.named_children():
        wanted = {f"{name}.{inner}" for inner, _ in part.named_parameters()}
        if wanted and wanted <= missing:
            raise ModelError(
                f"The weights of {source} hold nothing for `{name}` of {type(module).__name__}: "
                f"is {request.type} the right type for this model?"
            )


def _wrap(module: Any, request: ModelRequest, source: str, pin_steps: bool = False) -> Model:
    import torch

    notes: list[str] = []
    extractor = _extractor(source, notes)
    rate = int(getattr(extractor, "sampling_rate", 16000))
    # A model that is only counted lives on the meta device and stays there.
    if not any(parameter.is_meta for parameter in module.parameters()):
        module.to(request.device)

    def prepare(batch: Batch) -> list[Any]:
        refuse_longer(batch, getattr(extractor, "n_samples", None))
        return [row[:length] for row, length in zip(batch.waveforms, batch.lengths, strict=True)]

    def features(rows: list[Any]) -> Any:
        return extractor(rows, sampling_rate=rate, return_tensors="pt", padding=True).to(request.device)

    def encode(rows: list[Any]) -> Any:
        outputs = module(**features(rows))
        return getattr(outputs, "last_hidden_state", None) if request.type == "AutoModel" else outputs.logits

    run = encode
    if request.type == "AutoModelForCTC":
        tokenizer = _tokenizer(source, notes)

        def run_ctc(rows: list[Any]) -> Any:
            ids = torch.argmax(encode(rows), dim=-1).cpu()
            return tokenizer.batch_decode(ids) if tokenizer else ids

        run = run_ctc
    elif request.type == "AutoModelForSpeechSeq2Seq":
        tokenizer = _tokenizer(source, notes)
        if pin_steps:
            notes.append(_pinned(request))

        def run_generate(rows: list[Any]) -> Any:
            limits = {}
            if pin_steps:
                seconds = max(len(row) for row in rows) / rate
                steps = max(1, math.ceil(seconds * request.tokens_per_second))
                limits = {"min_new_tokens": steps, "max_new_tokens": steps}
            ids = module.generate(**features(rows), **limits)
            return tokenizer.batch_decode(ids, skip_special_tokens=True) if tokenizer else ids

        run = run_generate
    return Model(module, prepare, run, OUTPUTS[request.type], rate, _components(module), notes)


def _pinned(request: ModelRequest) -> str:
    return (
        f"With random weights the decoder is made to take {request.tokens_per_second:g} steps per second of audio, "
        "as it does on speech."
    )


def _extractor(source: str, notes: list[str]) -> Any:
    """The model's own feature extractor, else plain waveforms with a note."""
    import transformers

    try:
        return transformers.AutoFeatureExtractor.from_pretrained(source)
    except (OSError, ValueError):
        notes.append("There is no preprocessor_config.json: waveforms are normalised and padded at 16 kHz.")
        return transformers.Wav2Vec2FeatureExtractor(sampling_rate=16000, do_normalize=True)


def _tokenizer(source: str, notes: list[str]) -> Any:
    import transformers

    try:
        return transformers.AutoTokenizer.from_pretrained(source)
    except (OSError, ValueError, TypeError, KeyError):
        notes.append("There is no tokenizer beside the model: its final output is token ids, not text.")
        return None


def _components(module: Any) -> dict[str, Any]:
    """The model's own parts, one level below a lone backbone: front end, encoder, decoder, head."""
    parts = dict(module.named_children())
    base = getattr(module, "base_model_prefix", "")
    backbone = parts.pop(base, None) if base else None
    inner = dict(backbone.named_children()) if backbone is not None else {}
    return {**inner, **parts}
