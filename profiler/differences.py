"""What is not the same in two runs: keys of the recipe, versions, machine. Says, judges nothing."""

from __future__ import annotations

from typing import Any, NamedTuple

SAME_MACHINE = ("host", "cpu", "cores", "memory_bytes", "gpu", "os", "python")
PACKAGES_THAT_MATTER = ("torch", "torchaudio", "speechbrain", "transformers", "numpy", "speech-profiler")


class Unequal(NamedTuple):
    """A name, and what it was in the one and in the other."""

    name: str
    before: Any
    after: Any


def unequal_keys(before: Any, after: Any, prefix: str = "") -> list[Unequal]:
    """Dotted keys of nested dictionaries whose values differ; lists and values are compared as they are."""
    if isinstance(before, dict) and isinstance(after, dict):
        found = []
        for key in sorted({*before, *after}, key=str):
            found += unequal_keys(before.get(key), after.get(key), f"{prefix}.{key}" if prefix else str(key))
        return found
    return [] if before == after else [Unequal(prefix, before, after)]
