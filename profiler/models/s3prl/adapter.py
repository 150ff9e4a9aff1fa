"""Adapter for s3prl's masked encoders, Mockingjay and TERA: on a local s3prl checkpoint, or by their description.

    pretrained_model: {source: states-500000.ckpt, type: Mockingjay}

A checkpoint is a torch file with `Transformer` (the weights) and, under `Config` or `Upstream_Config`, the sections
`transformer`, `task` and `audio`. A folder with the same sections in config_model.yaml, as s3prl trains from, describes
a model without weights. Files are read as weights only: nothing that a checkpoint holds is run.
"""

from __future__ import annotations

import argparse
import pickle
import zipfile
from dataclasses import MISSING, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profiler.errors import ModelError, did_you_mean
from profiler.hyperyaml.read import read_text
from profiler.models.features.adapter import checked
from profiler.models.formats import HUB_ID, Format, Found, looks_like_a_path
from profiler.models.model import Model, ModelRequest, lengths_where_padded, refuse_unknown
from profiler.models.reasons import explained, reason
from profiler.training.tasks import Task, ctc_with_head, frames_by_share
from profiler.user_path import user_path

if TYPE_CHECKING:
    from profiler.models.s3prl.masked_encoder import MaskedEncoderSizes
    from profiler.recipe.schema import Training

LIBRARY = "s3prl"
TRAINS = {"Mockingjay": ("ctc",), "TERA": ("ctc",)}
DESCRIPTION_FILE = "config_model.yaml"
RATE = 16000
SUFFIXES = (".ckpt", ".pt", ".pth")
BEGINNINGS = (b"PK", b"\x80")  # of a torch file: a zip archive, or in old ones a pickle
# Classes of training schedules that old checkpoints mention; they are not needed, and stand-ins take their place.
LEFT_OUT = ("optimizers.", "s3prl.")
HOW_TO_GET = (
    "Set pretrained_model.source to a checkpoint file of s3prl on this machine (states-500000.ckpt of its Mockingjay, "
    "states-1000000.ckpt of its TERA)"
)
REBUILT = (
    "Rebuilt from torch's layers after s3prl's description: attention and normalisation are torch's own kernels, and "
    "only those features are computed that the encoder takes, so s3prl's own code may be slower."
)


class Checkpoint(Format):
    """A local file with description and weights, or a name that a folder describes."""

    def check(self, source: str, kind: str, base: Path) -> None:
        path = user_path(source, base)
        if path.is_dir():
            if not (path / DESCRIPTION_FILE).is_file():
                raise ModelError(
                    f"the folder {path} describes no {kind}: expected {DESCRIPTION_FILE} in it; for pretrained "
                    "weights name the checkpoint file itself"
                )
        elif path.is_file():
            with path.open("rb") as file:
                if not file.read(2).startswith(BEGINNINGS):
                    raise ModelError(f"{path} is not a torch file; the interface {kind} takes a checkpoint of s3prl")
        elif source.endswith("/"):
            raise ModelError(f"there is no folder {path}")
        elif looks_like_a_path(source) or source.endswith(SUFFIXES):
            raise ModelError(f"there is no file {path}; the interface {kind} takes a checkpoint of s3prl")
        elif not HUB_ID.match(source):
            raise ModelError(f"'{source}' is neither a checkpoint file nor a name such as s3prl/mockingjay")

    def find(self, request: ModelRequest) -> Found:
        if request.file is not None:
            return Found(str(request.file))
        if request.weights == "pretrained":
            raise ModelError(f"No pretrained weights of {request.source}: it is not a file. {HOW_TO_GET}.")
        return Found(None, "not a checkpoint file (with one as pretrained_model.source its weights are used)")

    def description(self, request: ModelRequest, reason: str) -> Path | None:
        if request.file is not None:  # describes itself
            return None
        folder = request.architecture or request.folder
        if folder is None or not (folder / DESCRIPTION_FILE).is_file():
            raise ModelError(
                f"{request.source} is neither a checkpoint file nor a described model. {HOW_TO_GET}, or "
                f"pretrained_model.architecture to a folder with s3prl's {DESCRIPTION_FILE}."
            )
        return folder


INTERFACES = ("Mockingjay", "TERA")
FORMAT = Checkpoint()


