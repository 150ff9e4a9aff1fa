"""Adapter for ESPnet: its ASR models with CTC and attention decoder, from a folder with config.yaml and a .pth file.

The timed region is what ESPnet's Speech2Text does, from waveforms in memory to text: features, encoder, beam search
over the weighted scores of decoder and CTC. `ctc_weight` and `beam_size` are overrides like any key of config.yaml.
Speech2Text itself imports more packages than can be installed beside today's torch; all parts here are ESPnet's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profiler.errors import ModelError
from profiler.models.espnet.build import build, put_weights
from profiler.models.espnet.config import FILE, Description, describe
from profiler.models.espnet.search import make_search
from profiler.models.espnet.training import trained_by
from profiler.models.formats import Folder
from profiler.models.model import Model, ModelRequest
from profiler.models.reasons import reason
from profiler.models.registry import Needs

if TYPE_CHECKING:
    from profiler.audio import Batch

LIBRARY = "espnet"
FORMAT = Folder(LIBRARY, FILE, ("*.pth",))
NEEDS = Needs(
    ("espnet2", "espnet", "torch_complex", "typeguard"),
    'pip install "speech-profiler[espnet]" && pip install --no-deps espnet==202511',
)
TRAINS = {"ESPnetASRModel": ("hybrid",)}
HUB_FILES = ("*.yaml", "*.pth", "*.npz", "*.model", "*.txt")


def interfaces() -> tuple[str, ...]:
    return ("ESPnetASRModel",)


def load_pretrained(request: ModelRequest, source: str) -> Model:
    folder = request.folder or _downloaded(source)
    description = describe(folder, request.overrides)
    model = build(description)
    file = weights_file(folder)
    put_weights(model, file)
    made = _wrap(model, request, description)
    made.notes.append(f"The weights are those of {file.name}.")
    return made


def build_random(request: ModelRequest, folder: Path | None) -> Model:
    assert folder is not None
    description = describe(folder, request.overrides)
    return _wrap(build(description), request, description, pin_steps=True)


def weights_file(folder: Path) -> Path:
    """ESPnet leaves many files: the average of the best epochs is what it decodes with; else the newest."""

    def rank(file: Path) -> tuple[bool, bool, bool, float, str]:
        name = file.name  # checkpoint.pth is there to go on training
        return name != "checkpoint.pth", ".ave" in name, name == "valid.acc.ave.pth", file.stat().st_mtime, name

    files = [file for file in folder.glob("*.pth") if file.is_file()]
    if not files:
        raise ModelError(f"the folder {folder} holds no weights: the .pth files in it are links to nowhere")
    return max(files, key=rank)


def _downloaded(source: str) -> Path:
    """A hub model's folder. What ESPnet packs has config.yaml further down, where meta.yaml says."""
    import yaml  # type: ignore[import-untyped]
    from huggingface_hub import snapshot_download

    try:
        folder = Path(snapshot_download(source, allow_patterns=list(HUB_FILES)))
        if (folder / FILE).is_file():
            return folder
        meta = yaml.safe_load((folder / "meta.yaml").read_text(encoding="utf-8"))
        return (folder / str(meta["yaml_files"]["asr_train_config"])).parent
    except Exception as error:  # the network, the hub and what it holds
        raise ModelError(f"ESPnet's model {source} is not available from the hub: {reason(error)}") from error


def _wrap(model: Any, request: ModelRequest, description: Description, pin_steps: bool = False) -> Model:
    import torch

    search = make_search(model, description, forbid_end=pin_steps)
    # A model that is only counted lives on the meta device; ESPnet makes some of its parameters in memory all the same.
    model.to("meta" if any(parameter.is_meta for parameter in model.parameters()) else request.device)
    logmel = getattr(model.frontend, "logmel", None)
    rate = int(logmel.mel_options["sr"]) if logmel is not None else 16000
    notes = _notes(model, search, request, pin_steps)
    to_text = _to_text(description, notes)

    def prepare(batch: Batch) -> tuple[Any, Any]:
        return torch.from_numpy(batch.waveforms), torch.from_numpy(batch.lengths)

    def limits(samples: int, frames: int) -> dict[str, float]:
        if not pin_steps:
            return {key: description.search[key] for key in ("maxlenratio", "minlenratio")}
        steps = max(1, math.ceil(samples / rate * request.tokens_per_second))
        if steps > frames:
            raise ModelError(
                f"{steps} steps of search are more than the {frames} frames that the encoder makes of "
                f"{samples / rate:g} s; set a lower pretrained_model.tokens_per_second"
            )
        # Below 0 these are numbers of steps. At the last one the search ends all hypotheses by itself.
        return {"maxlenratio": -steps, "minlenratio": 1 - steps}

    def run(value: tuple[Any, Any]) -> list[str]:
        waveforms, lengths = value
        encoded, frames = model.encode(waveforms.to(request.device), lengths.to(request.device))
        if isinstance(encoded, tuple):  # with what its inner layers say, for models trained with intermediate CTC
            encoded = encoded[0]
        texts = []
        for row, samples, length in zip(encoded, lengths.tolist(), frames.tolist(), strict=True):
            found = search(row[:length], **limits(samples, length))
            numbers = found[0].yseq[1:-1].tolist() if found else []
            texts.append(to_text([description.tokens[number] for number in numbers if number != model.blank_id]))
        return texts

    return Model(
        model,
        prepare,
        run,
        "text",
        rate,
        dict(model.named_children()),
        notes,
        beside={"search": search},
        trained_by=trained_by(model, request.device),
    )


def _notes(model: Any, search: Any, request: ModelRequest, pin_steps: bool) -> list[str]:
    notes = ["A batch is encoded together; ESPnet's beam search then takes its rows one after another."]
    if pin_steps:
        notes.append(
            f"With random weights the search is made to take {request.tokens_per_second:g} steps per second of audio, "
            "as it does on speech."
        )
    if not hasattr(search, "batch_beam"):
        notes.append("ESPnet scores this decoder for one hypothesis at a time: it has no batched form of it.")
    if "decoder" not in search.scorers and model.decoder is not None:
        notes.append(
            "CTC alone: the decoder is not run, and nothing narrows the choice for the CTC prefix scores: ESPnet works "
            "them out for the whole vocabulary at every step."
        )
    return notes


def _to_text(description: Description, notes: list[str]) -> Callable[[list[str]], str]:
    """Tokens to text, by ESPnet's own tokenizer where the model says which."""
    if "vocabulary_size" in description.config:
        return " ".join  # numbered pieces
    kind, pieces = description.config.get("token_type", "bpe"), description.config.get("bpemodel")
    made: Any = None
    if kind == "char":
        from espnet2.text.char_tokenizer import CharTokenizer

        made = CharTokenizer()
    elif kind == "word":
        from espnet2.text.word_tokenizer import WordTokenizer

        made = WordTokenizer()
    elif kind == "bpe" and pieces is not None and (file := description.file(str(pieces))):
        from espnet2.text.sentencepiece_tokenizer import SentencepiecesTokenizer

        made = SentencepiecesTokenizer(file)
    if made is None:
        notes.append("There is no tokenizer for these tokens beside the model: its text is the tokens as they are.")
        return " ".join
    to_text: Callable[[list[str]], str] = made.tokens2text
    return to_text
