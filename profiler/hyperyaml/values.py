"""What stands in a YAML tree beside plain values: a described call, a reference, an included file.

Each is a type of its own, so that no plain value, whatever its keys look like, can stand for one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

NEW, NAME, MODULE, APPLY, APPLYREF, ATTRIBUTE = "!new:", "!name:", "!module:", "!apply:", "!applyref:", "."
PYTHON = "!!python/"
PLACEHOLDER = "!PLACEHOLDER"
CALLING = (NEW, NAME, MODULE, APPLY, APPLYREF)  # HyperPyYAML's
MOST = 1_000_000  # characters of a tree with all its references; a recipe has a few thousand
NODE = 10  # characters that a value counts for beside its text


class TooLarge(ValueError):
    """References, copies or aliases that stand for too much."""

    def __init__(self) -> None:
        super().__init__(f"it would be more than {MOST:,} characters once all is written out")


@dataclass(frozen=True)
class Call:
    """`!new:torch.nn.Linear {...}`: what would be called, with what. Nothing is imported for it."""

    kind: str
    target: str
    arguments: Any = None  # a mapping, a list, or None
    file: str = field(default="", compare=False)
    line: int = field(default=0, compare=False)

    def __str__(self) -> str:
        return f"an attribute .{self.target}" if self.kind == ATTRIBUTE else f"{self.kind}{self.target}"


@dataclass(frozen=True)
class Reference:
    """`!ref <key> ...`, or `!copy`, which is built once more."""

    text: str
    copy: bool = False
    line: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Include:
    """`!include:file {overrides}`, already read."""

    tree: Any
    overrides: Any = None


def inner_values(value: Any) -> list[Any]:
    """What a value holds, one level down."""
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, (list, tuple, set)):
        return list(value)
    if isinstance(value, Call):
        return [value.arguments]
    if isinstance(value, Include):
        return [value.tree, value.overrides]
    return []


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """A mapping or a list with all that it holds changed; anything else as it is."""
    if isinstance(value, dict):
        return {key: change(inner) for key, inner in value.items()}
    return [change(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def contains_call(value: Any) -> bool:
    return isinstance(value, Call) or any(contains_call(item) for item in inner_values(value))


def size(value: Any, known: dict[int, int] | None = None) -> int:
    """Characters of a tree, where what is shared counts as often as it stands there. Raises TooLarge."""
    known = {} if known is None else known
    if id(value) not in known:
        keys = sum(len(str(key)) for key in value) if isinstance(value, dict) else 0
        text = len(value) if isinstance(value, (str, bytes)) else 0
        known[id(value)] = NODE + keys + text + sum(size(item, known) for item in inner_values(value))
        if known[id(value)] > MOST:
            raise TooLarge
    return known[id(value)]


def written(value: Any) -> Any:
    """For people: a call under its tag, as in {'!new:torch.nn.ReLU': {...}}. Is never read back."""
    return {str(value): written(value.arguments)} if isinstance(value, Call) else mapped(value, written)


# -- between processes: nothing that a plain value could look like


def packed(value: Any) -> Any:
    """A tree as JSON in which every value says what it is."""
    if isinstance(value, Call):
        return ["call", value.kind, value.target, packed(value.arguments)]
    if isinstance(value, dict):
        return ["dict", [[key, packed(inner)] for key, inner in value.items()]]
    if isinstance(value, (list, tuple)):
        return ["list", [packed(inner) for inner in value]]
    return ["value", value]


def unpacked(value: Any) -> Any:
    what, *rest = value
    if what == "call":
        return Call(rest[0], rest[1], unpacked(rest[2]))
    if what == "dict":
        return {key: unpacked(inner) for key, inner in rest[0]}
    return [unpacked(inner) for inner in rest[0]] if what == "list" else rest[0]
