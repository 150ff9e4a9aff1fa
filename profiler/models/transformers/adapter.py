"""Adapter for transformers: its Auto classes, on a hub id or a folder with config.json.

The timed region is what a user of the library runs: feature extractor, model, and for an ASR model decoding to text.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profiler.errors import ModelError, did_you_mean
from profiler.hyperyaml.allowed import KERNELS, unsafe_settings
from profiler.models.formats import Folder
from profiler.models.model import Model, ModelRequest, how_pinned, refuse_longer
from profiler.models.reasons import OTHER_SIZES, reason
from profiler.models.torchaudio.on_cpu import ensure_torchaudio
from profiler.models.transformers.training import trained_by
from profiler.models.transformers.whisper import SETTINGS as GENERATION_SETTINGS
from profiler.models.transformers.whisper import Whisper, is_whisper

if TYPE_CHECKING:
    from profiler.audio import Batch

LIBRARY = "transformers"
FORMAT = Folder(LIBRARY, "config.json", ("*.safetensors", "pytorch_model*.bin"))
TRAINS = {"AutoModel": ("ctc",), "AutoModelForCTC": ("ctc",), "AutoModelForSpeechSeq2Seq": ("cross_entropy",)}

OUTPUTS = {
    "AutoModel": "hidden states",
    "AutoModelForAudioClassification": "class scores",
    "AutoModelForCTC": "text",
    "AutoModelForSpeechSeq2Seq": "text",
}
INTERFACES = tuple(OUTPUTS)
DECODES = "AutoModelForSpeechSeq2Seq"  # token by token
Rows = Callable[[list[Any]], Any]


def load_pretrained(request: ModelRequest, source: str) -> Model:
    ensure_torchaudio()
    import transformers

    _quieten()
    auto_class = getattr(transformers, request.type)
    try:
        config, generation = _settings(source, request)
        # By itself the library takes the precision in which the weights were saved.
        module, loading = auto_class.from_pretrained(
            source, config=config, dtype="float32", output_loading_info=True, trust_remote_code=request.trust
        )
    except (ModelError, MemoryError):
        raise
    except Exception as error:  # it lets errors of every library below it through
        # Before version 5 it lets torch's own words about a size through.
        why = OTHER_SIZES if "size mismatch" in str(error) else reason(error)
        raise ModelError(f"transformers cannot load {source} as {request.type}: {why}") from error
    _require_all_parts(module, set(loading["missing_keys"]), request, source)
    return _wrap(module, generation, request, source)


def build_random(request: ModelRequest, folder: Path | None) -> Model:
    assert folder is not None
    ensure_torchaudio()
    import torch
    import transformers

    _quieten()
    auto_class = getattr(transformers, request.type)
    try:
        config, generation = _settings(str(folder), request)
        module = auto_class.from_config(config, dtype=torch.float32, trust_remote_code=request.trust)
    except (ModelError, MemoryError):
        raise
    except Exception as error:
        raise ModelError(f"transformers cannot build {folder} as {request.type}: {reason(error)}") from error
    return _wrap(module, generation, request, str(folder), pin_steps=True)


def _quieten() -> None:
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()


def _settings(source: str, request: ModelRequest) -> tuple[Any, Any]:
    """The model's config.json, and for a decoder its generation_config.json, each with the recipe's overrides.

    A key that neither has is refused; one that both have, such as the token that ends a sentence, is set in both.
    """
    import transformers

    overrides = request.overrides
    how = {"return_unused_kwargs": True, **overrides, "trust_remote_code": request.trust}
    config, unused = transformers.AutoConfig.from_pretrained(source, **how)
    if not request.trust:
        _refuse_kernels(config, source)
    generation = _generation(source, config) if request.type == DECODES else None
    known = {*vars(generation), *GENERATION_SETTINGS} if generation else set()
    # Before version 5 the configuration of every model takes settings of generation, to no effect where it has none.
    unused |= getattr(config, "_get_global_generation_defaults", dict)()
    for name, value in overrides.items():
        if name in known:
            setattr(generation, name, value)
        elif name in unused:
            raise ModelError(
                f"pretrained_model.overrides: the configuration of {source} has no `{name}`."
                f"{did_you_mean(name, sorted({*config.to_dict(), *known}))}"
            )
    return config, generation


def _refuse_kernels(config: Any, source: str) -> None:
    """A configuration can name an attention that is native code on the hub, as `somebody/kernels`."""
    for key, _ in unsafe_settings({name: getattr(config, name, None) for name in KERNELS}):
        raise ModelError(
            f"{source}: its config.json takes `{key[-1]}` from the hub ({getattr(config, str(key[-1]))}), which is "
            "code; if you trust it, add --trust"
        )


def _generation(source: str, config: Any) -> Any:
    """How the model's output is written token by token: its own generation_config.json, else what config.json says."""
    import transformers

    try:
        return transformers.GenerationConfig.from_pretrained(source)
    except OSError:
        return transformers.GenerationConfig.from_model_config(config)


