"""A model's name -> a recipe for it that explains itself. What the model is was found by looking; nothing is run."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from profiler.errors import UserError
from profiler.hyperyaml.allowed import is_allowed
from profiler.models.identify import Identified, identify
from profiler.models.registry import adapter_for, takes_batches
from profiler.shipped import shipped_folder
from profiler.user_path import user_path

TEXT = """# {title}: real-time factor and peak memory over a grid of lengths and batch sizes.
#
#     python profile.py {file}{trust}
#
# Written by `init`: {because}.
# `python profile.py show {file}` prints every key with its default; docs/recipe-reference.md explains them.

pretrained_model:
  source: {source}
  type: {type}   # {library}{others}
{model}
profiling_dimensions:
  audio_mockup_secs: [1, 2, 5, 10]      # seconds of audio: the rows of the tables
  batch_sizes: {batches}                # recordings in a batch: the columns
  example_audio: {audio}   # cut or repeated to each length; null: random data
  triangle_only: True                   # skip the heavy corner: long and many at once
  export_logs: False                    # True: a trace for each cell, to browse in TensorBoard
"""
WHERE_WEIGHTS = "  weights: auto   # pretrained where they are at hand, else random ones of the same architecture\n"
INPUT = "  # input: features                   # what its forward takes; waveform is the default\n"
OPTIONAL = {
    "Module": "  # overrides: {width: 256}           # arguments of the class\n"
    "  # checkpoint: weights.pt            # its state dict; without it the weights that its constructor makes\n"
    + INPUT,
    "TorchScript": INPUT,
    "AOTInductor": INPUT,
    "CTranslate2": "  # overrides: {language: en, num_beams: 5}   # without a language it is told from the audio\n",
    "AutoModelForMultimodalLM": "  # prompt: What is said?             # without it, for a transcript\n"
    "  # new_tokens: 64                    # at most\n",
    "AutoModelForSpeechSeq2Seq": "  # overrides: {num_beams: 1}          # arguments of generate; Whisper: language\n",
}


@dataclass(frozen=True)
class Written:
    """A recipe that was written."""

    path: Path
    found: Identified
    needs_trust: bool
    text: str


def describe(model: str, target: Path | None = None) -> Written:
    """The recipe for a model, not written yet; `target` is a file, a folder, or None for one named like the model."""
    found = identify(model, Path())
    path = target or Path()
    if path.is_dir():
        path = path / f"{_name(model)}.yaml"
    trust = found.type == "AOTInductor" or (found.type == "Module" and not is_allowed(found.source))
    adapter = adapter_for(found.type)
    others = f"; it could also be {', '.join(found.others)}" if found.others else ""
    local = user_path(model)
    text = TEXT.format(
        title=_name(model),
        file=path,
        trust=" --trust" if trust else "",
        because=found.because,
        source=_relative(local, path) if local.exists() else found.source,
        type=found.type,
        library=f"an interface of {adapter.LIBRARY}",
        others=others,
        model=WHERE_WEIGHTS * (not adapter.FORMAT.weights_only) + OPTIONAL.get(found.type, ""),
        batches="[1, 2, 4]" if takes_batches(found.type) else "[1]",
        audio=_relative(shipped_folder() / "samples" / "speech.flac", path),
    )
    return Written(path, found, trust, text)


def write_recipe(model: str, target: Path | None = None, force: bool = False) -> Written:
    """Raises UserError where the model cannot be told, or the file is there already with other content."""
    written = describe(model, target)
    path = written.path
    try:
        if path.exists() and not force and path.read_text(encoding="utf-8") != written.text:
            raise UserError(
                f"{path} is there already: run it (python profile.py {path}), name another file, or replace it with "
                "init --force."
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(written.text, encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"Cannot write {path}: {error}.") from None
    return written


def _name(model: str) -> str:
    """'openai/whisper-tiny' -> 'whisper-tiny'."""
    last = Path(model.rstrip("/")).name
    last = Path(last).stem if Path(model).is_file() else last.rsplit(":", 1)[-1]
    return re.sub(r"[^\w.+-]", "-", last).strip(".-") or "model"


def _relative(path: Path, recipe: Path) -> str:
    """Paths in a recipe are relative to it."""
    found = os.path.relpath(path.resolve(), recipe.resolve().parent)
    return found if found.startswith(".") else f"./{found}"
