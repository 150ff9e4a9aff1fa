"""torchaudio's bundles by name: which there are, and where their files are. torchaudio itself is imported in a worker.

A bundle's weights come from torchaudio's own host into torch's folder for downloads (TORCH_HOME). What lies there is
used; what does not is downloaded where the host answers soon; else the model is built with random weights.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from profiler.errors import ModelError, did_you_mean
from profiler.models import hub
from profiler.models.formats import Found
from profiler.models.model import ModelRequest
from profiler.models.torchaudio.on_cpu import ensure_torchaudio

PREFIX = "torchaudio:"
HOST = "https://download.pytorch.org/torchaudio"
STREAMING = "RNNTStreaming"

# Class of a bundle -> the names that torchaudio.pipelines has of it.
BUNDLES = {
    "Wav2Vec2Bundle": (
        "HUBERT_BASE",
        "HUBERT_LARGE",
        "HUBERT_XLARGE",
        "WAV2VEC2_BASE",
        "WAV2VEC2_LARGE",
        "WAV2VEC2_LARGE_LV60K",
        "WAV2VEC2_XLSR53",
        "WAV2VEC2_XLSR_1B",
        "WAV2VEC2_XLSR_2B",
        "WAV2VEC2_XLSR_300M",
        "WAVLM_BASE",
        "WAVLM_BASE_PLUS",
        "WAVLM_LARGE",
    ),
    "Wav2Vec2ASRBundle": (
        "HUBERT_ASR_LARGE",
        "HUBERT_ASR_XLARGE",
        "MMS_FA",
        "VOXPOPULI_ASR_BASE_10K_DE",
        "VOXPOPULI_ASR_BASE_10K_EN",
        "VOXPOPULI_ASR_BASE_10K_ES",
        "VOXPOPULI_ASR_BASE_10K_FR",
        "VOXPOPULI_ASR_BASE_10K_IT",
        "WAV2VEC2_ASR_BASE_100H",
        "WAV2VEC2_ASR_BASE_10M",
        "WAV2VEC2_ASR_BASE_960H",
        "WAV2VEC2_ASR_LARGE_100H",
        "WAV2VEC2_ASR_LARGE_10M",
        "WAV2VEC2_ASR_LARGE_960H",
        "WAV2VEC2_ASR_LARGE_LV60K_100H",
        "WAV2VEC2_ASR_LARGE_LV60K_10M",
        "WAV2VEC2_ASR_LARGE_LV60K_960H",
    ),
    "RNNTBundle": ("EMFORMER_RNNT_BASE_LIBRISPEECH",),
}
CLASS_OF = {name: kind for kind, names in BUNDLES.items() for name in names}
# Interface -> the class of bundle that it takes; Bundle takes any.
INTERFACES = {"Bundle": None, **{kind: kind for kind in BUNDLES}, STREAMING: "RNNTBundle"}


class BundleFormat:
    """A bundle's name behind `torchaudio:`."""

    weights_only = False

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
        if not missing or all(hub.answers(host) for host in sorted({_host(url) for url, _ in missing})):
            return Found(request.source)
        url, file = missing[0]
        reason = f"{file.name} is not in the local cache and {urlsplit(url).hostname} cannot be reached"
        if request.weights == "pretrained":
            raise ModelError(
                f"No pretrained weights of {request.source}: {reason}. Download {url} on a machine with network and "
                f"put it at {file} (TORCH_HOME moves that folder)."
            )
        return Found(None, reason)

    def description(self, request: ModelRequest, reason: str) -> Path | None:
        return None


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


def _host(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
