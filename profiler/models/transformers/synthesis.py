"""Models that speak: text to a waveform or a spectrogram. The text of a cell is what the example audio says in its
seconds; the real-time factor is over the seconds of speech that were made."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from profiler.errors import ModelError
from profiler.models.model import Model, ModelRequest
from profiler.models.transformers.processing import NO_FILES, needed

if TYPE_CHECKING:
    from profiler.audio import Batch

OUTPUTS = {"AutoModelForTextToWaveform": "speech", "AutoModelForTextToSpectrogram": "mel spectrogram"}
NO_TEXT = (
    "the model makes speech and needs text: name an example_audio whose transcript stands beside it, as a file of the "
    "same name that ends in .txt, or in .tsv with a column `text`"
)


class Speaker:
    """Texts -> speech, by the model's own tokenizer, and its `generate` where it has one."""

    def __init__(self, module: Any, source: str, request: ModelRequest, arguments: dict[str, Any]) -> None:
        self.module, self.request, self.arguments = module, request, arguments
        self.tokenize = _text_processor(source, request.trust)
        self.options: dict[str, Any] = {"return_tensors": "pt", "padding": True}
        try:
            self.tokenize(text=["a"], **self.options)
        except TypeError:  # a processor that pads by itself
            del self.options["padding"]
        self.call = module.generate if hasattr(module, "generate") else module
        self.made: list[float] = []  # seconds of speech of each call
        self.samples = 1 if request.type == "AutoModelForTextToWaveform" else _samples_of_a_frame(module, source)
        self.rate = _rate(module, source)
        self.more: dict[str, Any] = {}
        size = getattr(module.config, "speaker_embedding_dim", None)
        if size and "speaker_embeddings" in inspect.signature(self.call).parameters:
            import torch

            self.more["speaker_embeddings"] = torch.zeros(1, size, device=request.device)

    @property
    def notes(self) -> list[str]:
        notes = [
            "The text of a cell is what the transcript of the example audio has for its seconds, that of a data set "
            "its own transcripts; RTF is over the "
            "seconds of speech that were made."
        ]
        if self.more:
            notes.append("The speaker is a vector of zeros: which voice speaks does not change the cost.")
        if self.samples > 1:
            notes.append("The output is a spectrogram: the vocoder that makes sound of it is not part of this model.")
        return notes

    def prepare(self, batch: Batch) -> list[str]:
        if not batch.texts:
            raise ModelError(NO_TEXT)
        return list(batch.texts)

    def run(self, texts: list[str]) -> Any:
        given = self.tokenize(text=texts, **self.options)
        given = {name: value.to(self.request.device) for name, value in given.items() if hasattr(value, "to")}
        found = self.call(**given, **self.more, **self.arguments)
        speech = _first(found)
        lengths = getattr(found, "sequence_lengths", None)
        count = int(lengths.sum()) if lengths is not None else _length(speech, self.samples)
        self.made.append(count * self.samples / self.rate)
        return speech


def wrap_speaker(module: Any, source: str, request: ModelRequest, arguments: dict[str, Any], pinned: bool) -> Model:
    speaker = Speaker(module, source, request, arguments)
    notes = speaker.notes
    if pinned:
        notes.append("With random weights the model decides at random how long it speaks, and RTF allows for it.")
    parts = dict(module.named_children())
    model = Model(module, speaker.prepare, speaker.run, OUTPUTS[request.type], speaker.rate, parts, notes)
    model.speech_made = speaker.made
    return model


def _text_processor(source: str, trust: bool) -> Any:
    import transformers

    for auto in (transformers.AutoProcessor, transformers.AutoTokenizer):
        try:
            return auto.from_pretrained(source, trust_remote_code=trust)
        except ImportError as error:
            raise ModelError(f"{source}: {needed(error)}") from error
        except NO_FILES:
            continue
    raise ModelError(f"{source} has no tokenizer, without which a model that makes speech has nothing to say")


def _first(found: Any) -> Any:
    """The speech among what the model gives."""
    for name in ("waveform", "audio", "spectrogram", "sequences"):
        if getattr(found, name, None) is not None:
            return getattr(found, name)
    return found[0] if isinstance(found, tuple) else found


def _length(speech: Any, samples: int) -> int:
    """Samples or frames of all rows; frames are the last dimension but one."""
    if isinstance(speech, (list, tuple)):
        return sum(_length(row, samples) for row in speech)
    axis = -2 if samples > 1 else -1
    rows = speech.shape[0] if speech.dim() > (2 if samples > 1 else 1) else 1
    return int(rows * speech.shape[axis])


def _rate(module: Any, source: str) -> int:
    configs = [module.config, getattr(module, "generation_config", None), getattr(module.config, "codec_config", None)]
    for name in ("sampling_rate", "sample_rate"):
        for config in configs:
            if isinstance(found := getattr(config, name, None), int):
                return found
    extractor = _extractor(source)
    return int(getattr(extractor, "sampling_rate", 16000))


def _samples_of_a_frame(module: Any, source: str) -> int:
    found = getattr(_extractor(source), "sample_stride", None)
    if not found:
        raise ModelError(
            f"{source} makes spectrograms and does not say how long a frame lasts, so that no real-time factor can be "
            "computed; take the model that has its vocoder, by type: AutoModelForTextToWaveform"
        )
    return int(found)


def _extractor(source: str) -> Any:
    import transformers

    try:
        return transformers.AutoFeatureExtractor.from_pretrained(source)
    except NO_FILES:
        return None
