"""CTranslate2, the engine of faster-whisper, on the CPU: Whisper of transformers, converted, with a search of its own.

    module --convert--> folder --load--> session: features --encode--> hidden states --generate--> token ids

It runs no exported programs: it has code of its own for the kinds of models that it knows, and takes their weights and
sizes alone. So it stands in the place of the encoder and of `generate`. Feature extraction and tokenizer stay, and the
prompt (language, task) is the one that transformers begins with.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profiler.errors import NotSupported
from profiler.runtimes.base import EngineCall, Options, Settings, TensorInfo
from profiler.runtimes.part import Export, ExportedPart, Runtime
from profiler.units import many

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram

NAME = "ctranslate2"
FILE = "model.bin"
SUFFIX = ".bin"
PACKAGES = ("ctranslate2",)
DYNAMIC = True
PRECISIONS = ("float32", "bfloat16", "float16")
QUANTIZES = ("dynamic",)
PROFILE = TIMELINE = "CTranslate2 keeps no profile of its own"
KIND = "whisper"
PART = "encoder, decoder and search"
AS_SAVED = "default"  # CTranslate2's word for the type of the weights in a folder
NEW_TOKENS = 20  # of transformers, where nothing says how many
# Of transformers' `generate`, what is taken over, and what may be given to no effect.
BEAMS = {"num_beams": "beam_size", "length_penalty": "length_penalty", "repetition_penalty": "repetition_penalty"}
BEAMS |= {"no_repeat_ngram_size": "no_repeat_ngram_size"}
TAKEN = {*BEAMS, "input_features", "max_new_tokens", "min_new_tokens", "max_length", "suppress_tokens", "language"}
TAKEN |= {"task", "is_multilingual", "use_cache", "attention_mask", "force_unique_generate_call"}
LEFT_OUT = {"do_sample": 0, "return_timestamps": 0, "min_length": 0, "prompt_ids": 0}  # at most
LEFT_OUT |= {"num_return_sequences": 1, "num_beam_groups": 1}


# -- as every engine


def export(program: ExportedProgram, file: Path, options: Options) -> None:
    raise NotSupported("CTranslate2 runs no exported programs: it has code of its own for the models that it knows")


def options(options: Options) -> str:
    return compute_type(options)


def load(file: Path, options: Options) -> WhisperSession:
    return WhisperSession(file, options)


def compute_type(options: Options) -> str:
    return "int8_float32" if options.quantize else options.precision


class WhisperSession:
    """A converted Whisper, loaded."""

    inputs: list[TensorInfo] = []  # noqa: RUF012  # it takes no exported program's
    outputs: list[TensorInfo] = []  # noqa: RUF012

    def __init__(self, file: Path, options: Options, wanted: str = "") -> None:
        import ctranslate2

        wanted = wanted or compute_type(options)
        known = ctranslate2.get_supported_compute_types("cpu")
        if wanted not in (*known, AS_SAVED):
            raise NotSupported(f"CTranslate2 has no {wanted} on this processor; it has {', '.join(sorted(known))}")
        self._model = ctranslate2.models.Whisper(
            str(file.parent), device="cpu", inter_threads=1, intra_threads=options.threads, compute_type=wanted
        )
        self._given = options.threads
        self.computes = str(self._model.compute_type)  # int8_float32
        self.mels = int(self._model.n_mels)
        if wanted not in (AS_SAVED, self.computes):
            raise NotSupported(f"{wanted} was asked for and CTranslate2 computes in {self.computes}")

    def run(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        return [self.encode(tensors[0])]

    def encode(self, features: torch.Tensor) -> torch.Tensor:
        import ctranslate2
        import numpy
        import torch

        made = self._model.encode(self._view(features), to_cpu=True).to(ctranslate2.DataType.float32)
        return torch.from_numpy(numpy.array(made))

    def languages(self, encoded: torch.Tensor) -> list[str]:
        """Of each row the likeliest language, as its token: <|en|>."""
        return [str(found[0][0]) for found in self._model.detect_language(self._view(encoded))]

    def generate(self, encoded: torch.Tensor, prompts: list[list[int]], **how: Any) -> list[list[int]]:
        """The tokens of each row, after the prompt and before the end."""
        found = self._model.generate(self._view(encoded), prompts, **how)
        return [list(result.sequences_ids[0]) for result in found]

    def describe(self) -> Settings:
        told = f"CTranslate2 was given {many(self._given, 'thread')}, and does not tell how many it uses."
        return Settings(precision=self.computes.rpartition("_")[2], notes=(told,))

    def calls(self) -> list[EngineCall]:
        return []

    @staticmethod
    def _view(tensor: torch.Tensor) -> Any:
        import ctranslate2

        return ctranslate2.StorageView.from_array(tensor.detach().contiguous().numpy())


# -- a model of transformers


def require_known(module: Any) -> None:
    """Raise NotSupported for a model that CTranslate2 is not used for."""
    kind = getattr(getattr(module, "config", None), "model_type", None)
    if kind != KIND or not hasattr(module, "generate"):
        raise NotSupported(
            "CTranslate2 runs Whisper of transformers here, with its decoder (AutoModelForSpeechSeq2Seq), and this "
            f"is a {type(module).__name__}"
        )


def prompts(model: Any, value: Any) -> list[list[int]]:
    """What transformers has its decoder begin with, of each row: seen when it runs. For a process of its own."""
    from profiler.processes import run_all

    seen: list[list[list[int]]] = []

    def enter(module: Any, arguments: Any, named: Any) -> None:
        if (ids := named.get("decoder_input_ids")) is not None:
            seen.append(ids.tolist())

    handle = model.module.register_forward_pre_hook(enter, with_kwargs=True)
    try:
        run_all(model, [value])
    finally:
        handle.remove()
    if not seen:
        raise NotSupported("its decoder is given no tokens to begin with")
    return max(seen, key=lambda rows: len(rows[0]))  # where the language is detected, that is a shorter call before


def told(module: Any) -> str:
    """What of the settings of generation goes into the files."""
    own = module.generation_config
    names = ("suppress_tokens", "begin_suppress_tokens", "lang_to_id", "alignment_heads", "no_timestamps_token_id")
    return repr([getattr(own, name, None) for name in names])


def convert(module: Any, folder: Path, options: Options) -> None:
    """Write its folder, of the loaded model as it is: by CTranslate2's own converter, without a tokenizer's files."""
    import torch
    from ctranslate2.converters.transformers import WhisperLoader

    loader = WhisperLoader()
    with torch.no_grad():
        spec = loader.get_model_spec(module)
        loader.set_config(spec.config, module, None)
        spec.config.suppress_ids = spec.config.suppress_ids or []
        spec.config.suppress_ids_begin = spec.config.suppress_ids_begin or []
        loader.set_vocabulary(spec, vocabulary(module))
        spec.validate()
        spec.optimize(quantization=compute_type(options))
        spec.save(str(folder))
    load(folder / FILE, options)  # what cannot be opened is not kept


def vocabulary(module: Any) -> list[str]:
    """Tokens by their numbers: those that CTranslate2 looks for have their names, all else is told by number."""
    own = module.generation_config
    last = getattr(own, "no_timestamps_token_id", None)
    languages = getattr(own, "lang_to_id", None) or {}
    named = {
        **({last - 1: "<|nospeech|>", last: "<|notimestamps|>"} if last else {}),  # side by side in every Whisper
        **{number: token for token, number in languages.items()},
        module.config.decoder_start_token_id: "<|startoftranscript|>",
        _first(own.eos_token_id): "<|endoftext|>",
    }
    tokens = [named.get(number, f"<{number}>") for number in range(module.config.vocab_size)]
    if languages:  # a model of several languages is told by an empty token, which OpenAI's have
        tokens[max(number for number in range(len(tokens)) if number not in named)] = ""
    return tokens


def _first(ids: Any) -> Any:
    return ids[0] if isinstance(ids, (list, tuple)) else ids


def search_part(module: Any, runtime: Runtime, export: Export, prompts: list[list[int]]) -> SearchPart:
    own = module.generation_config
    if getattr(own, "no_timestamps_token_id", None) not in prompts[0]:
        raise NotSupported("the model is asked for timestamps, for which CTranslate2 has rules of its own")
    languages = dict(getattr(own, "lang_to_id", None) or {})
    return SearchPart(PART, runtime, [export], module=module, prompt=prompts[0], languages=languages)


@dataclass
class SearchPart(ExportedPart):
    """Takes the place of the encoder's forward and of `generate`."""

    module: Any = None
    prompt: Sequence[int] = ()
    languages: Mapping[str, int] = field(default_factory=dict)  # token -> its number
    computes: str = ""  # other than the options say
    session: WhisperSession | None = None

    def put(self, module: Any) -> None:
        encoder = module.get_encoder()
        signature = inspect.signature(encoder.forward)
        encoder.forward = _Encode(self, signature)
        module.generate = self.generate

    def open(self, options: Options) -> list[Settings]:
        (export,) = self.exports
        self.session = WhisperSession(export.folder / export.manifest.file, options, self.computes)
        return [self.session.describe()]

    def calls(self) -> list[EngineCall]:
        return []

    def encode(self, features: Any) -> Any:
        from transformers.modeling_outputs import BaseModelOutput

        self.runtime.open()
        assert self.session is not None
        with self.runtime.span(self):
            return BaseModelOutput(last_hidden_state=self.session.encode(features))

    def generate(self, input_features: Any, **named: Any) -> Any:
        """What transformers' `generate` gives, for the arguments that Whisper is called with here."""
        import torch

        how = self._how(named)
        if named.get("return_timestamps") or input_features.shape[-1] > 2 * self.module.config.max_source_positions:
            raise NotSupported(
                "CTranslate2 takes one window of audio, 30 s: how longer audio is moved through is transformers' own"
            )
        encoded = self.module.get_encoder()(input_features).last_hidden_state
        assert self.session is not None
        with self.runtime.span(self):
            found = self.session.generate(encoded, self._prompts(encoded, how.pop("language")), **how)
        least = named.get("min_new_tokens") or 0
        if any(len(ids) < least for ids in found):
            raise NotSupported(f"CTranslate2 wrote fewer than the {least} tokens that were asked for")
        end = _first(self._own("pad_token_id", named)) or 0
        longest = max(map(len, found))
        return torch.tensor([ids + [end] * (longest - len(ids)) for ids in found], dtype=torch.int64)

    def _prompts(self, encoded: Any, language: Any) -> list[list[int]]:
        """The same for all rows, but for a language that is not given: that is told from the audio of each."""
        rows = [list(self.prompt) for _ in range(len(encoded))]
        numbers = set(self.languages.values())
        place = next((place for place, token in enumerate(self.prompt) if token in numbers), None)
        if language is None and place is not None:
            assert self.session is not None
            for row, token in zip(rows, self.session.languages(encoded), strict=True):
                row[place] = self.languages[token]
        return rows

    def _how(self, named: Mapping[str, Any]) -> dict[str, Any]:
        """The search that was asked for, in CTranslate2's words. Raises NotSupported."""
        for name, value in named.items():
            if name not in TAKEN and name not in LEFT_OUT and value is not None:
                raise NotSupported(f"CTranslate2's search has nothing for `{name}` of transformers' generate")
        for name, most in LEFT_OUT.items():
            value = self._own(name, named) or 0
            if not isinstance(value, int) or value > most:
                raise NotSupported(f"CTranslate2's search here has no {name}")
        how = {other: value for name, other in BEAMS.items() if (value := self._own(name, named)) is not None}
        room = self.module.config.max_target_positions - len(self.prompt)
        longest = self._own("max_new_tokens", named) or self._own("max_length", named) or NEW_TOKENS
        new = min(longest, room)
        suppressed = list(self._own("suppress_tokens", named) or [])
        least = self._own("min_new_tokens", named)
        if least and least != longest:
            raise NotSupported("CTranslate2's search has no least number of tokens")
        if least:  # without an end it writes as many as it may
            ends = self._own("eos_token_id", named)
            suppressed += ends if isinstance(ends, (list, tuple)) else [ends]
        return {
            "beam_size": 1,  # CTranslate2's own default is 5
            **how,
            # Of the number that it is given it takes half for what it writes, and all for that and the prompt.
            "max_length": max(2 * new, new + len(self.prompt)),
            "suppress_tokens": suppressed,
            "suppress_blank": True,  # the tokens that must not come first, which are in its folder
            "language": self._own("language", named),
        }

    def _own(self, name: str, named: Mapping[str, Any]) -> Any:
        given = named.get(name)
        return given if given is not None else getattr(self.module.generation_config, name, None)


class _Encode:
    """In place of the encoder's forward."""

    def __init__(self, part: SearchPart, signature: inspect.Signature) -> None:
        self._part = part
        self.__signature__ = signature

    def __call__(self, input_features: Any, attention_mask: Any = None, **named: Any) -> Any:
        return self._part.encode(input_features)
