"""A language model beside ESPnet's ASR model: description + `lm_weight` -> a part of the model.

ESPnet trains it apart, in a folder of its own, and its search adds its scores with the weight `lm_weight`. Where that
is 0 there is no language model: nothing is built, counted or run. It is described by `lm` and `lm_conf`, or by the
config.yaml of its own training (`lm_train_config`); what ESPnet packs for the hub names that in meta.yaml.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from profiler.errors import ModelError
from profiler.models.espnet.build import build_language_model, put_weights, weights_file
from profiler.models.espnet.config import FILE, Description, read_config

PACKED = "meta.yaml"  # of a model that ESPnet packed for the hub
LEVELS = 3  # folders above config.yaml in which it is looked for


@dataclass(frozen=True)
class LanguageModel:
    """Of what, and with which weights; None: untrained ones."""

    description: Description
    weights: Path | None


def add_language_model(model: Any, description: Description, pretrained: bool) -> list[str]:
    """Make it a part of the model, `lm`, where the search is to use one; gives notes."""
    if not description.search["lm_weight"]:
        return []
    found = _find(description, pretrained)
    made = build_language_model(found.description, len(description.tokens))
    if found.weights is not None:
        put_weights(made, found.weights)
    model.add_module("lm", made.lm)
    weight = f"Its language model ({type(made.lm).__name__}) is in the search with the weight {_weight(description):g}"
    return [f"{weight}; its weights are those of {found.weights.name}." if found.weights else f"{weight}."]


def _weight(description: Description) -> float:
    return description.search["lm_weight"]


def _find(description: Description, pretrained: bool) -> LanguageModel:
    packed = _packed(description.folder)
    own = description.config.get("lm_train_config") or packed.get("lm_train_config")
    if own is None:
        return _described(description, pretrained)
    path = _file(description.folder, str(own))
    if path is None or path == description.folder / FILE:
        raise ModelError(f"the language model's description is not there: lm_train_config is {own}")
    config = read_config(path)
    config["lm"] = config.get("lm", "seq_rnn")  # what ESPnet takes where none is named
    found = Description(path.parent, config, description.search, description.tokens)
    _check_vocabulary(found, len(description.tokens), path)
    if not pretrained:
        return LanguageModel(found, None)
    file = description.config.get("lm_file") or packed.get("lm_file")
    weights = weights_file(path.parent) if file is None else _file(path.parent, str(file))
    if weights is None:
        raise ModelError(f"the language model's weights are not there: lm_file is {file}")
    return LanguageModel(found, weights)


def _file(folder: Path, name: str) -> Path | None:
    """Relative to the folder, or to one above it, from where training was started. Never by its last part alone: the
    ASR model's own description has the same name."""
    return next((place / name for place in (folder, *folder.parents) if (place / name).is_file()), None)


def _described(description: Description, pretrained: bool) -> LanguageModel:
    """By keys of the ASR model's own config.yaml, which come without weights."""
    path = description.folder / FILE
    wanted = f"pretrained_model.overrides: lm_weight is {_weight(description):g}"
    if pretrained:
        raise ModelError(
            f"{wanted}, and nothing says where the trained language model is: set lm_train_config to the "
            "config.yaml of its training"
        )
    if description.part("lm") is None:
        raise ModelError(
            f"{wanted}, and {path} describes no language model: set lm (seq_rnn or transformer) and lm_conf, or "
            "lm_train_config"
        )
    return LanguageModel(description, None)


def _check_vocabulary(found: Description, size: int, path: Path) -> None:
    """ESPnet adds scores token by token, so both must have the same tokens."""
    tokens = found.config.get("token_list")
    if isinstance(tokens, list) and len(tokens) != size:
        raise ModelError(
            f"the language model {path} has {len(tokens)} tokens and the ASR model {size}: the search needs "
            "the same ones"
        )


def _packed(folder: Path) -> dict[str, Any]:
    """What meta.yaml says of the language model; empty where there is none."""
    for place in [folder, *folder.parents][:LEVELS]:
        if (place / PACKED).is_file():
            meta = read_config(place / PACKED)
            parts = [meta.get(key) for key in ("yaml_files", "files")]
            return {name: value for part in parts if isinstance(part, dict) for name, value in part.items()}
    return {}
