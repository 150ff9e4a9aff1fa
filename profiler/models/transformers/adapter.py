"""Adapter for transformers: its Auto classes, on a hub id or a folder with config.json.

The timed region is what a user of the library runs: feature extractor, model, and for an ASR model decoding to text.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from profiler.errors import ModelError, did_you_mean
from profiler.hyperyaml.allowed import KERNELS, unsafe_settings
from profiler.models.formats import Folder, local_folder
from profiler.models.model import Model, ModelRequest
from profiler.models.reasons import OTHER_SIZES, reason
from profiler.models.torchaudio.on_cpu import ensure_torchaudio
from profiler.models.transformers import synthesis
from profiler.models.transformers.decoding import Decoder
from profiler.models.transformers.kinds import read_config, refuse_other_kinds
from profiler.models.transformers.processing import (
    Prompted,
    Rows,
    Waveforms,
    load_extractor,
    load_processor,
    load_tokenizer,
    needed,
)
from profiler.models.transformers.training import trained_by
from profiler.models.transformers.whisper import Whisper, is_whisper

LIBRARY = "transformers"
SPEAKS = tuple(synthesis.OUTPUTS)
TRAINS = {"AutoModel": ("ctc",), "AutoModelForCTC": ("ctc",), "AutoModelForSpeechSeq2Seq": ("cross_entropy",)}

OUTPUTS = {
    "AutoModel": "hidden states",
    "AutoModelForAudioClassification": "class scores",
    "AutoModelForAudioFrameClassification": "class scores of each frame",
    "AutoModelForAudioXVector": "speaker embeddings",
    "AutoModelForCTC": "text",
    "AutoModelForRNNT": "text",
    "AutoModelForTDT": "text",
    "AutoModelForSpeechSeq2Seq": "text",
    "AutoModelForMultimodalLM": "text",
    **synthesis.OUTPUTS,
}
TRANSDUCERS = ("AutoModelForRNNT", "AutoModelForTDT")
# With generation settings of their own.
GENERATES = {"AutoModelForSpeechSeq2Seq", "AutoModelForMultimodalLM", *TRANSDUCERS, *synthesis.OUTPUTS}


class ConfigFolder(Folder):
    """Its config.json says of what kind the model is, and so whether the interface fits."""

    def check(self, source: str, kind: str, base: Path) -> None:
        super().check(source, kind, base)
        folder = local_folder(source, base)
        if folder is not None:
            refuse_other_kinds(read_config(folder), kind, source)


FORMAT = ConfigFolder(LIBRARY, "config.json", ("*.safetensors", "pytorch_model*.bin"))
INTERFACES = tuple(OUTPUTS)


def load_pretrained(request: ModelRequest, source: str) -> Model:
    auto_class = _auto_class(request.type)
    try:
        config, settings = _settings(source, request)
        # By itself the library takes the precision in which the weights were saved.
        module, loading = auto_class.from_pretrained(
            source, config=config, dtype="float32", output_loading_info=True, trust_remote_code=request.trust
        )
    except (ModelError, MemoryError):
        raise
    except Exception as error:  # it lets errors of every library below it through
        # Before version 5 it lets torch's own words about a size through.
        why = OTHER_SIZES if "size mismatch" in str(error) else _reason(error)
        raise ModelError(f"transformers cannot load {source} as {request.type}: {why}") from error
    _require_all_parts(module, set(loading["missing_keys"]), request, source)
    _freeze_as_built(module, config)
    return _wrap(module, settings, request, source)


def _freeze_as_built(module: Any, config: Any) -> None:
    """Parameters that the class freezes when it is built, such as Whisper's positions, are loaded as trainable ones."""
    import torch

    with contextlib.suppress(Exception), torch.device("meta"):  # some classes cannot be built without memory
        for name, built in type(module)(config).named_parameters():
            if not built.requires_grad:
                module.get_parameter(name).requires_grad_(False)


def build_random(request: ModelRequest, folder: Path | None) -> Model:
    assert folder is not None
    auto_class = _auto_class(request.type)
    import torch

    try:
        config, settings = _settings(str(folder), request)
        module = auto_class.from_config(config, dtype=torch.float32, trust_remote_code=request.trust)
    except (ModelError, MemoryError):
        raise
    except Exception as error:
        raise ModelError(f"transformers cannot build {folder} as {request.type}: {_reason(error)}") from error
    with torch.device("cpu"):  # a model that is only counted is built on the meta device, its feature extractor is not
        return _wrap(module, settings, request, str(folder), pin_steps=True)


