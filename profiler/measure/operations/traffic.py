"""Bytes that an operator reads and writes: each of its input and output tensors once.

What a call must move if nothing stayed in a cache between operators. It is an estimate: caches make it less, kernels
that read an input several times make it more.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._pytree import tree_leaves

# They only look at a tensor in another way, though they are not marked as views, or make room without writing.
MOVE_NOTHING = frozenset(
    f"aten::{name}" for name in ("_unsafe_view", "_reshape_alias", "empty", "empty_like", "empty_strided", "new_empty")
)


def bytes_touched(func: Any, name: str, args: Any, result: Any) -> int:
    if getattr(func, "is_view", False) or name in MOVE_NOTHING:
        return 0
    seen: set[int] = set()
    total = 0
    for leaf in (*tree_leaves(args), *tree_leaves(result)):
        if id(leaf) not in seen:
            seen.add(id(leaf))
            total += _bytes(leaf)
    return total


def _bytes(leaf: Any) -> int:
    if isinstance(leaf, torch.Tensor):
        return int(leaf.numel()) * int(leaf.element_size())
    if isinstance(leaf, torch.ScriptObject) and hasattr(leaf, "unpack"):  # packed int8 weights
        return sum(_bytes(part) for part in tree_leaves(leaf.unpack()))
    return 0
