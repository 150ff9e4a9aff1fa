"""Where each key of a recipe stands: the YAML's node tree read for line numbers, duplicate keys, tags and references.

Works on nodes, before anything is constructed, so that reading a recipe runs none of its tags.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from profiler.recipe.errors import Mistake

Key = tuple[str | int, ...]
_REFERENCE = re.compile(r"<([^<>\[\].]+)")


@dataclass
class Outline:
    """What the node tree of one file says, without values."""

    lines: dict[Key, int] = field(default_factory=dict)
    tags: list[tuple[str, int]] = field(default_factory=list)
    referenced: set[str] = field(default_factory=set)
    mistakes: list[Mistake] = field(default_factory=list)
    unreadable: bool = False

    def line_of(self, key: Key) -> int | None:
        """The line of a key, or of the nearest section above it."""
        while key:
            if key in self.lines:
                return self.lines[key]
            key = key[:-1]
        return None


def dotted(key: Key) -> str:
    """('a', 'b', 1) -> 'a.b[1]'."""
    text = ""
    for part in key:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def read_outline(text: str, file: str) -> Outline:
    """Walk the node tree of a YAML text. Broken YAML comes back as a mistake that shows the line."""
    outline = Outline(unreadable=True)
    try:
        root = YAML(typ="safe", pure=True).compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        number = mark.line + 1 if mark else None
        lines = text.splitlines()
        shown = f": `{lines[mark.line].strip()}`" if mark and mark.line < len(lines) else ""
        outline.mistakes.append(Mistake(f"broken YAML ({error.problem}){shown}", file=file, line=number))
        return outline
    except Exception as error:  # a character that YAML does not allow, for example
        outline.mistakes.append(Mistake(f"broken YAML ({str(error).splitlines()[0]})", file=file))
        return outline
    if root is None:
        outline.mistakes.append(Mistake("the file is empty", file=file))
    elif not isinstance(root, MappingNode):
        outline.mistakes.append(
            Mistake("expected sections such as `pretrained_model:`, found something else", file=file, line=1)
        )
    else:
        outline.unreadable = False
        _walk(root, (), outline, file)
    return outline


def _walk(node: Node, key: Key, outline: Outline, file: str) -> None:
    line = node.start_mark.line + 1
    tag = str(node.tag or "")
    if not tag.startswith("tag:yaml.org,2002:") or "python/" in tag:
        outline.tags.append((tag, line))
    if isinstance(node, ScalarNode) and tag in ("!ref", "!copy", "!applyref"):
        outline.referenced.update(_REFERENCE.findall(node.value))
    if isinstance(node, MappingNode):
        seen: dict[str, int] = {}
        for name_node, value in node.value:
            name, name_line = str(name_node.value), name_node.start_mark.line + 1
            if name in seen:
                outline.mistakes.append(
                    Mistake(
                        f"the key stands here twice, first in line {seen[name]}; keep one",
                        dotted((*key, name)),
                        file,
                        name_line,
                    )
                )
            seen[name] = name_line
            outline.lines.setdefault((*key, name), name_line)
            _walk(value, (*key, name), outline, file)
    elif isinstance(node, SequenceNode):
        for index, value in enumerate(node.value):
            outline.lines[(*key, index)] = value.start_mark.line + 1
            _walk(value, (*key, index), outline, file)
