"""Where each key of a YAML text stands: its node tree, read for line numbers, duplicate keys and references.

Works on nodes, before anything is constructed, so that reading runs none of its tags.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, field

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from profiler.hyperyaml.mistakes import Mistake

Key = tuple[str | int, ...]
_REFERENCE = re.compile(r"<([^<>\[\].]+)")
DEEPEST = 200  # brackets within brackets; a recipe has four or five
MOST_NODES = 100_000  # a recipe has a few dozen; aliases of aliases can stand for billions


@dataclass
class Outline:
    """What the node tree of one file says, without values."""

    lines: dict[Key, int] = field(default_factory=dict)
    referenced: set[str] = field(default_factory=set)
    references: list[tuple[str, int]] = field(default_factory=list)
    mistakes: list[Mistake] = field(default_factory=list)
    unreadable: bool = False
    root: Node | None = None

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
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def refuse_depth(text: str) -> None:
    """Raise ValueError for brackets that are nested deeper than anybody writes: reading them takes very long."""
    depth = 0
    for bracket in re.finditer(r"[\[\]{}]", text):
        depth += 1 if bracket[0] in "[{" else -1
        if depth > DEEPEST:
            raise ValueError(f"more than {DEEPEST} brackets within one another")


def read_outline(text: str, file: str, yaml: YAML | None = None) -> Outline:
    """Walk the node tree of a YAML text. Broken YAML comes back as a mistake that shows the line."""
    outline = Outline(unreadable=True)
    try:
        refuse_depth(text)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of an anchor that is used twice, which YAML allows
            root = (yaml or YAML(typ="safe", pure=True)).compose(text)
    except MarkedYAMLError as error:
        lines = text.splitlines()
        mark = error.problem_mark or error.context_mark
        if mark and mark.line >= len(lines) and error.context_mark:
            mark = error.context_mark  # something is never closed: show where it was opened
        number = mark.line + 1 if mark else None
        shown = f": `{lines[mark.line].strip()}`" if mark and mark.line < len(lines) else ""
        outline.mistakes.append(Mistake(f"broken YAML ({error.problem}){shown}", file=file, line=number))
        return outline
    except Exception as error:  # a character that YAML does not allow, for example
        outline.mistakes.append(Mistake(f"broken YAML ({str(error).splitlines()[0]})", file=file))
        return outline
    if root is None or str(root.tag) == "tag:yaml.org,2002:null":
        outline.mistakes.append(Mistake("the file is empty", file=file))
    elif not isinstance(root, MappingNode) or str(root.tag) != "tag:yaml.org,2002:map":
        outline.mistakes.append(
            Mistake("expected sections such as `pretrained_model:`, found something else", file=file, line=1)
        )
    else:
        walk = _Walk(outline, file)
        walk.visit(root, ())
        outline.unreadable = walk.endless
        outline.root = root
    return outline


class _Walk:
    """One walk over the nodes. An alias is walked like a copy of what it stands for, as it will be read."""

    def __init__(self, outline: Outline, file: str) -> None:
        self.outline = outline
        self.file = file
        self.endless = False
        self._count = 0
        self._above: set[int] = set()

    def visit(self, node: Node, key: Key) -> None:
        line = node.start_mark.line + 1
        self._count += 1
        if self.endless or id(node) in self._above or self._count > MOST_NODES:
            if not self.endless:
                sentence = "an alias (*) stands for something that holds it, or for too much; write the values out"
                self.outline.mistakes.append(Mistake(sentence, dotted(key), self.file, self.outline.line_of(key)))
            self.endless = True
            return
        tag = str(node.tag or "")
        if isinstance(node, ScalarNode) and tag in ("!ref", "!copy", "!applyref"):
            self.outline.referenced.update(_REFERENCE.findall(node.value))
            self.outline.references.append((node.value, line))
        self._above.add(id(node))
        if isinstance(node, MappingNode):
            self._visit_mapping(node, key)
        elif isinstance(node, SequenceNode):
            for index, value in enumerate(node.value):
                self.outline.lines[(*key, index)] = value.start_mark.line + 1
                self.visit(value, (*key, index))
        self._above.discard(id(node))

    def _visit_mapping(self, node: MappingNode, key: Key) -> None:
        seen: dict[str, int] = {}
        for name_node, value in node.value:
            name, name_line = str(name_node.value), name_node.start_mark.line + 1
            if name in seen:
                sentence = f"the key stands here twice, first in line {seen[name]}; keep one"
                self.outline.mistakes.append(Mistake(sentence, dotted((*key, name)), self.file, name_line))
            seen[name] = name_line
            self.outline.lines.setdefault((*key, name), name_line)
            self.visit(value, (*key, name))
