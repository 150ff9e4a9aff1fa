"""What a model of transformers is given: waveforms through its own feature extractor, or with a prompt through its own
processor and chat template. What they take is read from their signatures; no model has a case of its own."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from profiler.errors import ModelError
from profiler.models.model import ModelRequest, refuse_longer
from profiler.models.reasons import reason

if TYPE_CHECKING:
    from profiler.audio import Batch

Rows = Callable[[list[Any]], Any]
PROMPT = "Transcribe the speech into text."
NO_FILES = (OSError, ValueError, TypeError, KeyError, AttributeError)  # what the Auto classes raise where files lack


def load_extractor(source: str, notes: list[str], trust: bool) -> Any:
    """The model's own feature extractor, alone or in its processor; else plain waveforms with a note."""
    import transformers

    for auto in (transformers.AutoFeatureExtractor, transformers.AutoProcessor):
        try:
            found = auto.from_pretrained(source, trust_remote_code=trust)
        except ImportError as error:
            raise ModelError(f"{source}: {needed(error)}") from error
        except NO_FILES:
            continue
        for each in (found, getattr(found, "feature_extractor", None), getattr(found, "audio_processor", None)):
            if hasattr(each, "sampling_rate"):
                return each
    notes.append("There is no preprocessor_config.json: waveforms are normalised and padded at 16 kHz.")
    return transformers.Wav2Vec2FeatureExtractor(sampling_rate=16000, do_normalize=True)


def load_processor(source: str, trust: bool) -> Any:
    """The processor of a model that cannot do without: tokens and audio go together. Raises ModelError."""
    import transformers

    try:
        return transformers.AutoProcessor.from_pretrained(source, trust_remote_code=trust)
    except ImportError as error:
        raise ModelError(f"{source}: {needed(error)}") from error
    except NO_FILES as error:
        raise ModelError(f"{source} has no processor that transformers can load: {reason(error)}") from error


def load_tokenizer(source: str, notes: list[str], trust: bool) -> Any:
    import transformers

    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(source, trust_remote_code=trust)
    except (*NO_FILES, ImportError):
        tokenizer = None
    if tokenizer is None or not tokenizer.vocab_size:  # without files some classes are made with an empty vocabulary
        notes.append("There is no tokenizer beside the model: its final output is token ids, not text.")
        return None
    return tokenizer


def needed(error: ImportError) -> str:
    """A package that the library asks for: its message goes over several lines, and its first one says too little."""
    import re

    packages = re.findall(r"pip install ([\w.-]+)", str(error))
    named = f" (pip install {' '.join(dict.fromkeys(packages))})" if packages else ""
    return (
        f"transformers needs a package for it that is not installed{named}. "
        f'Install what such models need: pip install "speech-profiler[speech-models]", then pip install --no-deps '
        "mistral-common" + ("" if packages else f". It says: {' '.join(str(error).split())}")
    )


class Waveforms:
    """Rows of samples -> what the feature extractor makes of them, as far as the model takes it."""

    def __init__(self, module: Any, extractor: Any, request: ModelRequest) -> None:
        self.extractor, self.device = extractor, request.device
        self.rate = int(extractor.sampling_rate)
        # What is longer these cut off without a word: Whisper's, CLAP's, and one with a fixed number of 10 ms frames.
        frames = getattr(extractor, "max_length", None) if hasattr(extractor, "num_mel_bins") else None
        self.window = getattr(extractor, "n_samples", None) or getattr(extractor, "nb_max_samples", None)
        self.window = self.window or (int(frames * self.rate / 100) if frames else None)
        self.padding: dict[str, Any] = {} if self.window else {"padding": True}
        if hasattr(extractor, "n_samples"):
            self.padding = {"padding": "max_length"}
        config = module.config
        channels = int(getattr(config, "audio_channels", 1) or 1)
        self.channels = channels if getattr(extractor, "feature_size", 1) == channels else 1
        self.taken = taken_by(module.forward)

    def prepare(self, batch: Batch) -> list[Any]:
        refuse_longer(batch, self.window)
        rows = [row[:length] for row, length in zip(batch.waveforms, batch.lengths, strict=True)]
        if self.channels > 1:
            rows = [row[:, None].repeat(self.channels, axis=1) for row in rows]
        return rows

    def __call__(self, rows: list[Any]) -> Any:
        made = self.extractor(rows, sampling_rate=self.rate, return_tensors="pt", **self.padding)
        for name in [name for name in made if self.taken is not None and name not in self.taken]:
            del made[name]
        return made.to(self.device)


def taken_by(function: Callable[..., Any]) -> set[str] | None:
    """The names of a function's arguments; None where it takes any."""
    found = inspect.signature(function).parameters
    return None if any(each.kind is each.VAR_KEYWORD for each in found.values()) else set(found)


class Prompted:
    """Rows of samples and a prompt -> tokens and features, for a language model that processes speech.

    In this order, as far as the processor has it: its own request for a transcript, where the recipe has no prompt; its
    chat template; the token that stands for audio, followed by the prompt.
    """

    def __init__(self, processor: Any, extractor: Any, request: ModelRequest) -> None:
        self.processor, self.request = processor, request
        self.rate = int(extractor.sampling_rate)
        self.window = None
        request_of = getattr(processor, "apply_transcription_request", None)
        self.transcribes = request_of if request.prompt is None else None
        self.prompt = request.prompt or PROMPT
        self.text = None if self.transcribes else self._text()

    def _text(self) -> str:
        """The prompt as the chat template writes it, with the token that stands for the audio."""
        token = getattr(self.processor, "audio_token", None) or ""
        around = [getattr(self.processor, f"audio_{end}_token", None) or "" for end in ("bos", "eos")]
        if not getattr(self.processor, "chat_template", None):
            return f"{around[0]}{token}{around[1]}{self.prompt}"
        parts = [{"type": "audio", "audio": ""}, {"type": "text", "text": self.prompt}]
        for content in (parts, f"{token}{self.prompt}"):  # some templates take a text alone
            chat = [{"role": "user", "content": content}]
            text: str = self.processor.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
            if token and token in text:
                return text
        raise ModelError(
            f"the chat template of {self.request.source} has no place for audio ({token or 'no audio token'})"
        )

    @property
    def note(self) -> str:
        if self.transcribes:
            return "The prompt is the processor's own request for a transcript (apply_transcription_request)."
        how = "chat template" if getattr(self.processor, "chat_template", None) else "token for audio"
        return f"The prompt is '{self.prompt}', through the processor's {how}."

    def prepare(self, batch: Batch) -> list[Any]:
        return [row[:length] for row, length in zip(batch.waveforms, batch.lengths, strict=True)]

    def __call__(self, rows: list[Any]) -> Any:
        if self.transcribes:
            names = inspect.signature(self.transcribes).parameters
            more: dict[str, Any] = {"model_id": self.request.source} if "model_id" in names else {}
            more |= {"sampling_rate": self.rate, "format": ["wav"] * len(rows)} if "format" in names else {}
            made = self.transcribes(audio=list(rows), **more)
        else:
            made = self.processor(
                text=[self.text] * len(rows),
                audio=list(rows),
                sampling_rate=self.rate,
                return_tensors="pt",
                padding=True,
            )
        return made.to(self.request.device)
