"""A folder of CTranslate2 with a Whisper, as its converter and faster-whisper have it: model.bin, config.json and
vocabulary.json.

    pretrained_model: {source: whisper-tiny-ct2, type: CTranslate2, overrides: {language: en, num_beams: 5}}

The folder says nothing of features but their number, which is Whisper's: 30 s of log-mel features. Around encoder,
decoder and search, which are CTranslate2's, runs the code that runs around transformers' Whisper.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from profiler.errors import ModelError, did_you_mean
from profiler.models.model import Model, ModelRequest
from profiler.models.transformers.whisper import Whisper
from profiler.runtimes import engine
from profiler.runtimes.base import Options
from profiler.runtimes.part import Export, Manifest, Runtime

if TYPE_CHECKING:
    from profiler.runtimes.ctranslate2 import SearchPart

ENGINE = "ctranslate2"
WEIGHTS, CONFIG, VOCABULARY = "model.bin", "config.json", "vocabulary.json"
OLDER = "vocabulary.txt"
KIND = b"WhisperSpec"  # at the head of the weights, after the version of the format
START, END, NO_TIMES = "<|startoftranscript|>", "<|endoftext|>", "<|notimestamps|>"
TASKS = ("transcribe", "translate")
TOKENS = 448  # that Whisper's decoder has positions for, prompt included
WINDOW = 1500  # frames of its encoder
OVERRIDES = ["language", "task", "num_beams", "length_penalty", "repetition_penalty", "no_repeat_ngram_size"]
SPECIAL = re.compile(r"^<\|.*\|>$")


def is_ctranslate2_folder(folder: Path) -> bool:
    return all((folder / name).is_file() for name in (WEIGHTS, CONFIG, VOCABULARY))


def what_is_missing(folder: Path) -> str:
    """Of a folder with the weights of a Whisper, as a sentence goes on; empty for any other folder."""
    missing = [name for name in (CONFIG, VOCABULARY) if not (folder / name).is_file()]
    if not missing or not (folder / WEIGHTS).is_file():
        return ""
    with (folder / WEIGHTS).open("rb") as file:
        if KIND not in file.read(64):
            return ""
    older = f" ({OLDER} of older converters is not read)" if (folder / OLDER).is_file() else ""
    return (
        f"is a Whisper of CTranslate2 without {' and '.join(missing)}{older}: copy what is missing from where "
        f"{WEIGHTS} comes from, or convert the model again with ct2-transformers-converter"
    )


class _About(msgspec.Struct):
    """What the engine says of a folder."""

    mels: int
    computes: str


def load(request: ModelRequest, folder: Path) -> Model:
    from profiler.processes import TrialFailed, in_fork

    for name in request.overrides:
        if name not in OVERRIDES:
            raise ModelError(
                f"pretrained_model.overrides: a folder of CTranslate2 has no `{name}`.{did_you_mean(name, OVERRIDES)}"
            )
    chosen: Any = engine(ENGINE)

    def look() -> _About:
        session = chosen.WhisperSession(folder / WEIGHTS, Options(), chosen.AS_SAVED)
        return _About(session.mels, session.computes)

    try:
        about = in_fork(look, _About)
    except TrialFailed as error:
        raise ModelError(f"CTranslate2 cannot read a Whisper from {folder}: {error}.") from None
    tokens = _read(folder / VOCABULARY, list)
    module = _module(tokens, about, _read(folder / CONFIG, dict))
    options = Options(precision=about.computes.rpartition("_")[2])  # type: ignore[arg-type]
    runtime = Runtime(ENGINE, chosen, options)
    manifest = Manifest(file=WEIGHTS, output="", leaves=[], export_s=0.0, export_peak_bytes=0)
    part: SearchPart = chosen.search_part(
        module, runtime, Export("", (), folder, manifest, cached=True), [_prompt(module, request)]
    )
    part.computes = chosen.AS_SAVED
    part.put(module)
    runtime.parts.append(part)
    whisper = Whisper(module, _extractor(folder, about.mels), request, dict(request.overrides), pinned=False)
    model = Model(
        module=module,
        prepare=whisper.prepare_to_decode,
        run=lambda rows: _texts(whisper.token_ids(rows).tolist(), tokens),
        output="text",
        rate=whisper.rate,
        components={"encoder": module.get_encoder()},
        notes=[f"CTranslate2 runs {part.name}, in {about.computes} as the folder has it."],
    )
    model.notes += whisper.notes(decodes=True)
    model.window = whisper.window / whisper.rate
    model.runtime = runtime
    model.file_bytes = (folder / WEIGHTS).stat().st_size
    return model


def _read(file: Path, kind: type[Any]) -> Any:
    try:
        return msgspec.json.decode(file.read_bytes(), type=kind)
    except (OSError, msgspec.MsgspecError, json.JSONDecodeError) as error:
        raise ModelError(f"{file} cannot be read ({error}).") from None


def _module(tokens: list[str], about: _About, config: dict[str, Any]) -> Any:
    """Whisper of transformers without weights and layers, for its settings and its call."""
    import torch
    import transformers

    numbers = {token: number for number, token in enumerate(tokens)}
    missing = [token for token in (START, END, NO_TIMES) if token not in numbers]
    if missing:
        raise ModelError(f"{VOCABULARY} has no {' and no '.join(missing)}, which every Whisper has.")
    languages = {tokens[number]: number for number in config.get("lang_ids") or () if number < len(tokens)}
    sizes = {"d_model": 2, "encoder_layers": 0, "decoder_layers": 0, "encoder_ffn_dim": 1, "decoder_ffn_dim": 1}
    sizes |= {"encoder_attention_heads": 1, "decoder_attention_heads": 1, "num_mel_bins": about.mels}
    sizes |= {"max_target_positions": TOKENS, "max_source_positions": WINDOW, "vocab_size": len(tokens)}
    ends = dict.fromkeys(("eos_token_id", "pad_token_id", "bos_token_id"), numbers[END])
    with torch.device("meta"):
        module = transformers.WhisperForConditionalGeneration(
            transformers.WhisperConfig(**sizes, **ends, decoder_start_token_id=numbers[START])
        )
    module.to_empty(device="cpu")
    more = {"lang_to_id": languages} if languages else {}
    tasks = {task: numbers[f"<|{task}|>"] for task in TASKS if f"<|{task}|>" in numbers}
    module.generation_config = transformers.GenerationConfig(
        **ends,
        **more,
        task_to_id=tasks if languages else {},
        max_length=TOKENS,
        decoder_start_token_id=numbers[START],
        no_timestamps_token_id=numbers[NO_TIMES],
        suppress_tokens=config.get("suppress_ids") or [],
        begin_suppress_tokens=config.get("suppress_ids_begin") or [],
    )
    return module


def _prompt(module: Any, request: ModelRequest) -> list[int]:
    """What the decoder begins with; a language that is not given is told from the audio."""
    own = module.generation_config
    languages, tasks = getattr(own, "lang_to_id", {}), own.task_to_id
    prompt = [own.decoder_start_token_id]
    if languages:
        language, task = request.overrides.get("language"), request.overrides.get("task") or TASKS[0]
        token = f"<|{language}|>"
        if language is not None and token not in languages:
            known = sorted(name.strip("<|>") for name in languages)
            raise ModelError(f"pretrained_model.overrides: no language `{language}`.{did_you_mean(language, known)}")
        if task not in tasks:
            raise ModelError(f"pretrained_model.overrides: no task `{task}`.{did_you_mean(task, sorted(tasks))}")
        prompt += [languages[token] if language is not None else next(iter(languages.values())), tasks[task]]
    return [*prompt, own.no_timestamps_token_id]


def _extractor(folder: Path, mels: int) -> Any:
    from transformers import WhisperFeatureExtractor

    if (folder / "preprocessor_config.json").is_file():
        return WhisperFeatureExtractor.from_pretrained(folder)
    return WhisperFeatureExtractor(feature_size=mels)


def _texts(rows: list[list[int]], tokens: list[str]) -> list[str]:
    """Pieces of bytes, as Whisper's vocabulary has them, without what is not said."""
    from tokenizers.decoders import ByteLevel

    decoder = ByteLevel()
    return [decoder.decode([tokens[number] for number in row if not SPECIAL.match(tokens[number])]) for row in rows]
