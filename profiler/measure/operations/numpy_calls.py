"""Numpy's products and transforms, which some feature extractors use: torch does not see them, so they are named."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

WATCHED = {
    "numpy.fft": ("fft", "ifft", "rfft", "irfft", "fftn", "ifftn", "rfftn", "irfftn"),
    "numpy": ("dot", "einsum", "inner", "tensordot"),
}


@contextmanager
def watch_numpy(calls: Counter[str]) -> Iterator[None]:
    """Tally calls by name while this lasts. The operator `@` does not pass here."""
    import importlib

    def watched(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*arguments: Any, **more: Any) -> Any:
            calls[name] += 1
            return function(*arguments, **more)

        return call

    originals = [
        (module, name, getattr(module, name))
        for module, names in ((importlib.import_module(path), names) for path, names in WATCHED.items())
        for name in names
    ]
    for module, name, function in originals:
        setattr(module, name, watched(f"{module.__name__}.{name}", function))
    try:
        yield
    finally:
        for module, name, function in originals:
            setattr(module, name, function)
