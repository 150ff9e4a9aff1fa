"""The modules of a model by name, and labels: names for parts of it, by patterns of the recipe or its own structure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from profiler.device import Device
from profiler.errors import ModelError

if TYPE_CHECKING:
    import torch

    from profiler.models.model import Model
    from profiler.training.step import TrainingStep


ROOT = "(model)"
Patterns = Mapping[str, str | list[str]]
FRONT_END = re.compile(
    r"compute_features|normali[sz]e|mean_var_norm|front_?end|feature_extractor|features|filterbank|stft"
)
LANGUAGE_MODEL = re.compile(r"lm|language_?model|lm_model")
SEARCH = re.compile(r"search", re.IGNORECASE)  # in the name of a class
SUGGESTED = 3


class Tree:
    """Each module once, under the first name that leads to it; numbers are places in `modules`.

    A module inside a component has a second name that starts with the component's, as the table of parameters has it:
    `wav2vec2.encoder.layers.0` is `encoder.layers.0` too.
    """

    def __init__(self, model: Model) -> None:
        self.modules: list[torch.nn.Module] = []
        self.names: list[str] = []
        self.aliases: dict[int, str] = {}
        self.above: list[int | None] = []
        self.index: dict[int, int] = {}
        self._add("", model.module)
        for name, part in (*model.components.items(), *model.beside.items()):
            self._add(name, part)
        for name, part in model.components.items():
            self._alias(name, self.index[id(part)])

    def _add(self, prefix: str, root: torch.nn.Module) -> None:
        places: dict[str, int] = {}
        for name, module in root.named_modules(prefix=prefix):
            if id(module) not in self.index:
                self.index[id(module)] = places[name] = len(self.modules)
                self.modules.append(module)
                self.names.append(name)
                self.above.append(places.get(name.rpartition(".")[0]) if name != prefix else None)

    def _alias(self, name: str, place: int) -> None:
        path = self.names[place]
        if path == name:
            return
        self.aliases.setdefault(place, name)
        for number, other in enumerate(self.names):
            if path and other.startswith(f"{path}."):
                self.aliases.setdefault(number, name + other[len(path) :])

    def __len__(self) -> int:
        return len(self.modules)

    def shown(self, place: int) -> str:
        return self.names[place] or ROOT

    def known_as(self, place: int) -> Iterator[str]:
        """The names that a pattern may match."""
        if self.names[place]:
            yield self.names[place]
        if place in self.aliases:
            yield self.aliases[place]

    def path(self, place: int) -> list[int]:
        """From the outermost module down to this one."""
        found: list[int] = []
        at: int | None = place
        while at is not None:
            found.append(at)
            at = self.above[at]
        return found[::-1]


@dataclass(frozen=True)
class Labels:
    """Each label with the modules it begins at. It covers what is inside them too, whoever calls it."""

    roots: dict[str, list[int]]
    automatic: bool = False

    @property
    def names(self) -> list[str]:
        return list(self.roots)


def find_labels(model: Model, tree: Tree, patterns: Patterns) -> Labels:
    """The labels of a recipe, or without any those of the model's structure. Raises ModelError for an empty one."""
    if not patterns:
        return Labels(_automatic(model, tree), automatic=True)
    return Labels({name: _matching(tree, name, given) for name, given in patterns.items()})


def _matching(tree: Tree, label: str, given: str | list[str]) -> list[int]:
    """The outermost modules that match. `encoder.*` is the encoder with all that is in it, as `encoder` is."""
    matched: set[int] = set()
    for pattern in [given] if isinstance(given, str) else given:
        forms = (pattern, pattern.removesuffix(".*"))
        found = {
            place
            for place in range(len(tree))
            if any(fnmatchcase(name, form) for name in tree.known_as(place) for form in forms)
        }
        if not found:
            raise ModelError(
                f"trace.labels.{label}: no module of the model matches `{pattern}`.{_suggest(tree, pattern)}"
            )
        matched |= found
    return [place for place in sorted(matched) if not matched.intersection(tree.path(place)[:-1])]


