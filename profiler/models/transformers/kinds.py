"""Which kinds of models the installed transformers has, and for which of its Auto classes.

Read from the library's source, not imported: a recipe is checked, and `init` finds an interface, without torch.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import json
from pathlib import Path
from typing import Any

from profiler.errors import ModelError

# Interfaces, the one that says most about a model first; `init` takes them in this order.
MAPPINGS = {
    "AutoModelForCTC": "MODEL_FOR_CTC_MAPPING_NAMES",
    "AutoModelForRNNT": "MODEL_FOR_RNNT_MAPPING_NAMES",
    "AutoModelForTDT": "MODEL_FOR_TDT_MAPPING_NAMES",
    "AutoModelForMultimodalLM": "MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES",
    "AutoModelForSpeechSeq2Seq": "MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES",
    "AutoModelForAudioClassification": "MODEL_FOR_AUDIO_CLASSIFICATION_MAPPING_NAMES",
    "AutoModelForAudioFrameClassification": "MODEL_FOR_AUDIO_FRAME_CLASSIFICATION_MAPPING_NAMES",
    "AutoModelForAudioXVector": "MODEL_FOR_AUDIO_XVECTOR_MAPPING_NAMES",
    "AutoModelForTextToWaveform": "MODEL_FOR_TEXT_TO_WAVEFORM_MAPPING_NAMES",
    "AutoModelForTextToSpectrogram": "MODEL_FOR_TEXT_TO_SPECTROGRAM_MAPPING_NAMES",
    "AutoModel": "MODEL_MAPPING_NAMES",
}


@functools.cache
def known_kinds() -> dict[str, dict[str, set[str]]]:
    """Interface -> kind of model, as config.json names it -> classes. Empty where the source is written otherwise."""
    spec = importlib.util.find_spec("transformers")
    file = Path(spec.origin or "").parent / "models" / "auto" / "modeling_auto.py" if spec else Path()
    tables: dict[str, dict[str, set[str]]] = {}
    for node in ast.parse(file.read_text(encoding="utf-8")).body if file.is_file() else ():
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and isinstance(node.value, ast.Call):
            name = node.targets[0].id
            if name.endswith("_MAPPING_NAMES") and node.value.args and isinstance(node.value.args[0], ast.List):
                tables[name] = _entries(node.value.args[0], tables)
    return {kind: tables[name] for kind, name in MAPPINGS.items() if name in tables}


def _entries(table: ast.List, tables: dict[str, dict[str, set[str]]]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for item in table.elts:
        if isinstance(item, ast.Starred):  # all of another table
            for name in ast.walk(item):
                found |= tables.get(name.id, {}) if isinstance(name, ast.Name) else {}
            continue
        kind, classes = ast.literal_eval(item)
        found[kind] = {classes} if isinstance(classes, str) else set(classes)
    return found


def read_config(folder: Path) -> dict[str, Any]:
    """config.json, or nothing where it cannot be read: the library then says what is wrong with it."""
    try:
        found = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def interfaces_of(config: dict[str, Any]) -> list[str]:
    """The interfaces that fit a config.json: first those whose class the weights were saved from, else the encoder."""
    kind, saved = config.get("model_type"), config.get("architectures")
    saved = set(saved) if isinstance(saved, list) else set()
    fitting = {name: classes[kind] for name, classes in known_kinds().items() if kind in classes}
    by_class = sorted(fitting, key=lambda name: not (fitting[name] & saved))
    # A class that is none of theirs, of pretraining for one, has no head of theirs either.
    known = any(fitting[name] & saved for name in fitting) or not saved
    return by_class if known else sorted(fitting, key=lambda name: name != "AutoModel")


def refuse_other_kinds(config: dict[str, Any], kind: str, source: str) -> None:
    """Raise ModelError where the library has no such interface for this kind of model."""
    known, own = known_kinds(), config.get("model_type")
    if not isinstance(own, str) or "auto_map" in config or own in known.get(kind, {own: set()}):
        return
    others = interfaces_of(config)
    advice = f"set type: {' or '.join(others)}" if others else "no interface of transformers for speech serves it"
    raise ModelError(f"{source} is a `{own}` by its config.json, for which transformers has no {kind}; {advice}")
