"""A YAML file, with the files that it includes -> a tree of plain values and described calls, and every mistake in it.

Runs nothing. What a tag would call is looked up on the allow list here, whatever way the tag was written in, so that a
file is refused before any of it is run. Files are bounded in kind, size and number.
"""

from __future__ import annotations

import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.constructor import ConstructorError, SafeConstructor
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from profiler.errors import UserError
from profiler.hyperyaml import values
from profiler.hyperyaml.allowed import may_call
from profiler.hyperyaml.outline import Mistake, Outline, read_outline
from profiler.hyperyaml.values import Call, Include, Reference
from profiler.user_path import user_path

LARGEST = 250_000  # bytes of a file with all that it includes; descriptions of models have some ten thousand
MOST_FILES = 30  # that a file includes, each as often as it is included
STANDARD = "tag:yaml.org,2002:"
REFUSED = "would run code that is not on the list of what may be called; if you trust this file, add --trust"


@dataclass
class Document:
    """One file as it was read."""

    path: Path
    text: str
    outline: Outline
    tree: Any = None  # None where it cannot be read

    @property
    def mistakes(self) -> list[Mistake]:
        return self.outline.mistakes


def read_document(path: Path, trust: bool) -> Document:
    """Read and check a file with its includes. Raises UserError where there is no file to read."""
    return _Reader(trust).read(path)


def read_text(path: Path, room: int = LARGEST) -> str:
    """The text of a file that ends, of at most `room` bytes. Raises UserError, or OSError where it is not there."""
    kind = path.stat().st_mode
    if stat.S_ISDIR(kind):
        raise IsADirectoryError(21, "Is a directory")
    if not stat.S_ISREG(kind):
        raise UserError(f"{path} is no ordinary file (a device, a pipe or a socket)")
    with path.open("rb") as file:
        content = file.read(room + 1)
    if b"\0" in content:
        raise UserError(f"{path} is not a text file; expected YAML in UTF-8")
    if len(content) > room:
        limit = f"at most {LARGEST:,} bytes with all that it includes" if room <= LARGEST else f"at most {room:,} bytes"
        raise UserError(f"{path} is too large; expected {limit}")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise UserError(f"{path} is not a text file; expected YAML in UTF-8") from None


class _Reader:
    """Reads a file and those that it includes, within one limit for all."""

    def __init__(self, trust: bool) -> None:
        self.trust = trust
        self._room = LARGEST
        self._files = 0
        self._above: list[Path] = []

    def read(self, path: Path) -> Document:
        text = read_text(path, self._room)
        self._room -= len(text.encode())
        yaml = YAML(typ="safe", pure=True)
        yaml.Constructor = _Constructor
        yaml.allow_duplicate_keys = True
        outline = read_outline(text, str(path), yaml)
        document = Document(path, text, outline)
        if outline.unreadable:
            return document
        constructor = yaml.constructor
        constructor.reader, constructor.document = self, document
        self._above.append(path.resolve())
        try:
            document.tree = constructor.construct_document(outline.root)
        except ConstructorError as error:
            mark = error.problem_mark or error.context_mark
            outline.mistake(f"cannot be read: {error.problem}", mark and mark.line + 1)
        except Exception as error:
            outline.mistake(f"a value cannot be read: {' '.join(str(error).split())[:200]}")
        finally:
            self._above.pop()
        return document

    def include(self, name: str, document: Document, line: int) -> Any:
        """The tree of an included file; None with a mistake where there is none."""
        self._files += 1
        try:
            if self._files > MOST_FILES:
                raise UserError(f"cannot include {name}: more than {MOST_FILES} files are included")
            path = user_path(name, document.path.resolve().parent)
            if path.resolve() in self._above:
                raise UserError(f"{path} includes itself")
            included = self.read(path)
        except (UserError, OSError) as error:
            why = str(error) if isinstance(error, UserError) else f"cannot include {name}: {error.strerror}"
            document.outline.mistake(why, line)
            return None
        document.mistakes.extend(included.mistakes)
        return included.tree


class _Constructor(SafeConstructor):
    """Builds plain values, calls, references and includes; a tag that is none of these is a mistake."""

    reader: _Reader
    document: Document

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep=deep)
        except (ValueError, KeyError, TypeError, AttributeError) as error:  # of `!!int abc`, `!!bool 7`, ...
            raise ConstructorError(None, None, f"{error} is no such value", node.start_mark) from None

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        for key, _ in node.value if isinstance(node, MappingNode) else ():
            if not str(key.tag).startswith(STANDARD) or "python/" in str(key.tag) or not isinstance(key, ScalarNode):
                raise ConstructorError(None, None, "a key is plain text, without a tag", key.start_mark)
        return super().construct_mapping(node, deep=deep)

    def arguments(self, node: Node) -> Any:
        if isinstance(node, MappingNode):
            return self.construct_mapping(node, deep=True)
        if isinstance(node, SequenceNode):
            return self.construct_sequence(node, deep=True)
        return None

    def mistake(self, node: Node, sentence: str) -> None:
        self.document.outline.mistake(sentence, node.start_mark.line + 1)

    def call(self, kind: str, target: str, node: Node) -> Call:
        found = Call(kind, target, self.arguments(node), str(self.document.path), node.start_mark.line + 1)
        if not self.reader.trust and not may_call(found):
            self.mistake(node, f"`{found}` {REFUSED}")
        return found

    def tagged(self, name: str, node: Node) -> Any:
        """A tag of HyperPyYAML's."""
        tag, text = f"!{name}", node.value if isinstance(node, ScalarNode) else None
        line = node.start_mark.line + 1
        if tag in ("!ref", "!copy") and text is not None:
            return Reference(text, tag == "!copy", line)
        if tag in ("!tuple", "!") and text is not None:
            return text
        if tag == values.PLACEHOLDER:
            return Call(tag, "", None, str(self.document.path), line)
        if tag.startswith("!include:"):
            overrides = self.arguments(node)
            tree = self.reader.include(tag[len("!include:") :], self.document, line)
            return Include(tree, overrides if isinstance(overrides, dict) else {})
        for kind in values.CALLING:
            if tag.startswith(kind):
                return self.call(kind, tag[len(kind) :], node)
        self.mistake(node, f"unknown tag `{tag}`; did you mean `!ref`?")
        return None

    def python(self, name: str, node: Node) -> Call:
        return self.call(values.PYTHON, name, node)

    def unknown(self, name: str, node: Node) -> None:
        self.mistake(node, f"unknown tag `{name}`")


_Constructor.add_multi_constructor("!", _Constructor.tagged)
_Constructor.add_multi_constructor(f"{STANDARD}python/", _Constructor.python)
_Constructor.add_multi_constructor("tag:", _Constructor.unknown)
