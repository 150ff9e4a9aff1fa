"""`key=value` on the command line and `set:` in a variant: dotted keys, values typed as YAML."""

from __future__ import annotations

import copy
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from profiler.errors import UserError


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