def load_pretrained(request: ModelRequest, source: str) -> Model:
    saved = _read(Path(source))
    module = _build(_config(saved, source), request, source)
    state = saved.get("Transformer")
    if not isinstance(state, dict) or not all(hasattr(value, "shape") for value in state.values()):
        raise ModelError(f"{source} holds no weights under `Transformer`")
    # Old checkpoints have other names for some.
    state = {name.replace("gamma", "weight").replace("beta", "bias"): value for name, value in state.items()}
    wanted = {name: tuple(value.shape) for name, value in module.transformer.state_dict().items()}
    given = {name: tuple(value.shape) for name, value in state.items()}
    if wanted != given:
        name = next(name for name in (*wanted, *given) if wanted.get(name) != given.get(name))
        raise ModelError(
            f"The weights of {source} do not fit the described model: `{name}` is {given.get(name, 'missing')} in the "
            f"file and {wanted.get(name, 'unknown')} in the model. Overrides of sizes need weights: random."
        )
    module.transformer.load_state_dict(state)
    return _wrap(module, request)


def build_random(request: ModelRequest, folder: Path | None) -> Model:
    if folder is None:
        assert request.file is not None
        source = str(request.file)
        return _wrap(_build(_config(_read(request.file), source), request, source), request)
    from ruamel.yaml import YAML

    path = folder / DESCRIPTION_FILE
    with explained(f"{path} cannot be read as YAML", lambda error: getattr(error, "problem", None) or reason(error)):
        described = YAML(typ="safe", pure=True).load(read_text(path))
    return _wrap(_build(_config({"Config": described}, str(path)), request, str(path)), request)


def _wrap(module: Any, request: ModelRequest) -> Model:
    module.to(request.device)

    def run(value: tuple[Any, Any]) -> Any:
        waveforms, lengths = value
        return module(waveforms.to(request.device), lengths)

    notes = [REBUILT]
    if module.sequence_length:
        notes.append(
            f"As s3prl does, audio of more than {module.sequence_length} frames (100 a second) is cut in equal pieces "
            "that are encoded one after another."
        )
    parts = dict(module.transformer.named_children())
    model = Model(module, lengths_where_padded, run, "hidden states", RATE, parts, notes)
    model.trained_by = {"ctc": lambda settings: _ctc(module, run, settings, request.device)}
    return model


def _ctc(module: Any, run: Any, settings: Training, device: str) -> Task:
    def encode(value: tuple[Any, Any]) -> tuple[Any, Any]:
        waveforms, lengths = value
        states, samples = run(value), waveforms.shape[1]
        lengths = [samples] * len(states) if lengths is None else lengths
        return states, frames_by_share(lengths, samples, states.shape[1])

    width = module.transformer.input_representations.spec_transform.out_features
    task = ctc_with_head(encode, width, settings, device)
    task.notes.append(REBUILT)
    return task


# -- checkpoint and description


def _read(path: Path) -> dict[str, Any]:
    """What a checkpoint holds, as plain values and tensors."""
    import torch

    try:
        with torch.serialization.safe_globals([argparse.Namespace, *_stand_ins(path)]):
            # A mapped file is read where it is needed: the optimiser's state, twice the weights, is not.
            saved = torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
    except MemoryError:
        raise
    except pickle.UnpicklingError as error:
        raise ModelError(
            f"{path} cannot be loaded: it is damaged, or holds more than weights and settings, which would run code. "
            "If you trust it, save its entries Transformer and Config (or Upstream_Config) alone with torch.save."
        ) from error
    except Exception as error:  # every kind of damage has an error of its own
        raise ModelError(f"{path} cannot be read as a torch file: it is damaged or not complete") from error
    if not isinstance(saved, dict):
        raise ModelError(f"{path} is no checkpoint of s3prl: it holds a {type(saved).__name__}, not named entries")
    return saved


def _stand_ins(path: Path) -> list[tuple[type, str]]:
    """Empty classes for those that a checkpoint only mentions; nothing is imported for them."""
    import torch

    if not zipfile.is_zipfile(path):
        return []
    names = torch.serialization.get_unsafe_globals_in_checkpoint(path)
    return [(type("LeftOut", (), {}), name) for name in names if name.startswith(LEFT_OUT)]


def _config(saved: dict[str, Any], source: str) -> dict[str, dict[str, Any]]:
    """The sections transformer, task and audio."""
    for name in ("Config", "Upstream_Config"):
        found = saved.get(name)
        if isinstance(found, dict) and isinstance(found.get("transformer"), dict):
            sections = {key: found.get(key) for key in ("transformer", "task", "audio")}
            for key, section in sections.items():
                if not isinstance(section, dict):
                    raise ModelError(f"{source} has no section `{key}`, which s3prl's models on waveforms have")
            return {key: dict(section or {}) for key, section in sections.items()}
    raise ModelError(
        f"{source} is no checkpoint or description of s3prl's Mockingjay or TERA: it has no section `transformer`"
    )


