"""Adapter for torchaudio's bundles: its wav2vec 2.0, HuBERT and WavLM models and its RNN transducer, by name.

    pretrained_model: {source: torchaudio:WAV2VEC2_ASR_BASE_960H, type: Bundle}

The timed region is what torchaudio's documentation does with a bundle: waveforms to hidden states, or to text by greedy
CTC decoding with the bundle's own labels. Transducers are in transducer.py.

A bundle's weights come from torchaudio's own host into torch's folder for downloads (TORCH_HOME). What lies there is
used; what does not is downloaded where the host answers soon; else the model is built with random weights. torchaudio
itself is imported in a worker.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from profiler.errors import ModelError, did_you_mean
from profiler.models.formats import Format, Found, answers
from profiler.models.model import Model, ModelRequest, lengths_where_padded, refuse_unknown
from profiler.models.reasons import explained, reason
from profiler.models.torchaudio.on_cpu import ensure_torchaudio
from profiler.training import tasks

if TYPE_CHECKING:
    from profiler.audio import Batch
    from profiler.recipe.schema import Training


PREFIX = "torchaudio:"
HOST = "https://download.pytorch.org/torchaudio"
STREAMING = "RNNTStreaming"

# Class of a bundle -> the names that torchaudio.pipelines has of it.
_NAMES = {
    "Wav2Vec2Bundle": """
        HUBERT_BASE HUBERT_LARGE HUBERT_XLARGE
        WAV2VEC2_BASE WAV2VEC2_LARGE WAV2VEC2_LARGE_LV60K
        WAV2VEC2_XLSR53 WAV2VEC2_XLSR_1B WAV2VEC2_XLSR_2B WAV2VEC2_XLSR_300M
        WAVLM_BASE WAVLM_BASE_PLUS WAVLM_LARGE
    """,
    "Wav2Vec2ASRBundle": """
        HUBERT_ASR_LARGE HUBERT_ASR_XLARGE MMS_FA
        VOXPOPULI_ASR_BASE_10K_DE VOXPOPULI_ASR_BASE_10K_EN VOXPOPULI_ASR_BASE_10K_ES VOXPOPULI_ASR_BASE_10K_FR
        VOXPOPULI_ASR_BASE_10K_IT
        WAV2VEC2_ASR_BASE_100H WAV2VEC2_ASR_BASE_10M WAV2VEC2_ASR_BASE_960H
        WAV2VEC2_ASR_LARGE_100H WAV2VEC2_ASR_LARGE_10M WAV2VEC2_ASR_LARGE_960H
        WAV2VEC2_ASR_LARGE_LV60K_100H WAV2VEC2_ASR_LARGE_LV60K_10M WAV2VEC2_ASR_LARGE_LV60K_960H
    """,
    "RNNTBundle": "EMFORMER_RNNT_BASE_LIBRISPEECH",
}
BUNDLES = {kind: names.split() for kind, names in _NAMES.items()}
CLASS_OF = {name: kind for kind, names in BUNDLES.items() for name in names}
# Interface -> the class of bundle that it takes; Bundle takes any.
INTERFACES = {"Bundle": None, **{kind: kind for kind in BUNDLES}, STREAMING: "RNNTBundle"}


class BundleFormat(Format):
    """A bundle's name behind `torchaudio:`."""

    def check(self, source: str, kind: str, base: Path) -> None:
        if not source.startswith(PREFIX):
            raise ModelError(
                f"'{source}' is no bundle: write {PREFIX} and its name in torchaudio.pipelines, "
                f"such as {PREFIX}WAV2VEC2_ASR_BASE_960H"
            )
        name = bundle_name(source)
        if name not in CLASS_OF:
            known = did_you_mean(name, list(CLASS_OF))
            raise ModelError(f"torchaudio has no bundle `{name}` that is served here.{known}")
        wanted = INTERFACES[kind]
        if wanted is not None and CLASS_OF[name] != wanted:
            raise ModelError(
                f"{name} is a {CLASS_OF[name]}, which the interface {kind} does not take; set type: {CLASS_OF[name]}"
            )

    def find(self, request: ModelRequest) -> Found:
        ensure_torchaudio()
        missing = [(url, file) for url, file in files_of(the_bundle(request.source)) if not file.is_file()]
        hosts = {urlsplit(url)._replace(path="").geturl() for url, _ in missing}
        if all(answers(host) for host in sorted(hosts)):
            return Found(request.source)
        url, file = missing[0]
        reason = f"{file.name} is not in the local cache and {urlsplit(url).hostname} cannot be reached"
        if request.weights == "pretrained":
            raise ModelError(
                f"No pretrained weights of {request.source}: {reason}. Download {url} on a machine with network and "
                f"put it at {file} (TORCH_HOME moves that folder)."
            )
        return Found(None, reason)


LIBRARY = "torchaudio"
FORMAT = BundleFormat()
ONE_AT_A_TIME = (STREAMING,)  # interfaces that take no batches
TRAINS = {
    "Bundle": ("ctc", "transducer"),
    "Wav2Vec2Bundle": ("ctc",),
    "Wav2Vec2ASRBundle": ("ctc",),
    "RNNTBundle": ("transducer",),
}

BLANK, SPACE = 0, "|"  # of all its CTC bundles
NO_LENGTHS = "torchaudio's WavLM takes no lengths: where rows of a batch differ, their padding is processed as silence."


