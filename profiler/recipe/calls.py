"""Tags that call something, as plain values: {'!new:torch.nn.ReLU': {...}}.

A recipe is read without running its tags. Where a described call stands in the place of a plain value it is evaluated
once the tags have been checked; in the model's overrides it is handed on, because the model is built elsewhere.
"""

from __future__ import annotations

import json
from typing import Any

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
