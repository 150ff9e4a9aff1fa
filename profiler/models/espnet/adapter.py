"""Adapter for ESPnet: its ASR models with CTC and attention decoder, from a folder with config.yaml and a .pth file.

The timed region is what ESPnet's Speech2Text does, from waveforms in memory to text: features, encoder, beam search
over the weighted scores of decoder, CTC and language model. `ctc_weight`, `lm_weight` and `beam_size` are overrides
like any key of config.yaml.
Speech2Text itself imports more packages than can be installed beside today's torch; all parts here are ESPnet's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from profiler.errors import ModelError
from profiler.models.espnet.build import build, put_weights, weights_file
from profiler.models.espnet.config import FILE, SEARCH, Description, describe
from profiler.models.espnet.language_model import add_language_model
from profiler.models.formats import Folder
from profiler.models.model import Model, ModelRequest, how_pinned, waveforms_and_lengths
from profiler.models.reasons import explained
from profiler.models.registry import Needs
from profiler.training.tasks import Outputs, Targets, Task, ordinary_tokens

LIBRARY = "espnet"
INTERFACES = ("ESPnetASRModel",)
FORMAT = Folder(LIBRARY, FILE, ("*.pth",))
NEEDS = Needs(
    ("espnet2", "espnet", "torch_complex", "typeguard"),
    'pip install "speech-profiler[espnet]" && pip install --no-deps espnet==202511',
)
TRAINS = {"ESPnetASRModel": ("hybrid",)}
HUB_FILES = ("*.yaml", "*.pth", "*.npz", "*.model", "*.txt")


def load_pretrained(request: ModelRequest, source: str) -> Model:
    folder = request.folder or _downloaded(source)
    description = describe(folder, request.overrides)
    model = build(description)
    file = weights_file(folder)
    put_weights(model, file)
    notes = [f"The weights are those of {file.name}.", *add_language_model(model, description, pretrained=True)]
    made = _wrap(model, request, description)
    made.notes.extend(notes)
    return made


def build_random(request: ModelRequest, folder: Path | None) -> Model:
    assert folder is not None
    description = describe(folder, request.overrides)
    model = build(description)
    notes = add_language_model(model, description, pretrained=False)
    made = _wrap(model, request, description, pin_steps=True)
    made.notes.extend(notes)
    return made


def _downloaded(source: str) -> Path:
    """A hub model's folder. What ESPnet packs has config.yaml further down, where meta.yaml says."""
    import yaml  # type: ignore[import-untyped]
    from huggingface_hub import snapshot_download

    with explained(f"ESPnet's model {source} is not available from the hub"):
        folder = Path(snapshot_download(source, allow_patterns=list(HUB_FILES)))
        if (folder / FILE).is_file():
            return folder
        meta = yaml.safe_load((folder / "meta.yaml").read_text(encoding="utf-8"))
        return (folder / str(meta["yaml_files"]["asr_train_config"])).parent


def _wrap(model: Any, request: ModelRequest, description: Description, pin_steps: bool = False) -> Model:
    search = make_search(model, description, forbid_end=pin_steps)
    model.to(request.device)
    logmel = getattr(model.frontend, "logmel", None)
    rate = int(logmel.mel_options["sr"]) if logmel is not None else 16000
    notes = _notes(model, search, request, pin_steps)
    to_text = _to_text(description, notes)

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
        waveforms_and_lengths,
        run,
        "text",
        rate,
        dict(model.named_children()),
        notes,
        beside={"search": search},
        trained_by={"hybrid": lambda settings: _hybrid(model, request.device)},
    )


def _notes(model: Any, search: Any, request: ModelRequest, pin_steps: bool) -> list[str]:
    notes = ["A batch is encoded together; ESPnet's beam search then takes its rows one after another."]
    if pin_steps:
        notes.append(how_pinned(request, "search"))
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


def make_search(model: Any, description: Description, forbid_end: bool) -> Any:
    """ESPnet's beam search, with scorers and weights as its Speech2Text sets them."""
    from espnet.nets.batch_beam_search import BatchBeamSearch
    from espnet.nets.beam_search import BeamSearch
    from espnet.nets.scorer_interface import BatchScorerInterface
    from espnet.nets.scorers.ctc import CTCPrefixScorer
    from espnet.nets.scorers.length_bonus import LengthBonus

    weight = _ctc_weight(model, description)
    vocabulary = len(description.tokens)
    scorers = {
        "decoder": model.decoder,
        "ctc": CTCPrefixScorer(model.ctc, model.eos),
        "length_bonus": LengthBonus(vocabulary),
    }
    weights = {"decoder": 1.0 - weight, "ctc": weight, "length_bonus": description.search["penalty"]}
    if description.search["lm_weight"]:
        scorers["lm"], weights["lm"] = model.lm, description.search["lm_weight"]
    if forbid_end:
        scorers["no_end"] = _no_end_scorer(vocabulary, model.eos)
        weights["no_end"] = 1.0
    batched = all(isinstance(scorer, BatchScorerInterface) for name, scorer in scorers.items() if weights[name])
    return (BatchBeamSearch if batched else BeamSearch)(
        scorers=scorers,
        weights=weights,
        beam_size=int(description.search["beam_size"]),
        vocab_size=vocabulary,
        sos=model.sos,
        eos=model.eos,
        token_list=description.tokens,
        pre_beam_score_key=None if weight == 1 else "full",
    )


