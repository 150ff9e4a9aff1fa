"""An ESPnetASRModel from its description, of ESPnet's own parts, and its saved weights."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import io
import logging
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from profiler.errors import ModelError, did_you_mean
from profiler.models.espnet.config import FILE, PARTS, Description
from profiler.models.reasons import explained
from profiler.models.torchaudio.on_cpu import ensure_torchaudio

# ESPnet imports librosa for one function that inference needs, the matrix of mel filters. librosa brings a compiler
# (numba) with it; torchaudio, which is installed anyway, has the same matrix. So while ESPnet is imported, a module
# with that one function takes librosa's place in this process's memory. It is taken away afterwards, so that no other
# library mistakes it for librosa. Where librosa is installed nothing is touched.
LIBROSA = "librosa"


def build(description: Description) -> Any:
    """The ESPnetASRModel, its parts put together as ESPnet's own builder does it."""
    ensure_torchaudio()
    with explained(f"ESPnet cannot build {description.folder}"), _quiet(), mel_filters():
        return _put_together(description)


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


def build_language_model(description: Description, vocabulary: int) -> Any:
    """ESPnet's language model as it is saved: an ESPnetLanguageModel, the model itself being its `lm`."""
    with explained(f"ESPnet cannot build the language model of {description.folder}"), _quiet():
        from espnet2.lm.espnet_model import ESPnetLanguageModel

        return ESPnetLanguageModel(_part(description, "lm", vocab_size=vocabulary), vocabulary)


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
            raise ModelError(f"{kind}_conf: ESPnet's {part.__name__} takes no `{name}`.{did_you_mean(name, known)}")
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


def weights_file(folder: Path) -> Path:
    """ESPnet leaves many files: the average of the best epochs is what it decodes with; else the newest."""

    def rank(file: Path) -> tuple[bool, bool, bool, float, str]:
        name = file.name  # checkpoint.pth is there to go on training
        return name != "checkpoint.pth", ".ave" in name, name == "valid.acc.ave.pth", file.stat().st_mtime, name

    files = [file for file in folder.glob("*.pth") if file.is_file()]
    if not files:
        raise ModelError(f"the folder {folder} holds no weights: the .pth files in it are links to nowhere")
    return max(files, key=rank)


def put_weights(model: Any, file: Path) -> None:
    """All of the saved weights, into all of the model: anything else is another model than the saved one."""
    import torch

    with explained(f"ESPnet's weights {file} cannot be loaded"):
        saved = torch.load(file, map_location="cpu", weights_only=True)
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


def mel(*, sr: float, n_fft: int, n_mels: int, fmin: float, fmax: float, htk: bool) -> Any:
    """As librosa.filters.mel: [n_mels, n_fft / 2 + 1], each filter of the same area."""
    import torch
    from torchaudio.functional import melscale_fbanks

    with torch.device("cpu"):  # also while a model is built on the meta device
        filters = melscale_fbanks(
            n_fft // 2 + 1, fmin, fmax, n_mels, int(sr), norm="slaney", mel_scale="htk" if htk else "slaney"
        )
    return filters.T.numpy()


@contextmanager
def mel_filters() -> Iterator[None]:
    """Within it `import librosa` works: the real one, or where there is none, the one function."""
    if LIBROSA in sys.modules or importlib.util.find_spec(LIBROSA) is not None:
        yield
        return
    stand_in = ModuleType(LIBROSA)
    stand_in.filters = SimpleNamespace(mel=mel)  # type: ignore[attr-defined]
    sys.modules[LIBROSA] = stand_in
    try:
        yield
    finally:
        del sys.modules[LIBROSA]
