"""Where each key of a YAML text stands, and the mistakes in it: collected, then shown all at once with file and line.

Works on the node tree, before anything is constructed, so that reading runs none of its tags.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from profiler.errors import UserError

Key = tuple[str | int, ...]
_REFERENCE = re.compile(r"<([^<>\[\].]+)")
DEEPEST = 200  # brackets within brackets; a recipe has four or five
MOST_NODES = 100_000  # a recipe has a few dozen; aliases of aliases can stand for billions
SHOWN = 100  # mistakes; whoever has more will look again
LONGEST = 1_000  # characters of one, which may quote what was written


@dataclass(frozen=True)
class Mistake:
    """One thing to fix: where it stands, the key, and a sentence on what was expected."""

    message: str
    key: str = ""
    file: str = ""
    line: int | None = None

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return ": ".join(part for part in (place, _short(self.key), _short(self.message)) if part)


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


class RecipeError(UserError):
    """A recipe with one mistake or more."""

    def __init__(self, recipe: str, mistakes: list[Mistake]) -> None:
        self.mistakes = sorted(mistakes, key=lambda mistake: mistake.line or 0)
        count = "a mistake" if len(mistakes) == 1 else f"{len(mistakes)} mistakes"
        lines = "\n".join(f"  {mistake}" for mistake in self.mistakes[:SHOWN])
        more = f"\n  ... and {len(mistakes) - SHOWN:,} more" if len(mistakes) > SHOWN else ""
        super().__init__(f"{recipe} has {count}; nothing was run.\n{lines}{more}")


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


class Outline:
    """What the node tree of one file says, without values: lines, names that references use, and mistakes.

    An alias is walked like a copy of what it stands for, as it will be read.
    """

    def __init__(self, file: str) -> None:
        self.file = file
        self.lines: dict[Key, int] = {}
        self.referenced: set[str] = set()
        self.mistakes: list[Mistake] = []
        self.unreadable = True
        self.root: Node | None = None
        self._endless = False
        self._count = 0
        self._above: set[int] = set()

    def line_of(self, key: Key) -> int | None:
        """The line of a key, or of the nearest section above it."""
        while key:
            if key in self.lines:
                return self.lines[key]
            key = key[:-1]
        return None

    def mistake(self, message: str, line: int | None = None, key: Key = ()) -> None:
        self.mistakes.append(Mistake(message, dotted(key), self.file, line))

    def walk(self, root: MappingNode) -> None:
        self._visit(root, ())
        self.root, self.unreadable = root, self._endless

    def _visit(self, node: Node, key: Key) -> None:
        self._count += 1
        if self._endless or id(node) in self._above or self._count > MOST_NODES:
            if not self._endless:
                sentence = "an alias (*) stands for something that holds it, or for too much; write the values out"
                self.mistake(sentence, self.line_of(key), key)
            self._endless = True
            return
        if isinstance(node, ScalarNode) and str(node.tag or "") in ("!ref", "!copy", "!applyref"):
            self.referenced.update(_REFERENCE.findall(node.value))
        self._above.add(id(node))
        if isinstance(node, MappingNode):
            self._visit_mapping(node, key)
        elif isinstance(node, SequenceNode):
            for index, value in enumerate(node.value):
                self.lines[(*key, index)] = value.start_mark.line + 1
                self._visit(value, (*key, index))
        self._above.discard(id(node))

    def _visit_mapping(self, node: MappingNode, key: Key) -> None:
        seen: dict[str, int] = {}
        for name_node, value in node.value:
            name, line = str(name_node.value), name_node.start_mark.line + 1
            if name in seen:
                sentence = f"the key stands here twice, first in line {seen[name]}; keep one"
                self.mistake(sentence, line, (*key, name))
            seen[name] = line
            self.lines.setdefault((*key, name), line)
            self._visit(value, (*key, name))


def read_outline(text: str, file: str, yaml: YAML | None = None) -> Outline:
    """Walk the node tree of a YAML text. Broken YAML comes back as a mistake that shows the line."""
    outline = Outline(file)
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
        shown = f": `{lines[mark.line].strip()}`" if mark and mark.line < len(lines) else ""
        outline.mistake(f"broken YAML ({error.problem}){shown}", mark.line + 1 if mark else None)
        return outline
    except Exception as error:  # a character that YAML does not allow, for example
        outline.mistake(f"broken YAML ({str(error).splitlines()[0]})")
        return outline
    if root is None or str(root.tag) == "tag:yaml.org,2002:null":
        outline.mistake("the file is empty")
    elif not isinstance(root, MappingNode) or str(root.tag) != "tag:yaml.org,2002:map":
        outline.mistake("expected sections such as `pretrained_model:`, found something else", 1)
    else:
        outline.walk(root)
    return outline