def around(request: ModelRequest, folder: Path, put: Callable[[Any], None]) -> Model:
    """The library's code around a network that something else runs: features, search, text. `put` puts that in place;
    the network itself has no weights."""
    import torch

    auto_class = _auto_class(request.type)
    try:
        config, settings = _settings(str(folder), request)
        with torch.device("meta"):
            module = auto_class.from_config(config, trust_remote_code=request.trust)
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(f"transformers cannot build {folder} as {request.type}: {_reason(error)}") from error
    for inner in module.modules():
        for name, tensor in inner.named_parameters(recurse=False):
            setattr(inner, name, torch.nn.Parameter(torch.empty(0), requires_grad=tensor.requires_grad))
        for name, buffer in inner.named_buffers(recurse=False):
            setattr(inner, name, torch.empty(0, dtype=buffer.dtype))
    put(module)
    return _wrap(module, settings, request, str(folder))


def _auto_class(name: str) -> Any:
    ensure_torchaudio()
    import transformers

    _quieten()
    found = getattr(transformers, name, None)
    if found is None:
        raise ModelError(f"transformers {transformers.__version__} has no {name}; install a newer one")
    return found


def _reason(error: Exception) -> str:
    return needed(error) if isinstance(error, ImportError) else reason(error)


def _quieten() -> None:
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()


@dataclass(frozen=True)
class Settings:
    """How a model writes its output token by token: its generation_config.json, and what the recipe changes in it."""

    generation: Any = None
    arguments: dict[str, Any] = field(default_factory=dict)  # of `generate`


def _settings(source: str, request: ModelRequest) -> tuple[Any, Settings]:
    """The model's config.json with the recipe's overrides, and for a decoder how it decodes.

    What `generate` has as an argument is passed as one, so that the library's own checks hold. A key that nothing has
    is refused; one that both configurations have, such as the token that ends a sentence, is set in both.
    """
    import transformers

    overrides = request.overrides
    how = {"return_unused_kwargs": True, **overrides, "trust_remote_code": request.trust}
    config, unused = transformers.AutoConfig.from_pretrained(source, **how)
    refuse_other_kinds(config.to_dict(), request.type, source)
    if not request.trust:
        _refuse_kernels(config, source)
    settings = Settings(_generation(source, config)) if request.type in GENERATES else Settings()
    taken = _arguments_of(config, request.type) if request.type in GENERATES else set()
    own = {} if settings.generation is None else vars(settings.generation)
    # Before version 5 the configuration of every model takes settings of generation, to no effect where it has none.
    unused |= getattr(config, "_get_global_generation_defaults", dict)()
    for name, value in overrides.items():
        if name in taken and name in unused:
            settings.arguments[name] = value
        elif name in own:
            setattr(settings.generation, name, value)
        elif name in unused:
            raise ModelError(
                f"pretrained_model.overrides: the configuration of {source} has no `{name}`."
                f"{did_you_mean(name, sorted({*config.to_dict(), *own, *taken}))}"
            )
    return config, settings


def _arguments_of(config: Any, kind: str) -> set[str]:
    """What the model's `generate` takes by name: its own arguments, and those of every generation."""
    import transformers

    classes = transformers.__dict__[kind]._model_mapping.get(type(config), ())
    found = {name for name in vars(transformers.GenerationConfig()) if not name.startswith("_")}
    for each in classes if isinstance(classes, tuple) else (classes,):
        if hasattr(each, "generate"):
            found |= {*inspect.signature(each.generate).parameters} - {"self", "kwargs"}
    return found


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


