"""Adapter for ESPnet: its recognisers with CTC and attention decoder, from a folder with config.yaml and a .pth file.

The timed region is what ESPnet's Speech2Text does, from waveforms in memory to text: features, encoder, beam search
over the weighted scores of decoder and CTC. `ctc_weight` and `beam_size` are overrides like any key of config.yaml.
Speech2Text itself imports more packages than can be installed beside today's torch; all parts here are ESPnet's own.
"""

from __future__ import annotations

import importlib
import inspect
import io
import logging
import math
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profiler.errors import ModelError
from profiler.models import espnet_training
from profiler.models.espnet_config import FILE, PARTS, SEARCH, Description, describe
from profiler.models.formats import Folder
from profiler.models.mel_without_librosa import mel_filters
from profiler.models.model import Model, ModelRequest
from profiler.models.reasons import reason
from profiler.models.registry import Needs
from profiler.models.torchaudio_on_cpu import ensure_torchaudio
from profiler.nearest import nearest

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
    model = _build(description)
    file = weights_file(folder)
    _put_weights(model, file)
    made = _wrap(model, request, description)
    made.notes.append(f"The weights are those of {file.name}.")
    return made


def build_random(request: ModelRequest, folder: Path | None) -> Model:
    assert folder is not None
    description = describe(folder, request.overrides)
    return _wrap(_build(description), request, description, pin_steps=True)


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
        raise ModelError(f"ESPnet's model {source} cannot be had from the hub: {reason(error)}") from error


# -- building


def _build(description: Description) -> Any:
    """The ESPnetASRModel, its parts put together as ESPnet's own builder does it."""
    ensure_torchaudio()
    try:
        with _quiet(), mel_filters():
            return _put_together(description)
    except (ModelError, MemoryError):
        raise
    except Exception as error:  # a part may raise anything over its arguments
        raise ModelError(f"ESPnet cannot build {description.folder}: {reason(error)}") from error


def _put_together(description: Description) -> Any:
    from espnet2.asr.ctc import CTC
    from espnet2.torch_utils.initialize import initialize

    vocabulary = len(description.tokens)
    frontend = _part(description, "frontend")
    size = frontend.output_size()
    normalize = _normalize(description, size)
    preencoder = _part(description, "preencoder")
    size = preencoder.output_size() if preencoder is not None else size
    encoder = _part(description, "encoder", input_size=size)
    size = encoder.output_size()
    postencoder = _part(description, "postencoder", input_size=size)
    size = postencoder.output_size() if postencoder is not None else size
    decoder = _part(description, "decoder", vocab_size=vocabulary, encoder_output_size=size)
    model = _part(
        description,
        "model",
        vocab_size=vocabulary,
        token_list=description.tokens,
        frontend=frontend,
        specaug=None,  # for training only
        normalize=normalize,
        preencoder=preencoder,
        encoder=encoder,
        postencoder=postencoder,
        decoder=decoder,
        ctc=_made(CTC, "ctc", description.arguments("ctc"), odim=vocabulary, encoder_output_size=size),
        joint_network=None,
    )
    if description.config.get("init") is not None:
        initialize(model, description.config["init"])
    return model


def _part(description: Description, kind: str, arguments: dict[str, Any] | None = None, **given: Any) -> Any:
    """A part by the name that config.yaml gives, of ESPnet's own class; None where the model has none."""
    name = description.part(kind)
    if name is None:
        return None
    module, _, class_name = PARTS[kind][name].rpartition(".")
    made = getattr(importlib.import_module(module), class_name)
    return _made(made, kind, description.arguments(kind) if arguments is None else arguments, **given)


def _made(part: Any, kind: str, arguments: dict[str, Any], **given: Any) -> Any:
    from typeguard import TypeCheckError

    known = [name for name in inspect.signature(part).parameters if name not in given]
    for name in arguments:
        if name not in known:
            raise ModelError(f"{kind}_conf: ESPnet's {part.__name__} takes no `{name}`.{nearest(name, known)}")
    try:
        return part(**given, **arguments)
    except TypeCheckError as error:  # its arguments lack the name of what was checked
        raise ModelError(f"{kind}_conf, for ESPnet's {part.__name__}: {error}") from error


def _normalize(description: Description, size: int) -> Any:
    """Global mean and spread are read from a file of the training's, which need not have come with the model.

    The saved weights hold them too; until these are loaded, neutral ones stand there.
    """
    import numpy as np

    arguments = description.arguments("normalize")
    if description.part("normalize") != "global_mvn":
        return _part(description, "normalize")
    found = description.file(str(arguments.get("stats_file", "feats_stats.npz")))
    with tempfile.TemporaryDirectory() as folder:
        if found is None:
            found = Path(folder) / "neutral.npz"
            np.savez(found, count=1, sum=np.zeros(size, np.float32), sum_square=np.ones(size, np.float32))
        return _part(description, "normalize", {**arguments, "stats_file": str(found)})


@contextmanager
def _quiet() -> Iterator[None]:
    """ESPnet prints what it could not import, and warns of what a model has on purpose."""
    logging.getLogger("espnet").setLevel(logging.ERROR)  # the search warns whenever it reaches its last step
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with redirect_stdout(io.StringIO()):
            yield
    finally:
        logging.disable(before)


def _put_weights(model: Any, file: Path) -> None:
    """All of the saved weights, into all of the model: anything else is another model than the saved one."""
    import torch

    try:
        saved = torch.load(file, map_location="cpu", weights_only=True)
    except MemoryError:
        raise
    except Exception as error:  # unpickling can raise anything
        raise ModelError(f"ESPnet's weights {file} cannot be loaded: {reason(error)}") from error
    if isinstance(saved, dict) and isinstance(saved.get("model"), dict):
        saved = saved["model"]  # checkpoint.pth
    if not isinstance(saved, dict):
        raise ModelError(f"{file} holds no weights by name, but a {type(saved).__name__}")
    own = model.state_dict()
    _refuse(file, "lack", [name for name in own if name not in saved])
    _refuse(file, "hold what config.yaml does not describe:", [name for name in saved if name not in own])
    for name, tensor in own.items():
        if saved[name].shape != tensor.shape:
            raise ModelError(
                f"The weights {file} do not fit: {name} is {list(saved[name].shape)} in them and "
                f"{list(tensor.shape)} by config.yaml; overrides of sizes need weights: random"
            )
    model.load_state_dict(saved)


def _refuse(file: Path, what: str, names: list[str]) -> None:
    if names:
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        raise ModelError(f"The weights {file} {what} {names[0]}{more}: are they those of this {FILE}?")


# -- running


def _wrap(model: Any, request: ModelRequest, description: Description, pin_steps: bool = False) -> Model:
    import torch

    search = _search(model, description, forbid_end=pin_steps)
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
        trained_by=espnet_training.trained_by(model, request.device),
    )


def _search(model: Any, description: Description, forbid_end: bool) -> Any:
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

    Unlearned weights end a hypothesis by chance, at any step: the beam would shrink, or the search stop, by luck.
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
