"""One call -> its MACs by operator, each with the component and the modules that it was computed for.

The tables by component and by label are sums of this one count. It is torch's FlopCounterMode, with formulas where
torch has none, and with a tracker of our own: torch's names classes instead of modules, knows nothing of weights, and
puts hooks into the graph of a training step.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from profiler.measure.autograd import Done, Followed, Stack
from profiler.measure.operations import FLOPS_PER_MAC
from profiler.measure.operations.formulas import flop_formulas
from profiler.measure.operations.uncounted import hidden_in, is_free, name_of, numpy_tallied, operator_of
from profiler.measure.parameters import REST

if TYPE_CHECKING:
    from profiler.training.step import TrainingStep

Modules = dict[str, torch.nn.Module]
Methods = Callable[[Callable[[torch.nn.Module], None], Callable[[], None]], AbstractContextManager[None]]

# They only look at a tensor in another way, though they are not marked as views, or make room without writing.
MOVE_NOTHING = frozenset(
    f"aten::{name}" for name in ("_unsafe_view", "_reshape_alias", "empty", "empty_like", "empty_strided", "new_empty")
)


class Where(NamedTuple):
    component: str  # the owner of the weights; without weights, as in attention, the innermost at work; else `other`
    backward: bool
    modules: tuple[int, ...]  # ids of those at work, outermost first; of a backward pass, in the forward pass


@dataclass(frozen=True)
class Count:
    macs: dict[Where, Counter[str]]  # by operator
    unknown: Counter[str]  # calls of what has no formula
    bytes_moved: int  # an estimate: caches make it less, kernels that read an input several times make it more
    called: set[str]  # components
    with_weights: set[str]  # of their own: a dropout has none, a search those of what it calls

    @property
    def by_operator(self) -> Counter[str]:
        return added(chain.from_iterable(operators.items() for operators in self.macs.values()))

    @property
    def by_component(self) -> Counter[str]:
        return added((where.component, operators.total()) for where, operators in self.macs.items())


def added(amounts: Iterable[tuple[Any, int]]) -> Counter[Any]:
    total: Counter[Any] = Counter()
    for name, amount in amounts:
        total[name] += amount
    return total


def count_call(
    run: Callable[[Any], Any],
    value: Any,
    components: Modules,
    step: TrainingStep | None = None,
    methods: Methods | None = None,
) -> Count:
    """Count one call of `run`. `methods(enter, leave)` watches methods other than `forward` that count as calls."""
    at_work = _AtWork(components, step, methods)
    counter = _Counter(at_work)
    with _uncompiled(gradients=step is not None), numpy_tallied(at_work.unknown), counter:
        run(value)
    macs = {
        where: added((name_of(operator), flops // FLOPS_PER_MAC) for operator, flops in operators.items())
        for where, operators in counter.flop_counts.items()
    }
    return Count(macs, at_work.unknown, counter.bytes_moved, at_work.called, at_work.with_weights)


@contextmanager
def _uncompiled(gradients: bool) -> Iterator[None]:
    """Compiled kernels do not pass the counter; uncompiled, the same model computes the same."""
    in_use = "torch._dynamo" in sys.modules
    with torch.set_grad_enabled(gradients), torch.compiler.set_stance("force_eager") if in_use else nullcontext():
        yield


class _AtWork:
    """Which modules are being called, and which component owns which weights; FlopCounterMode's tracker.

    Weights come first: code that calls a method other than `forward` passes no hook. A transposed or sliced weight
    has the storage of the parameter, on the meta device too. Hooks are global, not the modules' own: modules with
    hooks of their own leave their fused kernels unused.
    """

    def __init__(self, components: Modules, step: TrainingStep | None, methods: Methods | None) -> None:
        self.parents: list[Where] = []  # what FlopCounterMode adds an operator to
        self.called: set[str] = set()
        self.with_weights: set[str] = set()
        self.unknown: Counter[str] = Counter()
        self._step, self._methods = step, methods
        self._followed = Followed(self._backward, {}) if step is not None else None
        self._in_backward = False
        self._stack: list[tuple[int, str | None]] = []  # modules, and the innermost component in each of them
        self._of_storage: dict[int, str] = {}
        self._of_module: dict[int, str] = {}
        # A component inside another one is the smaller: it comes first and keeps what is its own.
        for name, part in sorted(components.items(), key=lambda item: sum(1 for _ in item[1].modules())):
            for module in part.modules():
                if self._of_module.setdefault(id(module), name) == name and _has_weights(module):
                    self.with_weights.add(name)
            for tensor in chain(part.parameters(), part.buffers()):
                key = _storage(tensor)
                if key is not None:
                    self._of_storage.setdefault(key, name)

    def look(self, tensors: list[torch.Tensor]) -> None:
        """Where an operator on these tensors belongs."""
        owner = next((self._of_storage[key] for key in map(_storage, tensors) if key in self._of_storage), None)
        if owner is not None:
            self.called.add(owner)
        modules = tuple(module for module, _ in self._stack)
        self.parents = [Where(owner or self._component or REST, self._in_backward, modules)]

    @property
    def _component(self) -> str | None:
        return self._stack[-1][1] if self._stack else None

    def __enter__(self) -> None:
        with ExitStack() as watching:
            watching.callback(register_module_forward_pre_hook(self._call).remove)
            watching.callback(register_module_forward_hook(self._leave, always_call=True).remove)
            if self._methods is not None:
                watching.enter_context(self._methods(lambda module: self._enter(module, self._component), self._leave))
            if self._step is not None and self._followed is not None:
                watching.enter_context(self._step.telling(self._followed.follow))
            self._watching = watching.pop_all()

    def __exit__(self, *error: object) -> None:
        self._watching.close()

    def _call(self, module: torch.nn.Module, arguments: Any) -> None:
        component = self._of_module.get(id(module), self._component)
        if component is not None:
            self.called.add(component)
        self.unknown.update(hidden_in(module))
        self._enter(module, component)

    def _enter(self, module: torch.nn.Module, component: str | None) -> None:
        self._stack.append((id(module), component))
        if self._followed is not None:
            self._followed.entered(self._stack[-1])

    def _leave(self, *call: Any) -> None:
        self._stack.pop()
        if self._followed is not None:
            self._followed.left()

    def _backward(self, stack: Stack) -> Done:
        before = self._stack, self._in_backward
        self._stack, self._in_backward = list(stack), True

        def done() -> None:
            self._stack, self._in_backward = before

        return done


class _Counter(FlopCounterMode):
    """Torch's, which also tallies what has no formula, and the bytes that operators move."""

    def __init__(self, at_work: _AtWork) -> None:
        super().__init__(display=False, custom_mapping=flop_formulas())
        self.mod_tracker = at_work
        self.bytes_moved = 0

    def __enter__(self) -> _Counter:
        self.mod_tracker.__enter__()
        self.mode = _Dispatch(self)
        self.mode.__enter__()
        return self

    def add(self, func: Any, result: Any, args: Any, kwargs: Any) -> None:
        self.bytes_moved += _bytes_touched(func, args, result)
        operator = operator_of(func)
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        try:
            if operator not in self.flop_registry:
                # Without a tensor it makes something: there is nothing to multiply.
                known = is_free(func) or not tensors
            else:
                self.mod_tracker.look(tensors)
                known = not any("sparse" in str(tensor.layout) for tensor in tensors)  # zeros are not multiplied
                if known:
                    self._count_flops(operator, result, args, kwargs)
        except (AssertionError, AttributeError, IndexError, RuntimeError, TypeError, ValueError):
            known = False
        if not known:
            self.mod_tracker.unknown[name_of(operator)] += 1


