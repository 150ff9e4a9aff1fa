"""The one place where something that a file describes is imported and called.

`load_checked` takes a description of a model, `evaluate` a value of a recipe. Without `trust` nothing is imported but
what stands in allowed.py, also when a value came here by a way that nobody thought of.
"""

from __future__ import annotations

import functools
import inspect
import pydoc
import re
import sys
from pathlib import Path
from typing import Any

from profiler.errors import UserError
from profiler.hyperyaml import values
from profiler.hyperyaml.allowed import find, is_pure, may_call, unsafe_settings
from profiler.hyperyaml.outline import Mistake, RecipeError, dotted
from profiler.hyperyaml.read import REFUSED, read_document
from profiler.hyperyaml.resolve import Unresolved, resolve
from profiler.hyperyaml.values import Call

TUPLE = re.compile(r"\(.*\)")


def load_checked(path: Path, overrides: dict[str, Any], trust: bool) -> dict[str, Any]:
    """A file of HyperPyYAML, evaluated: what `load_hyperpyyaml` gives. Raises RecipeError before anything is run."""
    document = read_document(path, trust)
    mistakes = list(document.mistakes)
    tree: Any = None
    if not mistakes:
        try:
            tree = resolve(document.tree, overrides, functools.partial(compute, trust=trust), must_match=True)
        except Unresolved as error:
            mistakes.append(Mistake(f"cannot be resolved: {error}", file=str(path), line=error.line))
    if tree is not None and not trust:
        for key, sentence in unsafe_settings(tree):
            mistakes.append(Mistake(sentence, dotted(key), str(path), document.outline.line_of(key)))
    if mistakes:
        raise RecipeError(str(path), mistakes)
    return {key: value for key, value in evaluate(tree, trust).items() if not str(key).startswith("__")}


def compute(call: Call, trust: bool) -> Any:
    """The value of a call that stands where plain text is expected: of Python's own functions only."""
    if trust or is_pure(call):
        try:
            return evaluate(call, trust)
        except Exception as error:  # whatever the function raises
            raise Unresolved(f"`{call}`: {type(error).__name__}: {error}", call.line) from None
    raise Unresolved(f"`{call}` is no plain value", call.line)


def evaluate(value: Any, trust: bool) -> Any:
    """A tree with its described calls run, each once wherever it is shared."""
    done: dict[int, Any] = {}

    def evaluated(node: Any) -> Any:
        if isinstance(node, str):
            return _tuple(node) if TUPLE.fullmatch(node) else node
        if not isinstance(node, (dict, list, Call)):
            return node
        if id(node) not in done:
            done[id(node)] = called(node) if isinstance(node, Call) else values.mapped(node, evaluated)
        return done[id(node)]

    def called(call: Call) -> Any:
        if not trust and not may_call(call):
            raise UserError(f"`{call}` {REFUSED}")
        arguments = evaluated(call.arguments)
        if not trust:
            for _, sentence in unsafe_settings(arguments):
                raise UserError(f"`{call}`: {sentence}")
        return _run(call, arguments, trust)

    return evaluated(value)


def _run(call: Call, arguments: Any, trust: bool) -> Any:
    if call.kind == values.ATTRIBUTE:
        return _attribute(arguments[0], call.target, trust)
    kind, target = _python_tag(call) if call.kind == values.PYTHON else (call.kind, call.target)
    if kind == "tuple":
        return tuple(arguments or ())
    found: Any = pydoc.locate(target) if trust else find(target)
    if found is None:
        raise UserError(f"`{call}`: there is no {target} in what is installed here")
    right = {
        values.NEW: inspect.isclass,
        values.MODULE: inspect.ismodule,
        values.APPLY: callable if call.kind == values.PYTHON else inspect.isroutine,
        values.APPLYREF: inspect.isroutine,
    }.get(kind)
    if right is not None and not right(found):
        raise UserError(f"`{call}`: {target} is not what this tag is for")
    positional, named = _given(call.kind, arguments)
    if kind == values.MODULE or (kind == values.NAME and not positional and not named):
        return found
    return functools.partial(found, *positional, **named) if kind == values.NAME else found(*positional, **named)


def _python_tag(call: Call) -> tuple[str, str]:
    """YAML's own tags for Python, which need --trust, by the tag that does the same."""
    form, _, target = call.target.partition(":")
    same = {
        "name": values.NAME,
        "module": values.MODULE,
        "object/apply": values.APPLY,
        "object/new": values.NEW,
        "tuple": "tuple",
    }
    if form not in same:
        raise UserError(f"`{call}` is not known here; use !new:, !name: or !apply:")
    return same[form], target


def _given(kind: str, arguments: Any) -> tuple[list[Any], dict[str, Any]]:
    if isinstance(arguments, dict):
        places, names = ("args", "kwds") if kind == values.PYTHON else ("_args", "_kwargs")
        if set(arguments) <= {places, names} and (kind == values.PYTHON or len(arguments) == 2):
            return list(arguments.get(places) or ()), dict(arguments.get(names) or {})
        return [], {str(key): value for key, value in arguments.items()}
    return list(arguments or ()), {}


def _attribute(owner: Any, name: str, trust: bool) -> Any:
    """`<model.config>`: data of something that was built. A function or class would be more than the list allows."""
    found = getattr(owner, name)
    torch = sys.modules.get("torch")
    part = torch is not None and isinstance(found, torch.nn.Module)
    if not trust and (inspect.ismodule(found) or (callable(found) and not part)):
        raise UserError(
            f"the attribute .{name} of {type(owner).__name__} can be called; if you trust this file, add --trust"
        )
    return found


def _tuple(text: str) -> Any:
    """HyperPyYAML reads `(3, 4)` as a tuple, of plain values here."""
    from ruamel.yaml import YAML

    try:
        return tuple(YAML(typ="safe", pure=True).load(f"[{text[1:-1]}]"))
    except Exception:  # a text in brackets
        return text
