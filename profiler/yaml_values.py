"""Values that are written in YAML: `key=value` on the command line, `set:` in a variant, and tags that call something.

Such a tag is a plain value here: {'!new:torch.nn.ReLU': {...}}. A recipe is read without running its tags. Where a
described call stands in the place of a plain value it is evaluated once the tags have been checked; in the model's
overrides it is handed on, because the model is built elsewhere.
"""

from __future__ import annotations

import copy
import json
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from profiler.errors import UserError

CALL_PREFIXES = ("!new:", "!name:", "!module:", "!apply:", "!applyref:", "!!python/")


def is_call(value: Any) -> bool:
    """True for a value that only describes a call."""
    return isinstance(value, dict) and len(value) == 1 and str(next(iter(value))).startswith(CALL_PREFIXES)


def to_yaml(value: Any) -> str:
    """Flow-style YAML of a value, described calls written as tags again."""
    if is_call(value):
        tag, arguments = next(iter(value.items()))
        return f"{tag} {'' if arguments is None else to_yaml(arguments)}".rstrip()
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(str(key))}: {to_yaml(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(to_yaml(inner) for inner in value) + "]"
    return json.dumps(value)


def contains_call(value: Any) -> bool:
    if is_call(value):
        return True
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(contains_call(item) for item in inner)


def evaluate(value: Any) -> Any:
    """Run the described calls in a value. Only for tags that were checked."""
    if not contains_call(value):
        return value
    from hyperpyyaml import load_hyperpyyaml

    return load_hyperpyyaml(f"value: {to_yaml(value)}\n")["value"]


def parse_override(text: str) -> tuple[str, Any]:
    """'measure.warmup=3' -> ('measure.warmup', 3)."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise UserError(f"`{text}` is not understood; an override is written key=value, such as measure.warmup=3.")
    try:
        return key.strip(), YAML(typ="safe", pure=True).load(value) if value else None
    except YAMLError as error:
        raise UserError(f"The value in `{text}` is not YAML: {str(error).splitlines()[0]}.") from None


def nest(overrides: dict[str, Any]) -> dict[str, Any]:
    """{'a.b': 1} -> {'a': {'b': 1}}."""
    tree: dict[str, Any] = {}
    for key, value in overrides.items():
        *sections, last = key.split(".")
        branch = tree
        for section in sections:
            inner = branch.setdefault(section, {})
            if not isinstance(inner, dict):
                raise UserError(f"`{key}` is set as a section and as a value; keep one.")
            branch = inner
        branch[last] = copy.deepcopy(value)  # a key below it may change it here, not in what was given
    return tree
