"""A tree with overrides and references -> a tree without: HyperPyYAML's `!ref`, `!copy` and `!include:`, within bounds.

What a reference shares stays shared, so that it is built once; what it would be when written out is counted.
"""

from __future__ import annotations

import ast
import copy
import operator
import re
from collections.abc import Callable
from typing import Any

from profiler.hyperyaml import values
from profiler.hyperyaml.values import Call, Include, Reference, TooLarge, size

FULL = re.compile(r"<[^>]*>")
LONGEST_TEXT = 10_000  # characters of a text that is put together from references
LONGEST_FORMULA = 200
LARGEST_POWER = 1_000
OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
    ast.Mod: operator.mod,
}


class Unresolved(ValueError):
    """What cannot be resolved, in a few words, and the line of the reference."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(reason)
        self.line = line


def resolve(
    tree: Any,
    overrides: dict[str, object],
    compute: Callable[[Call], Any],
    must_match: bool = False,
    null_removes: bool = False,
) -> Any:
    """The tree with `overrides` in it and no reference left. Raises Unresolved.

    A mapping is merged into the one that is there; an empty one replaces it, and with `null_removes` so does null.
    `compute` gives the value of a call that a text needs; it raises Unresolved for what may not be run here.
    """
    tree = copy.deepcopy(tree)  # the same file is resolved once for each variant
    try:
        unknown = [key for key in overrides if must_match and key not in tree]
        if unknown:
            raise Unresolved(f"there is no `{unknown[0]}` to override; known are {', '.join(map(str, tree))}")
        _merge(tree, overrides, null_removes)
        size(tree)
        found = _Resolver(tree, compute).value(tree)
        size(found)
        return found
    except TooLarge as error:
        raise Unresolved(str(error)) from None
    except RecursionError:
        raise Unresolved("values or references are nested too deep") from None


def _merge(tree: Any, changes: dict[str, object], null_removes: bool) -> None:
    for key, value in changes.items():
        if value is None and null_removes and isinstance(tree.get(key), dict):
            del tree[key]
        elif isinstance(value, dict) and key in tree and not (value == {} and isinstance(tree[key], dict)):
            inner = tree[key]
            inner = inner.arguments if isinstance(inner, Call) else inner
            inner = inner.overrides if isinstance(inner, Include) else inner
            if not isinstance(inner, dict):
                raise Unresolved(f"The structure of the overrides does not match the structure of the file at `{key}`")
            _merge(inner, value, null_removes)
        else:
            tree[key] = value


class _Resolver:
    def __init__(self, root: Any, compute: Callable[[Call], Any]) -> None:
        self.root = root
        self.compute = compute
        self._done: dict[int, Any] = {}
        self._held: list[Any] = []  # so that no number in _done is given out again
        self._doing: set[int] = set()
        self._copied = 0

    def value(self, node: Any) -> Any:
        if not isinstance(node, (dict, list, Call, Reference, Include)):
            return node
        if id(node) in self._done:
            return self._done[id(node)]
        if id(node) in self._doing:
            raise Unresolved("the reference leads back to itself", getattr(node, "line", None))
        self._doing.add(id(node))
        found = self._made(node)
        self._doing.discard(id(node))
        self._done[id(node)] = found
        self._held.append(node)
        return found

    def _made(self, node: Any) -> Any:
        if isinstance(node, (dict, list)):
            return values.mapped(node, self.value)
        if isinstance(node, Include):
            return resolve(node.tree, self.value(node.overrides), self.compute)
        if isinstance(node, Reference):
            try:
                return self._referenced(node)
            except Unresolved as error:
                error.line = error.line or node.line
                raise
        if node.kind == values.PLACEHOLDER:
            raise Unresolved("a !PLACEHOLDER must be replaced by a value", node.line)
        return Call(node.kind, node.target, self.value(node.arguments), node.file, node.line)

    def _referenced(self, node: Reference) -> Any:
        if FULL.fullmatch(node.text):
            found = self._at(node.text[1:-1])
            if not node.copy:
                return found
            self._copied += size(found)
            if self._copied > values.MOST:
                raise TooLarge
            return copy.deepcopy(found)
        if not FULL.search(node.text):
            return node.text
        text, end = "", 0
        for match in FULL.finditer(node.text):
            text += node.text[end : match.start()] + self._text(match[0][1:-1])
            end = match.end()
            if len(text) > LONGEST_TEXT:
                raise Unresolved(f"a text of references is longer than {LONGEST_TEXT:,} characters")
        return _computed(text + node.text[end:])

    def _text(self, place: str) -> str:
        found = self._at(place)
        if isinstance(found, Call):
            found = self.compute(found)
        if size(found) > LONGEST_TEXT:
            raise Unresolved(f"a text of references is longer than {LONGEST_TEXT:,} characters")
        return str(found)

    def _at(self, place: str) -> Any:
        """The value at `section[key]`, or of an attribute of it: `section[key].name`."""
        keys, dot, attribute = place.partition(".")
        found = self.root
        for part in keys.split("["):
            part = part.strip("]")
            found = self.value(found) if isinstance(found, (Reference, Include)) else found
            found = found.arguments if isinstance(found, Call) else found
            if not isinstance(found, dict) or part not in found:
                raise Unresolved(f'The reference "{keys}" is not valid')
            found = found[part]
        found = self.value(found)
        return Call(values.ATTRIBUTE, attribute, [found]) if dot else found


def _computed(text: str) -> Any:
    """The value of simple arithmetic; any other text as it is."""
    if len(text) > LONGEST_FORMULA:
        return text
    try:
        return _number(ast.parse(text.strip(), mode="eval").body)
    except ZeroDivisionError:
        raise Unresolved(f"`{text}` divides by zero") from None
    except (TypeError, SyntaxError, KeyError, ValueError, OverflowError):
        return text


def _number(node: ast.expr) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if not isinstance(node, ast.BinOp):
        raise TypeError
    left, right = _number(node.left), _number(node.right)
    if not isinstance(left, (int, float)) or not isinstance(right, (int, float)):
        raise TypeError
    if isinstance(node.op, ast.Pow) and max(abs(left), abs(right)) > LARGEST_POWER:
        raise Unresolved(f"a power with numbers of more than {LARGEST_POWER:,} is not computed")
    return OPERATORS[type(node.op)](left, right)