def _ctc_weight(model: Any, description: Description) -> float:
    """The wanted one. ESPnet leaves out the part that training gave no weight, and then there is no choice."""
    only = 0.0 if model.ctc is None else 1.0 if model.decoder is None else None
    wanted = description.search.get("ctc_weight")
    if only is None:
        return SEARCH["ctc_weight"] if wanted is None else wanted
    if wanted not in (None, only):
        raise ModelError(
            f"{description.folder / FILE} describes a model without {'CTC' if only == 0 else 'a decoder'} "
            f"(model_conf.ctc_weight: {only:g}): it can be searched with ctc_weight {only:g} only, not {wanted:g}"
        )
    return only


def _no_end_scorer(vocabulary: int, end: int) -> Any:
    """A scorer that leaves all tokens as they are but the end, which becomes impossible.

    Untrained weights end a hypothesis by chance, at any step: the beam would shrink, or the search stop, by luck.
    """
    from espnet.nets.scorer_interface import BatchScorerInterface

    class NoEnd(BatchScorerInterface):
        def score(self, y: Any, state: Any, x: Any) -> tuple[Any, Any]:
            scores = x.new_zeros(vocabulary)
            scores[end] = -math.inf
            return scores, None

        def batch_score(self, ys: Any, states: Any, xs: Any) -> tuple[Any, Any]:
            return self.score(ys, None, xs)[0].expand(len(ys), vocabulary), None

    return NoEnd()


def _hybrid(model: Any, device: str) -> Task:
    from profiler.training.losses import TORCH, with_end, with_start

    if model.use_transducer_decoder or getattr(model, "use_linear_decoder", False):
        raise ModelError("An ESPnet model with a transducer or a classifier in place of a decoder is not trained here.")
    loss = _loss(model)

    def forward(value: tuple[Any, Any], targets: Targets) -> Outputs:
        waveforms, lengths = (part.to(device) for part in value)
        encoded, frames = model.encode(waveforms, lengths)
        if isinstance(encoded, tuple):
            encoded = encoded[0]
        decoded = wanted = None
        if model.ctc_weight != 1.0:
            wanted = with_end(targets, model.eos, model.ignore_id)
            decoded, _ = model.decoder(encoded, frames, with_start(targets, model.sos), targets.lengths.to(device) + 1)
        return Outputs((encoded, frames, decoded, wanted), frames.cpu())

    share = {0.0: "attention (label smoothing)", 1.0: "CTC"}
    if (language_model := getattr(model, "lm", None)) is not None:
        language_model.requires_grad_(False)  # it was trained apart, on text
    name = share.get(model.ctc_weight, f"{model.ctc_weight:g} CTC + {1 - model.ctc_weight:g} attention")
    tokens = ordinary_tokens(model.vocab_size, model.blank_id, model.sos, model.eos)
    task = Task(name, f"ESPnet's own, on {TORCH}", forward, loss, tokens, per_frame=model.ctc_weight != 0.0)
    if model.ctc_weight != 0.0:
        task.notes.append("ESPnet's CTC module projects to tokens itself: that projection is in the phase of the loss.")
    if model.interctc_weight:
        task.notes.append("CTC of inner layers, which this model was trained with, is left out.")
    return task


def _loss(model: Any) -> Any:
    import torch

    class HybridLoss(torch.nn.Module):
        """The model's own CTC module and attention criterion."""

        def __init__(self) -> None:
            super().__init__()
            self.ctc = model.ctc
            self.attention = model.criterion_att if model.ctc_weight != 1.0 else None

        def forward(self, outputs: Any, targets: Targets) -> torch.Tensor:
            encoded, frames, decoded, wanted = outputs.values
            total: Any = 0.0
            if model.ctc_weight != 0.0:
                lengths = targets.lengths.to(encoded.device)
                total = model.ctc_weight * self.ctc(encoded, frames, targets.tokens, lengths)
            if self.attention is not None:
                total = total + (1 - model.ctc_weight) * self.attention(decoded, wanted)
            return total  # type: ignore[no-any-return]

    return HybridLoss()
