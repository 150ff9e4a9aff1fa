"""Which component a multiplication belongs to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from itertools import chain
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from profiler.measure.autograd import Done, Followed, Stack

if TYPE_CHECKING:
    from profiler.training.step import TrainingStep

# What `torch.jit.optimize_for_inference` makes of a convolution: it goes from the interpreter straight to the kernel.
UNSEEN_IN_SCRIPTS = "prim::mkldnn_convolution"


class Owners:
    """Components by their weights, and by the calls in progress.

    Weights come first: code that calls a method other than `forward` passes no hook. A transposed or sliced weight
    has the storage of the parameter, on the meta device too. Hooks are global, not the modules' own: modules with
    hooks of their own leave their fused kernels unused.
    """

    def __init__(self, components: dict[str, torch.nn.Module]) -> None:
        self._of_storage: dict[int, str] = {}
        self._of_module: dict[int, str] = {}
        self._active: list[str | None] = []
        self.called: set[str] = set()
        self.with_weights: set[str] = set()  # of their own: a dropout has none, a search those of what it calls
        # A component inside another one is the smaller: it comes first and keeps what is its own.
        for name, part in sorted(components.items(), key=lambda item: sum(1 for _ in item[1].modules())):
            for module in part.modules():
                if self._of_module.setdefault(id(module), name) == name and _has_weights(module):
                    self.with_weights.add(name)
            for tensor in chain(part.parameters(), part.buffers()):
                key = _storage(tensor)
                if key is not None:
                    self._of_storage.setdefault(key, name)

    def of(self, tensors: list[torch.Tensor]) -> str | None:
        """The component that owns one of these, else the innermost that is being called."""
        for tensor in tensors:
            key = _storage(tensor)
            if key in self._of_storage:
                name = self._of_storage[key]
                self.called.add(name)
                return name
        return self._active[-1] if self._active else None

    @contextmanager
    def following_calls(self, unknown: Counter[str], step: TrainingStep | None = None) -> Iterator[None]:
        """Watch which module is being called, and tally what a script computes without dispatching it.

        Steps of a backward pass belong to the component that was being called in the forward pass.
        """
        followed = Followed(self._backward, {}) if step is not None else None

        def enter(module: torch.nn.Module, arguments: Any) -> None:
            name = self._of_module.get(id(module), self._active[-1] if self._active else None)
            self._active.append(name)
            if followed is not None:
                followed.entered(name)
            if name is not None:
                self.called.add(name)
            if isinstance(module, torch.jit.ScriptModule):
                hidden = len(module.inlined_graph.findAllNodes(UNSEEN_IN_SCRIPTS))
                unknown.update({UNSEEN_IN_SCRIPTS: hidden} if hidden else {})

        def leave(module: torch.nn.Module, arguments: Any, output: Any) -> None:
            self._active.pop()
            if followed is not None:
                followed.left()

        hooks = (register_module_forward_pre_hook(enter), register_module_forward_hook(leave, always_call=True))
        try:
            with step.telling(followed.follow) if step is not None and followed is not None else nullcontext():
                yield
        finally:
            for hook in hooks:
                hook.remove()

    def _backward(self, stack: Stack) -> Done:
        self._active.append(next((name for name in reversed(stack) if name is not None), None))

        def done() -> None:
            self._active.pop()

        return done


def _has_weights(module: torch.nn.Module) -> bool:
    """In itself, not in its children: parameters, buffers, packed weights, or the constants of a frozen script."""
    own = chain(module.parameters(recurse=False), module.buffers(recurse=False))
    if isinstance(module, torch.jit.ScriptModule) or next(own, None) is not None:
        return True
    return next(module.children(), None) is None and bool(module.state_dict())


def _storage(tensor: torch.Tensor) -> int | None:
    """What is the same for all views of a tensor; None for those without a storage (packed, mkldnn, sparse)."""
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):
        return None