class _Dispatch(TorchDispatchMode):
    """Sees each operator below autograd and above the kernels.

    Torch's own takes apart what has a formula, such as a quantised LSTM, and does not run all that is nested or of
    higher order.
    """

    supports_higher_order_operators = True

    def __init__(self, counter: _Counter) -> None:
        super().__init__()
        self.counter = counter

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if operator_of(func) not in self.counter.flop_registry and not is_free(func) and hasattr(func, "decompose"):
            # Under inference_mode composite operators arrive whole; their parts are what can be counted.
            with self:
                result = func.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        result = func(*args, **kwargs)
        self.counter.add(func, result, args, kwargs)
        return result


def _bytes_touched(func: Any, args: Any, result: Any) -> int:
    """Each input and output tensor once: what must be moved if nothing stayed in a cache between operators."""
    if getattr(func, "is_view", False) or name_of(operator_of(func)) in MOVE_NOTHING:
        return 0
    return sum(_bytes(leaf) for leaf in {id(leaf): leaf for leaf in tree_leaves((args, result))}.values())


def _bytes(leaf: Any) -> int:
    if isinstance(leaf, torch.Tensor):
        return int(leaf.numel()) * int(leaf.element_size())
    if isinstance(leaf, torch.ScriptObject) and hasattr(leaf, "unpack"):  # packed int8 weights
        return sum(_bytes(part) for part in tree_leaves(leaf.unpack()))
    return 0


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
