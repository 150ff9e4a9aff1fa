"""Follows a backward pass: whose work each step of autograd is.

Every step has the number under which the forward pass made it; what was at work then is whose it is. The graph itself
is left as it is: hooks are on its steps, not on modules or tensors.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any

Stack = tuple[Any, ...]  # what was at work, outermost first
Done = Callable[[], None]
AtWork = Callable[[Stack], Done]


class Followed:
    """Tell it what is `entered` and `left` in the forward pass, then `follow(loss)` before `loss.backward()`.

    Before each step `at_work` is called with what the step belongs to; what it gives is called after the step.
    `owners` has what the parameters belong to, by id: their gradients are added up in steps that no forward pass made.
    """

    def __init__(self, at_work: AtWork, owners: Mapping[int, Hashable]) -> None:
        import torch

        self.steps = 0  # of autograd, so far
        self._at_work, self._owners = at_work, owners
        self._next_number = torch._C._autograd._get_sequence_nr
        self._stack: list[Any] = []
        self._numbers: list[int] = []  # of the next step of autograd, whenever something was entered or left
        self._stacks: list[Stack] = []  # what was at work from then on

    def entered(self, thing: Any) -> None:
        self._stack.append(thing)
        self._note()

    def left(self) -> None:
        self._stack.pop()
        self._note()

    def _note(self) -> None:
        self._numbers.append(self._next_number())
        self._stacks.append(tuple(self._stack))

    def follow(self, loss: Any) -> None:
        for step in _steps(loss.grad_fn):
            self.steps += 1
            self._watch(step, self._stack_of(step))
        self._numbers.clear()
        self._stacks.clear()

    def _stack_of(self, step: Any) -> Stack:
        variable = getattr(step, "variable", None)
        if variable is not None:
            owner = self._owners.get(id(variable))
            return () if owner is None else (owner,)
        at = bisect.bisect_right(self._numbers, step._sequence_nr()) - 1
        return self._stacks[at] if at >= 0 else ()

    def _watch(self, step: Any, stack: Stack) -> None:
        done: Done | None = None

        def before(gradients: Any) -> None:
            nonlocal done
            done = self._at_work(stack)

        def after(inputs: Any, outputs: Any) -> None:
            if done is not None:
                done()

        step.register_prehook(before)
        step.register_hook(after)


def _steps(last: Any) -> Iterator[Any]:
    seen, left = set(), [last]
    while left:
        step = left.pop()
        if step is not None and step not in seen:
            seen.add(step)
            yield step
            left += [before for before, _ in step.next_functions]