def _wrap(module: Any, settings: Settings, request: ModelRequest, source: str, pin_steps: bool = False) -> Model:
    notes: list[str] = []
    if settings.generation is not None:
        module.generation_config = settings.generation
    # A model that is only counted lives on the meta device and stays there.
    if not any(parameter.is_meta for parameter in module.parameters()):
        module.to(request.device)
    if request.type in synthesis.OUTPUTS:
        return synthesis.wrap_speaker(module, source, request, settings.arguments, pin_steps)
    extractor = load_extractor(source, notes, request.trust)
    whisper = (
        Whisper(module, extractor, request, settings.arguments, pin_steps) if is_whisper(module, extractor) else None
    )
    waveforms = Waveforms(module, extractor, request)
    prepare, output, run = waveforms.prepare, OUTPUTS[request.type], _scores(module, waveforms)
    if request.type == "AutoModel":
        output, run, note = _encoded(module, waveforms, source)
        notes += [note] if note else []
        if whisper:
            prepare, run = whisper.prepare, whisper.hidden_states
            notes += whisper.notes(decodes=False)
    elif request.type == "AutoModelForAudioXVector":
        run = _embeddings(module, waveforms)
    elif output == "text":
        token_ids: Rows
        if request.type == "AutoModelForCTC":
            token_ids = _likeliest(run)
        elif whisper:
            prepare, token_ids = whisper.prepare_to_decode, whisper.token_ids
            notes += whisper.notes(decodes=True)
        else:
            inputs = _inputs(module, extractor, waveforms, source, request)
            pinned = pin_steps and request.type not in TRANSDUCERS
            prepare, token_ids = inputs.prepare, Decoder(module, inputs, request, settings.arguments, pinned)
            notes += [inputs.note] if isinstance(inputs, Prompted) else []
            notes += token_ids.notes() if request.type not in TRANSDUCERS else []
            if request.type in TRANSDUCERS and pin_steps:
                notes.append(
                    "With random weights the transducer writes tokens at random, more or fewer than on speech."
                )
        tokenizer = load_tokenizer(source, notes, request.trust)
        if tokenizer:
            run = _written(token_ids, tokenizer, skip_special_tokens=request.type != "AutoModelForCTC")
        else:
            output, run = "token ids", token_ids
    model = Model(module, prepare, run, output, waveforms.rate, _components(module), notes)
    model.window = waveforms.window / waveforms.rate if waveforms.window else None
    model.trained_by = trained_by(module, request, waveforms, waveforms.rate, whisper)
    return model


def _inputs(module: Any, extractor: Any, waveforms: Waveforms, source: str, request: ModelRequest) -> Any:
    """With a prompt, where the processor has a place for one."""
    needs_tokens = module.main_input_name == "input_ids"
    try:
        processor = load_processor(source, request.trust)
    except ModelError:
        if needs_tokens:
            raise
        return waveforms
    asks, chats = hasattr(processor, "apply_transcription_request"), bool(getattr(processor, "chat_template", None))
    if (needs_tokens and (asks or chats or hasattr(processor, "audio_token"))) or (asks and chats):
        return Prompted(processor, extractor, request)
    return waveforms


# -- what is timed, after the feature extractor: rows of samples to the final output


def _scores(module: Any, features: Rows) -> Rows:
    return lambda rows: module(**features(rows)).logits


def _embeddings(module: Any, features: Rows) -> Rows:
    return lambda rows: module(**features(rows)).embeddings


def _encoded(module: Any, features: Rows, source: str) -> tuple[str, Rows, str]:
    """What AutoModel gives for audio, by what the class has: the output's name, how it is made, and a note."""
    if hasattr(module, "encode") and hasattr(module, "decode"):
        note = "The output of a codec is its codes and the audio that it makes of them: encoder and decoder are run."
        return "codes and audio", lambda rows: module(**features(rows)), note
    if hasattr(module, "get_audio_features") and module.main_input_name == "input_ids":
        note = "AutoModel runs the part for audio alone: the part for text is loaded and counted, but never called."
        return "audio embeddings", lambda rows: module.get_audio_features(**features(rows)), note
    if module.main_input_name not in ("input_values", "input_features"):
        raise ModelError(
            f"{source} is a {type(module).__name__}, which takes {module.main_input_name} and not audio: AutoModel "
            "serves encoders of audio, codecs, and models with an audio tower"
        )
    if not module.config.is_encoder_decoder:
        return OUTPUTS["AutoModel"], lambda rows: getattr(module(**features(rows)), "last_hidden_state", None), ""
    encoder = module.get_encoder()
    note = "AutoModel runs the encoder alone: the decoder is loaded and counted, but never called."
    return "hidden states of the encoder", lambda rows: encoder(**features(rows)).last_hidden_state, note


def _likeliest(scores: Rows) -> Rows:
    return lambda rows: scores(rows).argmax(dim=-1).cpu()


def _written(token_ids: Rows, tokenizer: Any, skip_special_tokens: bool) -> Rows:
    return lambda rows: tokenizer.batch_decode(token_ids(rows), skip_special_tokens=skip_special_tokens)


def _components(module: Any) -> dict[str, Any]:
    """The model's own parts, one level below a lone backbone: front end, encoder, decoder, head."""
    parts = dict(module.named_children())
    base = getattr(module, "base_model_prefix", "")
    backbone = parts.pop(base, None) if base else None
    inner = dict(backbone.named_children()) if backbone is not None else {}
    return {**inner, **parts}