def load_pretrained(request: ModelRequest, source: str) -> Model:
    return _load(request, pretrained=True)


def build_random(request: ModelRequest, folder: Path | None) -> Model:
    return _load(request, pretrained=False)


def _load(request: ModelRequest, pretrained: bool) -> Model:
    ensure_torchaudio()
    with explained(f"torchaudio cannot {'load' if pretrained else 'build'} {request.source}", _reason):
        if CLASS_OF[bundle_name(request.source)] == "RNNTBundle":
            from profiler.models.torchaudio import transducer

            return transducer.load(request, pretrained)
        bundle = the_bundle(request.source)
        refuse_unknown(request.overrides, bundle._params, request.source)
        bundle = dataclasses.replace(bundle, _params={**bundle._params, **request.overrides})
        return _wrap(_network(bundle, pretrained), bundle, request)


def _reason(error: Exception) -> str:
    if "size mismatch" in str(error) or "in state_dict" in str(error):
        return "the saved weights have other sizes than its parameters; overrides of sizes need weights: random"
    return reason(error)


def _network(bundle: Any, pretrained: bool) -> Any:
    """The bundle's model; without weights it is put together as `get_model` does it."""
    from torchaudio.pipelines import Wav2Vec2FABundle
    from torchaudio.pipelines._wav2vec2 import utils

    aligner = isinstance(bundle, Wav2Vec2FABundle)
    if pretrained:
        # Its extra token for unknown words is for alignment, and does not work in batches.
        more = {"with_star": False} if aligner else {}
        return bundle.get_model(dl_kwargs={"progress": False}, **more)
    model = utils._get_model(bundle._model_type, bundle._params)
    if bundle._normalize_waveform or aligner:
        model = utils._extend_model(model, bundle._normalize_waveform, apply_log_softmax=aligner)
    return model


def _wrap(module: Any, bundle: Any, request: ModelRequest) -> Model:
    import torch
    from torchaudio.pipelines import Wav2Vec2FABundle

    module.to(request.device)
    takes_lengths = bundle._model_type != "WavLM"
    notes = [] if takes_lengths else [NO_LENGTHS]

    def prepare(batch: Batch) -> tuple[Any, Any]:
        waveforms, lengths = lengths_where_padded(batch)
        return waveforms, lengths if takes_lengths else None

    def encode(value: tuple[Any, Any]) -> tuple[Any, Any]:
        waveforms, lengths = value
        found = module(waveforms.to(request.device), None if lengths is None else lengths.to(request.device))
        return found[0], found[1]

    def ctc(settings: Training) -> tasks.Task:
        def frames(value: tuple[Any, Any]) -> tuple[Any, Any]:
            values, lengths = encode(value)
            return values, torch.full((len(values),), values.shape[1]) if lengths is None else lengths.cpu()

        if bundle._params.get("aux_num_out"):
            return tasks.ctc(frames, bundle._params["aux_num_out"], BLANK)
        return tasks.ctc_with_head(frames, bundle._params["encoder_embed_dim"], settings, request.device)

    inner = getattr(module, "model", module)
    parts = {name: part for name, part in inner.named_children() if part is not None}
    rate = int(bundle.sample_rate)
    if not hasattr(bundle, "get_labels"):
        hidden = Model(module, prepare, lambda value: encode(value)[0], "hidden states", rate, parts, notes)
        hidden.trained_by = {"ctc": ctc}
        return hidden
    labels = bundle.get_labels(star=None) if isinstance(bundle, Wav2Vec2FABundle) else bundle.get_labels()
    if bundle._params["aux_num_out"] != len(labels):
        raise ModelError(f"{request.source} has {len(labels)} labels, so its aux_num_out cannot be overridden.")

    def recognise(value: tuple[Any, Any]) -> list[str]:
        emissions, lengths = encode(value)
        best = emissions.argmax(dim=-1).cpu()
        ends = [best.shape[1]] * len(best) if lengths is None else lengths.tolist()
        return [greedy_text(row[:end], labels) for row, end in zip(best, ends, strict=True)]

    return Model(module, prepare, recognise, "text", rate, parts, notes, trained_by={"ctc": ctc})


def greedy_text(best: Any, labels: tuple[str, ...]) -> str:
    """The best label of each frame as text: repetitions are one, blanks fall out."""
    letters = [labels[number] for number in best.unique_consecutive().tolist() if number != BLANK]
    return "".join(letters).replace(SPACE, " ").strip()


def bundle_name(source: str) -> str:
    return source.removeprefix(PREFIX)


def the_bundle(source: str) -> Any:
    import torchaudio

    return getattr(torchaudio.pipelines, bundle_name(source))


def files_of(bundle: Any) -> list[tuple[str, Path]]:
    """What a bundle downloads, and where torchaudio puts it. Nothing is made on disk."""
    import torch

    folder = Path(torch.hub.get_dir())
    if hasattr(bundle, "_rnnt_path"):
        keys = (bundle._rnnt_path, bundle._global_stats_path, bundle._sp_model_path)
        return [(f"{HOST}/{key}", folder / "torchaudio" / key) for key in keys]
    url = bundle._path if bundle._path.startswith("https") else f"{HOST}/models/{bundle._path}"
    return [(url, folder / "checkpoints" / url.rsplit("/", 1)[-1])]
