"""What a recipe points to: is the audio there, does the interface exist, does the folder hold a model?

Looks at files only; no model library is imported.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from profiler.errors import AudioError, ModelError, UserError
from profiler.hyperyaml.allowed import is_allowed, unsafe_settings
from profiler.hyperyaml.outline import Key
from profiler.models.registry import (
    check_loss,
    check_source,
    check_trainable,
    check_type,
    check_weights,
    is_there,
    takes_batches,
)
from profiler.user_path import user_path

ONE_AT_A_TIME = "the interface {} takes one recording at a time; set {}"


def check_inputs(values: dict[str, Any], base: Path, read_audio: bool, trust: bool) -> list[tuple[Key, str]]:
    """The keys whose target is not there or not usable, with a sentence each."""
    wrong: list[tuple[Key, str]] = []
    model = values.get("pretrained_model")
    if isinstance(model, dict):
        kind, source, architecture = model.get("type"), model.get("source"), model.get("architecture")
        kind = kind if isinstance(kind, str) and kind else None
        if kind:
            try:
                check_type(kind)
            except ModelError as error:
                wrong.append((("pretrained_model", "type"), str(error)))
                kind = None
        if isinstance(source, str) and kind == "Module" and not trust and not is_allowed(source):
            sentence = f"`{source}` would be imported, which runs code; if you trust this recipe, add --trust"
            wrong.append((("pretrained_model", "source"), sentence))
        if isinstance(source, str) and source and kind:
            wrong += _check_folder(("pretrained_model", "source"), source, kind, base)
        if isinstance(architecture, str) and kind:
            wrong += _check_folder(("pretrained_model", "architecture"), f"{architecture}/", kind, base)
        if kind:
            wrong += _check_use(model, values.get("profiling_dimensions"), kind)
        checkpoint = model.get("checkpoint")
        if isinstance(checkpoint, str):
            wrong += _check_there(("pretrained_model", "checkpoint"), checkpoint, base, Path.is_file, "file")
        if checkpoint and kind not in (None, "Module"):
            wrong.append((("pretrained_model", "checkpoint"), "only a class (type: Module) takes a checkpoint"))
        if kind and values.get("mode") == "training":
            wrong += _check_training(values, kind)
    wrong += [] if trust else _check_trusted(model)
    wrong += _check_dataset(values.get("dataset"), model, base)
    measure = values.get("measure")
    report = measure.get("powertop") if isinstance(measure, dict) else None
    if isinstance(report, str):  # whether it is there is said when it is read; a device or pipe would never end
        wrong += _check_there(
            ("measure", "powertop"), report, base, lambda path: path.is_file() or not path.exists(), "file"
        )
    grid = values.get("profiling_dimensions")
    audio = grid.get("example_audio") if isinstance(grid, dict) else None
    if isinstance(audio, str) and audio not in ("None", "none"):
        try:
            _check_audio(user_path(audio, base), read_audio)
        except UserError as error:
            wrong.append((("profiling_dimensions", "example_audio"), str(error)))
        except OSError as error:  # a folder that may not be entered, a name that is too long
            wrong.append((("profiling_dimensions", "example_audio"), f"cannot be read: {error.strerror}"))
    return wrong


def _check_folder(key: Key, source: str, kind: str, base: Path) -> list[tuple[Key, str]]:
    try:
        check_source(source, kind, base)
    except UserError as error:
        return [(key, str(error))]
    except OSError as error:
        return [(key, f"cannot be read: {error.strerror}")]
    return []


def _check_there(key: Key, name: str, base: Path, is_there: Callable[[Path], bool], what: str) -> list[tuple[Key, str]]:
    try:
        path = user_path(name, base)
        return [] if is_there(path) else [(key, f"there is no {what} {path}")]
    except UserError as error:
        return [(key, str(error))]
    except OSError as error:
        return [(key, f"cannot be read: {error.strerror}")]


def _check_trusted(model: Any) -> list[tuple[Key, str]]:
    """What needs the user's word: settings that let a model's own code run."""
    overrides = model.get("overrides") if isinstance(model, dict) else None
    return [(("pretrained_model", "overrides", *key), sentence) for key, sentence in unsafe_settings(overrides)]


def _check_use(model: dict[str, Any], grid: Any, kind: str) -> list[tuple[Key, str]]:
    """What an interface cannot do: be without its weights, or take several recordings at once."""
    wrong: list[tuple[Key, str]] = []
    try:
        check_weights(str(model.get("weights")), kind)
    except ModelError as error:
        wrong.append((("pretrained_model", "weights"), str(error)))
    sizes = grid.get("batch_sizes") if isinstance(grid, dict) else None
    numbers = [size for size in sizes if isinstance(size, int)] if isinstance(sizes, list) else []
    if max(numbers, default=1) > 1 and not takes_batches(kind):
        wrong.append((("profiling_dimensions", "batch_sizes"), ONE_AT_A_TIME.format(kind, "batch_sizes: [1]")))
    return wrong


def _check_training(values: dict[str, Any], kind: str) -> list[tuple[Key, str]]:
    """Can the interface be trained, with this loss, in these variants?"""
    wrong: list[tuple[Key, str]] = []
    training = values.get("training")
    settings = training if isinstance(training, dict) else {}
    loss = settings.get("loss", "auto")
    checks: tuple[tuple[Key, Callable[[], None]], ...] = (
        (("pretrained_model", "type"), lambda: check_trainable(kind)),
        (("training", "loss"), lambda: check_loss(kind, loss if isinstance(loss, str) else "auto")),
    )
    for key, check in checks:
        try:
            check()
        except ModelError as error:
            wrong.append((key, str(error)))
    if settings.get("transducer_library") == "warprnnt_numba" and not is_there("warprnnt_numba"):
        sentence = 'warprnnt_numba is not installed. Install it: pip install "speech-profiler[transducer]"'
        wrong.append((("training", "transducer_library"), sentence))
    variants = values.get("variants")
    for number, variant in enumerate(variants if isinstance(variants, list) else ()):
        given = variant if isinstance(variant, dict) else {}
        for name in ("quantize", "compile", "precision"):
            if given.get(name) not in (None, False, "float32"):
                advice = "; set training.precision: bfloat16" if name == "precision" else ""
                wrong.append((("variants", number, name), f"is for inference and does not go with training{advice}"))
    return wrong


def _check_dataset(dataset: Any, model: Any, base: Path) -> list[tuple[Key, str]]:
    """Is it there, and can its batches be processed? What is in it is read once, before a run starts."""
    if not isinstance(dataset, dict):
        return []
    wrong: list[tuple[Key, str]] = []
    source, kind = dataset.get("source"), model.get("type") if isinstance(model, dict) else None
    if isinstance(source, str) and source:
        wrong += _check_there(("dataset", "source"), source, base, Path.exists, "file or folder")
    by_length = [name for name in ("batch_seconds", "batch_frames") if dataset.get(name) is not None]
    size = dataset.get("batch_size")
    if isinstance(kind, str) and (by_length or (isinstance(size, int) and size > 1)):
        key = ("dataset", by_length[0] if by_length else "batch_size")
        with contextlib.suppress(ModelError):  # an unknown interface is said above
            wrong += [] if takes_batches(kind) else [(key, ONE_AT_A_TIME.format(kind, "batch_size: 1"))]
    return wrong


def _check_audio(path: Path, read: bool) -> None:
    if read:
        from profiler.audio import check_audio

        check_audio(path)
    elif path.is_dir():
        raise AudioError(f"{path} is a folder; name one audio file")
    elif not path.is_file():
        raise AudioError(f"there is no audio file {path}")