def _build(config: dict[str, dict[str, Any]], request: ModelRequest, source: str) -> Any:
    from profiler.models.s3prl.masked_encoder import MaskedEncoder

    with explained(f"{source} does not describe a model that can be built"):
        sizes = _sizes(config, request.overrides, source)
        return MaskedEncoder(_features(config["audio"], sizes.input_dim, source), sizes)


def _sizes(config: dict[str, dict[str, Any]], overrides: dict[str, Any], source: str) -> MaskedEncoderSizes:
    """The description, with the recipe's overrides."""
    from profiler.models.s3prl.masked_encoder import ACTIVATIONS, MaskedEncoderSizes

    transformer, task = config["transformer"], config["task"]
    for name in ("pre_layer_norm", "share_layer"):
        if transformer.get(name):
            raise ModelError(f"{source}: {name} is not served here; Mockingjay and TERA are trained without it")
    known = {field.name: field.type for field in fields(MaskedEncoderSizes)}
    refuse_unknown(overrides, sorted(known), source)
    given = {name: value for name, value in transformer.items() if name in known}
    given |= {"sequence_length": task.get("sequence_length", 0), "input_dim": _input_dim(config["audio"]), **overrides}
    for field in fields(MaskedEncoderSizes):
        if field.default is MISSING and field.name not in given:
            raise ModelError(f"{source} does not say the model's {field.name}")
    for name, value in given.items():
        given[name] = _checked(name, value, str(known[name]))
    sizes = MaskedEncoderSizes(**given)
    if sizes.hidden_size % sizes.num_attention_heads:
        raise ModelError(
            f"hidden_size {sizes.hidden_size} cannot be divided among num_attention_heads {sizes.num_attention_heads}"
        )
    if sizes.hidden_act not in ACTIVATIONS:
        hint = did_you_mean(sizes.hidden_act, sorted(ACTIVATIONS))
        raise ModelError(f"hidden_act: unknown `{sizes.hidden_act}`.{hint}")
    return sizes


def _checked(name: str, value: Any, kind: str) -> Any:
    least = 0 if name == "sequence_length" else 1
    if kind == "int" and (not isinstance(value, int) or isinstance(value, bool) or value < least):
        raise ModelError(f"{name}: expected a whole number from {least}, not {value!r}")
    if kind == "float":
        try:
            return float(value)  # YAML reads 1.e-12 as a word
        except (TypeError, ValueError):
            raise ModelError(f"{name}: expected a number, not {value!r}") from None
    return str(value) if kind == "str" else value


# -- features


def _input_dim(audio: dict[str, Any]) -> int:
    if "kaldi" in audio:
        return int(audio["kaldi"]["fbank"].get("num_mel_bins", 23)) * (1 + int(audio.get("delta", {}).get("order", 2)))
    return int(audio.get("n_mels", 40)) * (1 + int(audio["input"].get("delta", 0)))


def _features(audio: dict[str, Any], width: int, source: str) -> Any:
    """The front end that the model was trained with, `width` values a frame."""
    from profiler.models.features.filterbank import Filterbank
    from profiler.models.s3prl.masked_encoder import OnlineMel

    kaldi = audio.get("kaldi")
    kind = (kaldi or audio["input"]).get("feat_type")
    if kind != ("fbank" if kaldi else "mel") or (not kaldi and not audio["input"].get("log")):
        raise ModelError(f"{source}: features `{kind}` are not served here; log-mel and Kaldi's fbank are")
    deltas = int(audio.get("delta", {}).get("order", 2) if kaldi else audio["input"].get("delta", 0))
    if width % (1 + deltas):
        raise ModelError(f"input_dim {width} is not a multiple of {1 + deltas}, the values with their deltas")
    mels = width // (1 + deltas)
    if not kaldi:
        return OnlineMel(
            mels,
            target_level=float(audio["target_level"]),
            n_freq=int(audio.get("n_freq", 201)),
            window_ms=float(audio.get("win_ms", 25)),
            shift_ms=float(audio.get("hop_ms", 10)),
            deltas=deltas,
            normalize=bool(audio["input"].get("cmvn")),
            rate=RATE,
        )
    fbank = dict(kaldi["fbank"])
    settings = {
        "mels": mels,
        "window_ms": fbank.pop("frame_length", 25.0),
        "shift_ms": fbank.pop("frame_shift", 10.0),
        "deltas": deltas,
        "normalize": bool(audio["cmvn"]["use_cmvn"]),
    }
    unserved = set(fbank) - {"num_mel_bins"} - ({"use_log_fbank"} if fbank.get("use_log_fbank") else set())
    if unserved or audio.get("delta", {}).get("win_length", 5) != 5:
        raise ModelError(f"{source}: its filterbank has settings that are not served here: {', '.join(unserved)}")
    return Filterbank(**checked(settings), rate=RATE)