def _suggest(tree: Tree, pattern: str) -> str:
    """Names near to the pattern; numbered layers are one name, and a last part stands for all that end so."""
    names = list(dict.fromkeys(fold(name) for place in range(len(tree)) for name in tree.known_as(place)))
    word = pattern.strip("*.")
    by_end = {name.rpartition(".")[2]: f"*.{name.rpartition('.')[2]}" for name in names if "." in name}
    near = difflib.get_close_matches(word, names, SUGGESTED, 0.6)
    near += [by_end[end] for end in difflib.get_close_matches(word.rpartition(".")[2], list(by_end), SUGGESTED, 0.6)]
    if near:
        return f" Did you mean {' or '.join(f'`{name}`' for name in list(dict.fromkeys(near))[:SUGGESTED])}?"
    top = sorted(names, key=lambda name: (name.count("."), names.index(name)))[:12]
    return f" Its modules are {', '.join(top)}, and what is in them." if top else " It has no parts that have names."


def fold(name: str) -> str:
    """Layers that repeat have one name: encoder.layers.11.norm -> encoder.layers.*.norm"""
    return ".".join("*" if part.isdigit() else part for part in name.split("."))


def _automatic(model: Model, tree: Tree) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {"search": [0]} if SEARCH.search(type(model.module).__name__) else {}
    for name, part in (*model.components.items(), *model.beside.items()):
        place = tree.index[id(part)]
        role = _role(name, part)
        found.setdefault(role, []).append(place)
        for inner, child in _children(tree, place):
            if role == "search" and _has_parameters(tree, tree.index[id(child)]):
                found.setdefault("decoder", []).append(tree.index[id(child)])
            elif role == "encoder" and FRONT_END.fullmatch(inner):
                found.setdefault("front end", []).append(tree.index[id(child)])
    if len(found) < 2:
        for inner, child in _children(tree, next(iter(found.values()), [0])[0]):
            found.setdefault(inner, []).append(tree.index[id(child)])
    places = {name: list(dict.fromkeys(at)) for name, at in found.items()}
    return {name: [at for at in own if not set(own).intersection(tree.path(at)[:-1])] for name, own in places.items()}


def _children(tree: Tree, place: int) -> list[tuple[str, torch.nn.Module]]:
    """Those that belong here: a search also holds what is another component."""
    module = tree.modules[place]
    return [(name, child) for name, child in module.named_children() if tree.above[tree.index[id(child)]] == place]


def _has_parameters(tree: Tree, place: int) -> bool:
    """Of its own, or in modules that belong to it."""
    own = (number for number in range(len(tree)) if place in tree.path(number))
    return any(next(tree.modules[number].parameters(recurse=False), None) is not None for number in own)


def _role(name: str, part: torch.nn.Module) -> str:
    if SEARCH.search(type(part).__name__):
        return "search"
    if FRONT_END.fullmatch(name):
        return "front end"
    return "language model" if LANGUAGE_MODEL.fullmatch(name) else name


class Chains:
    """For each module the parts that are at work while it is called: modules above it and labels, outermost first.

    A part is a number: below `len(tree)` a module, from there on a label in the order of `labels.names`.
    """

    def __init__(self, tree: Tree, labels: Labels) -> None:
        self.tree, self.labels = tree, labels
        beginning: dict[int, list[int]] = {}
        for number, roots in enumerate(labels.roots.values()):
            for place in roots:
                beginning.setdefault(place, []).append(len(tree) + number)
        self.of = [
            [part for at in tree.path(place) for part in (*beginning.get(at, ()), at)] for place in range(len(tree))
        ]

    def __len__(self) -> int:
        return len(self.tree) + len(self.labels.roots)

    def is_label(self, part: int) -> bool:
        return part >= len(self.tree)

    @property
    def labelled_places(self) -> list[int]:
        return [place for roots in self.labels.roots.values() for place in roots]

    @property
    def owners(self) -> dict[int, int]:
        """The module that each parameter belongs to, by the parameter's id."""
        return {
            id(parameter): place
            for place, module in enumerate(self.tree.modules)
            for parameter in module.parameters(recurse=False)
        }

    def innermost(self, parts: Sequence[int]) -> list[int]:
        """The module and the label that the work itself belongs to."""
        modules = [part for part in parts if not self.is_label(part)]
        labels = [part for part in parts if self.is_label(part)]
        return modules[-1:] + labels[-1:]

    def at_work(self, stack: tuple[int, ...]) -> list[int]:
        """The parts at work while these modules are being called, each inside the one before."""
        return list(dict.fromkeys(part for place in stack for part in self.of[place]))


@dataclass(frozen=True)
class LabelledCall:
    """One call to be broken down: what is run on what, and the parts of the model that may be at work."""

    run: Callable[[Any], Any]
    value: Any
    device: Device
    chains: Chains
    step: TrainingStep | None = None  # in training
