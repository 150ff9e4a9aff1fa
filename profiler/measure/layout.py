"""New places in memory for the weights of a model, in every process that is measured.

A fork finds the weights where they were loaded. Where they happen to lie (which pages, hence which sets of the caches)
makes the same code a few per cent faster or slower, in all rounds of a run alike and differently in the next run: no
number of rounds would average it out, and the interval over rounds would not know of it. A copy of the weights in each
process makes it one of the things that differ from round to round, which the interval does know of.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

MOST = 0.25  # of the memory that is available


def move_weights(modules: Iterable[torch.nn.Module], room: int | None = None) -> None:
    """Copy every parameter and buffer to new memory; what shares memory goes on sharing it.

    Weights that are packed in a format of their own (int8) stay where they are; so do all where they would take more
    than a share of `room`, the bytes that are available: those that were loaded stay in memory beside the copy.
    """
    import torch

    modules = list(modules)
    size = sum(tensor.nbytes for module in modules for tensor in (*module.parameters(), *module.buffers()))
    if room is not None and size > MOST * room:
        return
    moved: dict[int, torch.Tensor] = {}
    copies: dict[int, torch.UntypedStorage] = {}  # of the memory at an address
    with torch.no_grad():
        for module in modules:
            for tensor in (*module.parameters(), *module.buffers()):
                if id(tensor) in moved or tensor.device.type != "cpu":
                    continue
                storage = tensor.untyped_storage()
                if storage.nbytes() != tensor.numel() * tensor.element_size():
                    continue  # a view of something larger, which others may share
                # Some tensors do not let their memory be exchanged, such as those made in inference mode.
                with contextlib.suppress(RuntimeError):
                    copy = copies.get(storage.data_ptr())
                    if copy is None:
                        copy = tensor.data.clone(memory_format=torch.preserve_format).untyped_storage()
                        copies[storage.data_ptr()] = copy
                    tensor.data = torch.empty(0, dtype=tensor.dtype).set_(copy, 0, tensor.shape, tensor.stride())
                    moved[id(tensor)] = tensor
