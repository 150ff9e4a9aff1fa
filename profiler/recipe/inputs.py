"""What a recipe points to: is the audio there, does the interface exist, does the folder hold a model?

Looks at files only; no model library is imported.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from profiler.errors import AudioError, ModelError
from profiler.models.registry import check_source, check_type
from profiler.recipe.lines import Key
from profiler.recipe.tags import is_served


def check_inputs(values: dict[str, Any], base: Path, read_audio: bool, trust: bool) -> list[tuple[Key, str]]:
    """The keys whose target is not there or not usable, with a sentence each."""
    wrong: list[tuple[Key, str]] = []
    model = values.get("pretrained_model")
    if isinstance(model, dict):
        kind, source, architecture = model.get("type"), model.get("source"), model.get("architecture")
        if isinstance(kind, str) and kind:
            try:
                check_type(kind)
            except ModelError as error:
                wrong.append((("pretrained_model", "type"), str(error)))
                kind = None
        if isinstance(source, str) and kind == "Module" and not trust and not is_served(source):
            sentence = f"`{source}` would be imported, which runs code; if you trust this recipe, add --trust"
            wrong.append((("pretrained_model", "source"), sentence))
        if isinstance(source, str) and source:
            wrong += _check_folder(("pretrained_model", "source"), source, kind, base)
        if isinstance(architecture, str):
            wrong += _check_folder(("pretrained_model", "architecture"), f"{architecture}/", kind, base)
    grid = values.get("profiling_dimensions")
    audio = grid.get("example_audio") if isinstance(grid, dict) else None
    if isinstance(audio, str) and audio not in ("None", "none"):
        try:
            _check_audio(base / Path(audio).expanduser(), read_audio)
        except AudioError as error:
            wrong.append((("profiling_dimensions", "example_audio"), str(error)))
        except OSError as error:  # a folder that may not be entered, a name that is too long
            wrong.append((("profiling_dimensions", "example_audio"), f"cannot be read: {error.strerror}"))
    return wrong


def _check_folder(key: Key, source: str, kind: Any, base: Path) -> list[tuple[Key, str]]:
    try:
        check_source(source, kind if isinstance(kind, str) else None, base)
    except ModelError as error:
        return [(key, str(error))]
    except OSError as error:
        return [(key, f"cannot be read: {error.strerror}")]
    return []


def _check_audio(path: Path, read: bool) -> None:
    if read:
        from profiler.audio import check_audio

        check_audio(path)
    elif path.is_dir():
        raise AudioError(f"{path} is a folder; name one audio file")
    elif not path.is_file():
        raise AudioError(f"there is no audio file {path}")