def _require_all_parts(module: Any, missing: set[str], request: ModelRequest, source: str) -> None:
    """A head that the saved weights lack is filled with random numbers by the library, without an error."""
    for name, part in module.named_children():
        wanted = {f"{name}.{inner}" for inner, _ in part.named_parameters()}
        if wanted and wanted <= missing:
            raise ModelError(
                f"The weights of {source} hold nothing for `{name}` of {type(module).__name__}: "
                f"is {request.type} the right type for this model?"
            )


def _wrap(module: Any, generation: Any, request: ModelRequest, source: str, pin_steps: bool = False) -> Model:
    notes: list[str] = []
    extractor = _extractor(source, notes, request.trust)
    rate = int(getattr(extractor, "sampling_rate", 16000))
    window = getattr(extractor, "n_samples", None)
    if generation is not None:
        module.generation_config = generation
    # A model that is only counted lives on the meta device and stays there.
    if not any(parameter.is_meta for parameter in module.parameters()):
        module.to(request.device)

    def prepare(batch: Batch) -> list[Any]:
        refuse_longer(batch, window)
        return [row[:length] for row, length in zip(batch.waveforms, batch.lengths, strict=True)]

    def features(rows: list[Any]) -> Any:
        padding = "max_length" if window else True
        return extractor(rows, sampling_rate=rate, return_tensors="pt", padding=padding).to(request.device)

    whisper = Whisper(module, extractor, request, pin_steps) if is_whisper(module, extractor) else None
    output, run = OUTPUTS[request.type], _scores(module, features)
    if request.type == "AutoModel":
        run = whisper.hidden_states if whisper else _hidden_states(module, features)
        if module.config.is_encoder_decoder:
            output = "hidden states of the encoder"
            notes.append("AutoModel runs the encoder alone: the decoder is loaded and counted, but never called.")
        if whisper:
            prepare = whisper.prepare
            notes += whisper.notes(decodes=False)
    elif output == "text":
        if request.type == "AutoModelForCTC":
            token_ids = _likeliest(run)
        elif whisper:
            prepare, token_ids = whisper.prepare_to_decode, whisper.token_ids
            notes += whisper.notes(decodes=True)
        else:
            token_ids = _generated(module, features, request, rate, pin_steps)
            notes += [how_pinned(request)] if pin_steps else []
        tokenizer = _tokenizer(source, notes, request.trust)
        if tokenizer:
            run = _written(token_ids, tokenizer, skip_special_tokens=request.type == DECODES)
        else:
            output, run = "token ids", token_ids
    window = getattr(extractor, "n_samples", None)
    model = Model(module, prepare, run, output, rate, _components(module), notes)
    model.window = window / rate if window else None
    model.trained_by = trained_by(module, request, features, rate, whisper)
    return model


# -- what is timed, after the feature extractor: rows of samples to the final output


def _scores(module: Any, features: Rows) -> Rows:
    return lambda rows: module(**features(rows)).logits


def _hidden_states(module: Any, features: Rows) -> Rows:
    encoder = module.get_encoder() if module.config.is_encoder_decoder else module
    return lambda rows: getattr(encoder(**features(rows)), "last_hidden_state", None)


def _likeliest(scores: Rows) -> Rows:
    return lambda rows: scores(rows).argmax(dim=-1).cpu()


def _generated(module: Any, features: Rows, request: ModelRequest, rate: int, pin_steps: bool) -> Rows:
    def run(rows: list[Any]) -> Any:
        limits = {}
        if pin_steps:
            seconds = max(len(row) for row in rows) / rate
            steps = max(1, math.ceil(seconds * request.tokens_per_second))
            limits = {"min_new_tokens": steps, "max_new_tokens": steps}
        return module.generate(**features(rows), **limits)

    return run


def _written(token_ids: Rows, tokenizer: Any, skip_special_tokens: bool) -> Rows:
    return lambda rows: tokenizer.batch_decode(token_ids(rows), skip_special_tokens=skip_special_tokens)


def _extractor(source: str, notes: list[str], trust: bool) -> Any:
    """The model's own feature extractor, else plain waveforms with a note."""
    import transformers

    try:
        return transformers.AutoFeatureExtractor.from_pretrained(source, trust_remote_code=trust)
    except (OSError, ValueError):
        notes.append("There is no preprocessor_config.json: waveforms are normalised and padded at 16 kHz.")
        return transformers.Wav2Vec2FeatureExtractor(sampling_rate=16000, do_normalize=True)


def _tokenizer(source: str, notes: list[str], trust: bool) -> Any:
    import transformers

    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(source, trust_remote_code=trust)
    except (OSError, ValueError, TypeError, KeyError):
        tokenizer = None
    if tokenizer is None or not tokenizer.vocab_size:  # without files some classes are made with an empty vocabulary
        notes.append("There is no tokenizer beside the model: its final output is token ids, not text.")
        return None
    return tokenizer


def _components(module: Any) -> dict[str, Any]:
    """The model's own parts, one level below a lone backbone: front end, encoder, decoder, head."""
    parts = dict(module.named_children())
    base = getattr(module, "base_model_prefix", "")
    backbone = parts.pop(base, None) if base else None
    inner = dict(backbone.named_children()) if backbone is not None else {}
    return {**inner, **parts}
