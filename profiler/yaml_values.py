"""Values typed as YAML on the command line: `key=value`."""

from __future__ import annotations

import copy
from typing import Any

from ruamel.yaml import YAML

from profiler.errors import UserError
from profiler.hyperyaml.outline import refuse_depth

LONGEST = 200  # characters of a value that are shown


def parse_override(text: str) -> tuple[str, Any]:
    """'measure.warmup=3' -> ('measure.warmup', 3)."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise UserError(f"`{text}` is not understood; an override is written key=value, such as measure.warmup=3.")
    try:
        refuse_depth(value)
        return key.strip(), YAML(typ="safe", pure=True).load(value) if value else None
    except Exception as error:  # a tag such as `!!int abc` has an error of its own
        shown = text if len(text) < LONGEST else f"{text[:LONGEST]}..."
        reason = (str(error).splitlines() or ["it cannot be read"])[0]
        raise UserError(f"The value in `{shown}` is not YAML: {reason}.") from None


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
