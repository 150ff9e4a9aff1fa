"""A call of a module as tensors: what the module is given, and what it gives.

    arguments --given--> tensors, and a text of all else --an engine--> tensors --put_together--> what the module gives

A cache of keys and values, as transformers has it, is tensors too: those of each layer that is filled. A module fills
the cache that it is given and hands it on, and so does what takes the module's place.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import msgspec

from profiler.errors import NotSupported

if TYPE_CHECKING:
    import torch

HALVES = ("self_attention_cache", "cross_attention_cache")  # of a decoder that also looks at an encoder's output
GROWS = "DynamicLayer"  # transformers' layer of a cache that holds all steps so far, and nothing else


@dataclass(frozen=True)
class Given:
    """A call, before it is made."""

    tensors: list[torch.Tensor]  # those of caches among them
    how: str  # all else about it: two calls with the same text differ in tensors alone
    caches: list[Any]
    leaves: list[Any]
    structure: Any

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(tensor.shape) for tensor in self.tensors)

    @property
    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        from torch.utils import _pytree

        found: tuple[tuple[Any, ...], dict[str, Any]] = _pytree.tree_unflatten(self.leaves, self.structure)
        return found

    def kept(self) -> Given:
        """As it is now: the call itself will fill the caches."""
        tensors = iter(self.tensors)
        return replace(self, leaves=[_with(leaf, tensors) for leaf in self.leaves])

    def again(self, tensors: list[torch.Tensor]) -> Given:
        """The same call with other tensors, and caches of its own."""
        left = iter(tensors)
        leaves = [_with(leaf, left) for leaf in self.leaves]
        return replace(self, tensors=tensors, leaves=leaves, caches=[leaf for leaf in leaves if is_cache(leaf)])


class CacheOutput(msgspec.Struct):
    """What a call leaves in a cache. Numbers as in the leaves of an output."""

    given: int  # the cache's place among those in the arguments
    layers: list[list[list[int]]]  # by half and layer: keys and values; nothing where a layer is empty
    updated: list[int]  # layers that take what they need of the encoder's output from the cache from now on


# Of an output: the number of a tensor; -1 - n for the input n, which is given back as it came; None; or a cache.
Leaves = list[int | CacheOutput | None]


def given(arguments: Any, named: Any) -> Given:
    """Raises NotSupported for arguments that are neither tensors nor plain values."""
    import torch
    from torch.utils import _pytree

    if any(isinstance(value, torch.nn.utils.rnn.PackedSequence) for value in (*arguments, *named.values())):
        raise NotSupported("it is called with packed rows, which engines do not have")
    leaves, structure = _pytree.tree_flatten((tuple(arguments), dict(named)), is_leaf=is_cache)
    tensors: list[torch.Tensor] = []
    told = []
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor):
            tensors.append(leaf)
            told.append(f"{leaf.dtype}[{leaf.dim()}]")
        elif is_cache(leaf):
            told.append(_described(leaf))
            tensors += _held(leaf)
        elif isinstance(leaf, (bool, int, float, str, type(None), torch.dtype)):
            told.append(repr(leaf))
        else:
            raise NotSupported(f"it is called with a {type(leaf).__name__}, which is no tensor")
    caches = [leaf for leaf in leaves if is_cache(leaf)]
    return Given(tensors, f"{structure} {told}", caches, leaves, structure)


def outputs(output: Any, call: Given) -> tuple[list[torch.Tensor], Leaves, Any]:
    """The tensors that a call made, how the output is put together of them, and its structure. Raises NotSupported."""
    import torch
    from torch.utils import _pytree

    leaves, structure = _pytree.tree_flatten(output, is_leaf=is_cache)
    made: list[torch.Tensor] = []
    places = {id(tensor): -1 - place for place, tensor in enumerate(call.tensors)}

    def number(tensor: torch.Tensor) -> int:
        if id(tensor) not in places:
            places[id(tensor)] = len(made)
            made.append(tensor)
        return places[id(tensor)]

    found: Leaves = []
    for leaf in leaves:
        if leaf is None:
            found.append(None)
        elif isinstance(leaf, torch.Tensor):
            found.append(number(leaf))
        elif is_cache(leaf):
            found.append(_left_in(leaf, call, number))
        else:
            raise NotSupported(f"it gives a {type(leaf).__name__}, which is no tensor")
    if not made:
        raise NotSupported("it gives no tensor")
    if sum(isinstance(leaf, CacheOutput) for leaf in found) < len(call.caches):
        raise NotSupported("it fills a cache of keys and values that it does not give back")
    return made, found, structure


def put_together(leaves: Leaves, structure: Any, made: list[torch.Tensor], call: Given) -> Any:
    """The output of the module: caches of the call are filled, as the module would."""
    from torch.utils import _pytree

    def value(number: int) -> torch.Tensor:
        return made[number] if number >= 0 else call.tensors[-1 - number]

    def leaf(place: int | CacheOutput | None) -> Any:
        if isinstance(place, CacheOutput):
            return _filled(call.caches[place.given], place, value)
        return None if place is None else value(place)

    return _pytree.tree_unflatten([leaf(place) for place in leaves], structure)


# -- caches


def is_cache(value: Any) -> bool:
    library: Any = sys.modules.get("transformers.cache_utils")
    return library is not None and isinstance(value, library.Cache)


def _halves(cache: Any) -> list[Any]:
    both = [getattr(cache, name, None) for name in HALVES]
    return [cache] if None in both else both


def _layers(cache: Any) -> list[Any]:
    return [layer for half in _halves(cache) for layer in half.layers]


def _is_filled(layer: Any) -> bool:
    keys = getattr(layer, "keys", None)
    return keys is not None and keys.dim() > 1  # one that is about to be filled has an empty vector


def _held(cache: Any) -> list[torch.Tensor]:
    return [tensor for layer in _layers(cache) if _is_filled(layer) for tensor in (layer.keys, layer.values)]


def _described(cache: Any) -> str:
    for layer in _layers(cache):
        if type(layer).__name__ != GROWS:
            raise NotSupported(f"its cache has a {type(layer).__name__}, and a {GROWS} alone can be exported here")
    filled = [[number for number, layer in enumerate(half.layers) if _is_filled(layer)] for half in _halves(cache)]
    return f"{type(cache).__name__} {filled} {_updated(cache)}"


def _updated(cache: Any) -> list[int]:
    return [number for number, done in getattr(cache, "is_updated", {}).items() if done]


def _with(leaf: Any, tensors: Iterator[torch.Tensor]) -> Any:
    """A leaf with the next of the tensors in it."""
    import torch

    if isinstance(leaf, torch.Tensor):
        return next(tensors)
    return _copied(leaf, tensors) if is_cache(leaf) else leaf


def _copied(cache: Any, tensors: Iterator[torch.Tensor]) -> Any:
    """A cache of the same kind, with other tensors in what is filled."""
    new = copy.copy(cache)
    if hasattr(cache, "is_updated"):
        new.is_updated = dict(cache.is_updated)
    if _halves(cache) != [cache]:
        for name in HALVES:
            setattr(new, name, _copied(getattr(cache, name), tensors))
        return new
    new.layers = [copy.copy(layer) for layer in cache.layers]
    for layer in new.layers:
        if _is_filled(layer):
            layer.keys, layer.values = next(tensors), next(tensors)
    return new


def _left_in(cache: Any, call: Given, number: Callable[[torch.Tensor], int]) -> CacheOutput:
    place = next((place for place, own in enumerate(call.caches) if own is cache), None)
    if place is None:
        raise NotSupported("it makes its cache of keys and values itself")
    layers = [
        [[number(layer.keys), number(layer.values)] if _is_filled(layer) else [] for layer in half.layers]
        for half in _halves(cache)
    ]
    return CacheOutput(place, layers, _updated(cache))


def _filled(cache: Any, left: CacheOutput, value: Callable[[int], torch.Tensor]) -> Any:
    for half, layers in zip(_halves(cache), left.layers, strict=True):
        for place, numbers in enumerate(layers):
            if not numbers:
                continue
            keys, values = map(value, numbers)
            if place >= len(half.layers) or not _is_filled(half.layers[place]):
                half.update(keys[..., :0, :], values[..., :0, :], place)  # makes the layer; nothing is copied
            half.layers[place].keys, half.layers[place].values = keys, values
    if left.updated:
        cache.is_updated.update(dict.fromkeys(left.updated, True))
    return cache
