"""The modules of a model by name: the model's own tree, and what is called beside it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    from profiler.models.model import Model

ROOT = "(model)"


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
