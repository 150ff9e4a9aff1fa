"""Tells when modules are called, without changing how they are called, and adds up how long each part took.

Hooks are global, not the modules' own: modules with hooks of their own leave their fused kernels unused. Of labelled
modules other methods than `forward` are seen too, such as the step of a decoder that a search calls. In training, a
part's backward phase is what autograd does for what the part computed in the forward phase.
"""

from __future__ import annotations

import functools
import statistics
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from types import FunctionType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from profiler.measure.autograd import Done, Followed, Stack
from profiler.measure.breakdown.labels import Chains, LabelledCall, Tree

if TYPE_CHECKING:
    from profiler.training.step import TrainingStep


# A method that calls no module of the tree was no work of the part: a look at a size, a state to begin with.
Kind = Literal["forward", "method"]
OUTSIDE = -1  # a module that is not in the tree
Enter = Callable[[int, Kind], None]
Leave = Callable[[], None]
Closed = Callable[[int, int, int], None]  # part, start, end
Parts = Sequence[int]
SECONDS = 0.5
LEAST, MOST = 2, 10  # turns
TRIALS, TRIAL_TURNS = 200, 3


@contextmanager
def watching(tree: Tree, labelled: Iterable[int], enter: Enter, leave: Leave) -> Iterator[None]:
    """`enter(place, kind)` and `leave()` around every call while this lasts, in the thread that calls."""
    place_of = tree.index.get

    def before(module: torch.nn.Module, arguments: Any) -> None:
        enter(place_of(id(module), OUTSIDE), "forward")

    def after(module: torch.nn.Module, arguments: Any, output: Any) -> None:
        leave()

    def method(module: torch.nn.Module) -> None:
        enter(tree.index[id(module)], "method")

    with watching_methods([tree.modules[place] for place in labelled], method, leave), ExitStack() as hooks:
        hooks.callback(register_module_forward_pre_hook(before).remove)
        hooks.callback(register_module_forward_hook(after, always_call=True).remove)
        yield


@contextmanager
def watching_methods(
    modules: Iterable[torch.nn.Module], enter: Callable[[torch.nn.Module], None], leave: Leave
) -> Iterator[None]:
    def wrap(module: torch.nn.Module, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def call(*arguments: Any, **more: Any) -> Any:
            enter(module)
            try:
                return method(*arguments, **more)
            finally:
                leave()

        return call

    with ExitStack() as wrapped:
        for module in modules:
            for name in _methods(module):
                module.__dict__[name] = wrap(module, getattr(module, name))
                wrapped.callback(module.__dict__.pop, name, None)
        yield


def _methods(module: torch.nn.Module) -> list[str]:
    """Public methods that the model's own classes add to torch's. A script has none that can be seen."""
    own: dict[str, Any] = {}
    for owner in reversed(type(module).__mro__ if not isinstance(module, torch.jit.ScriptModule) else ()):
        if not owner.__module__.startswith("torch.") and owner is not object:
            own |= vars(owner)
    return [
        name
        for name, value in own.items()
        if isinstance(value, FunctionType)
        and not name.startswith("_")
        and not hasattr(torch.nn.Module, name)
        and name not in module.__dict__
    ]


class LogEntry(NamedTuple):
    """A call begins (`place` and `kind`), or the innermost one ends (neither). `at` is nanoseconds."""

    at: int
    place: int | None = None
    kind: Kind | None = None


Log = Sequence[LogEntry]


@dataclass
class Sums:
    """Of one part, over all calls of a log."""

    calls: int = 0
    total: int = 0  # a part inside itself counts once
    own: int = 0  # without the modules called in it; for a label, without the labels in it


@dataclass
class _Frame:
    kind: Kind
    opened: list[int]
    seen_module: bool = False


@dataclass
class _Open:
    part: int
    start: int
    inner: int = 0


class Tally:
    """Adds up logs, one per thread and call."""

    def __init__(self, chains: Chains, closed: Closed | None = None) -> None:
        self.chains = chains
        self.sums = [Sums() for _ in range(len(chains))]
        self.labelled = 0  # time in which some label was at work
        self._closed = closed

    def add(self, log: Log) -> None:
        frames: list[_Frame] = []
        stacks: tuple[list[_Open], list[_Open]] = ([], [])  # modules, labels
        active: set[int] = set()
        for at, place, kind in log:
            if place is not None and kind is not None:
                parts = self.chains.of[place] if place != OUTSIDE else []
                opened = [part for part in parts if part not in active]
                frames.append(_Frame(kind, opened))
                active.update(opened)
                for part in opened:
                    stacks[self.chains.is_label(part)].append(_Open(part, at))
                continue
            frame = frames.pop()
            counts = frame.kind == "forward" or frame.seen_module
            for part in reversed(frame.opened):
                active.discard(part)
                is_label = self.chains.is_label(part)
                stack = stacks[is_label]
                ended = stack.pop()
                if counts:
                    self._close(ended, at, stack, is_label)
            if frames:
                frames[-1].seen_module |= counts

    def _close(self, ended: _Open, at: int, stack: list[_Open], is_label: bool) -> None:
        took = at - ended.start
        sums = self.sums[ended.part]
        sums.calls += 1
        sums.total += took
        sums.own += took - ended.inner
        if stack:
            stack[-1].inner += took
        elif is_label:
            self.labelled += took
        if self._closed is not None:
            self._closed(ended.part, ended.start, at)


@contextmanager
def watching_step(
    chains: Chains,
    enter: Enter,
    leave: Leave,
    step: TrainingStep | None = None,
    at_work: Callable[[Parts], Done] | None = None,
) -> Iterator[Followed | None]:
    """Watch calls of modules; where a training step is run, also the steps of its backward pass.

    `at_work(parts)` is called before each of those, with the parts that it belongs to, and what it gives after it.
    """
    if step is None or at_work is None:
        with watching(chains.tree, chains.labelled_places, enter, leave):
            yield None
        return
    followed = follow_parts(chains, at_work)

    def enter_both(place: int, kind: Kind) -> None:
        followed.entered(place)
        enter(place, kind)

    def leave_both() -> None:
        leave()
        followed.left()

    with watching(chains.tree, chains.labelled_places, enter_both, leave_both), step.telling(followed.follow):
        yield followed


def follow_parts(chains: Chains, at_work: Callable[[Parts], Done]) -> Followed:
    """A follower that tells parts instead of the modules that were being called."""
    known: dict[Stack, Parts] = {}

    def of_modules(stack: Stack) -> Done:
        parts = known.get(stack)
        if parts is None:
            inside = tuple(place for place in stack if place != OUTSIDE)
            parts = known[stack] = tuple(chains.at_work(inside))
        return at_work(parts)

    return Followed(of_modules, chains.owners)


class BackwardTally:
    """Total and self time by part in nanoseconds, over all backward passes so far; `calls` is the steps of autograd."""

    def __init__(self, chains: Chains, wait: Callable[[], None] | None = None) -> None:
        self.chains = chains
        self.sums = [Sums() for _ in range(len(chains))]
        self.labelled = 0  # time in which some label was at work
        self._wait = wait
        self._log: list[tuple[Parts, int]] = []

    def at_work(self, parts: Parts) -> Done:
        log, wait, clock = self._log, self._wait, time.perf_counter_ns
        if wait is not None:
            wait()
        started = clock()

        def done() -> None:
            if wait is not None:
                wait()
            log.append((parts, clock() - started))

        return done

    def add_up(self) -> None:
        """Sums of what was noted; after the pass, so that it takes no time in it."""
        for parts, took in self._log:
            innermost = self.chains.innermost(parts)
            for part in parts:
                sums = self.sums[part]
                sums.calls += 1
                sums.total += took
                sums.own += took if part in innermost else 0
            self.labelled += took if any(self.chains.is_label(part) for part in parts) else 0
        self._log.clear()


def spans(started: list[tuple[int, int, Parts]], closed: Callable[[int, int, int], Any]) -> None:
    """Steps of autograd (start, end, parts) -> for each part the times in which one after another was its own."""
    since: dict[int, int] = {}
    last = 0
    for start, end, parts in sorted(started, key=lambda step: step[0]):
        for part in [part for part in since if part not in parts]:
            closed(part, since.pop(part), last)
        for part in parts:
            since.setdefault(part, start)
        last = end
    for part, start in since.items():
        closed(part, start, last)


def wall(call: LabelledCall) -> int:
    """Nanoseconds of the call as it is."""
    call.device.synchronize()
    start = time.perf_counter_ns()
    call.run(call.value)
    call.device.synchronize()
    return time.perf_counter_ns() - start


# -- times of parts: calls with a clock in the hooks, taking turns with bare ones, which tells what the hooks cost


@dataclass
class Timed:
    """Of all labelled calls together."""

    tally: Tally
    backward: BackwardTally | None  # in training
    labelled_ns: list[int] = field(default_factory=list)  # wall time of each labelled call
    bare_ns: list[int] = field(default_factory=list)  # and of each call without hooks
    module_calls: int = 0  # in one call
    hook_ns: float = 0.0  # what labels add to each of them
    threads: int = 0
    steps: int = 0  # of autograd, in one call
    step_ns: float = 0.0  # what labels add to each of them
    optimizer_ns: float = 0.0  # the optimizer's phase of one call

    @property
    def calls(self) -> int:
        return len(self.labelled_ns)

    @property
    def overhead(self) -> float | None:
        """How much longer a labelled call took than a bare one, relative to it; noise of the machine is in it."""
        if not self.bare_ns:
            return None
        return statistics.median(self.labelled_ns) / max(1, statistics.median(self.bare_ns)) - 1

    @property
    def known_overhead(self) -> float:
        """The same, as the cost of a hook says it must be."""
        added = self.module_calls * self.hook_ns + self.steps * self.step_ns
        return added / max(1, statistics.median(self.bare_ns or self.labelled_ns))


def time_parts(call: LabelledCall, least: int = LEAST, turns: bool = True) -> Timed:
    """Calls with labels, at least so many, in turns with bare ones as long as that tells what the labels cost."""
    step, wait = call.step, call.device.synchronize if call.device.kind != "cpu" else None
    found = Timed(Tally(call.chains), BackwardTally(call.chains, wait) if step is not None else None)
    bare_ns, entries = found.bare_ns, 0
    while True:
        turn = turns and (
            len(bare_ns) < LEAST or (sum(found.labelled_ns + bare_ns) < SECONDS * 1e9 and len(bare_ns) < MOST)
        )
        if not turn and found.calls >= least:
            break
        if turn and not len(bare_ns) % 2:
            bare_ns.append(wall(call))
            turn = False
        if step is not None:
            step.forget()
        took, logs, followed = labelled_call(call, found.backward)
        found.labelled_ns.append(took)
        if turn:
            bare_ns.append(wall(call))
        if step is not None and found.backward is not None:
            found.backward.add_up()
            found.optimizer_ns += 1e9 * sum(call[-1] for call in (step.times() or [])[:1])
            found.steps = followed.steps if followed is not None else 0
        found.threads = max(found.threads, len(logs))
        for log in logs.values():
            entries += len(log)
            found.tally.add(log)
    found.module_calls, found.hook_ns = entries // 2 // found.calls, _hook_ns(call)
    if step is not None:
        found.optimizer_ns /= found.calls
        found.step_ns = _step_ns(call.chains)
    return found


def labelled_call(
    call: LabelledCall, backward: BackwardTally | None = None
) -> tuple[int, dict[int, list[LogEntry]], Followed | None]:
    """Wall time of the call, and its log in each thread. The clock is read last on the way in, first on the way out."""
    logs: dict[int, list[LogEntry]] = defaultdict(list)
    clock, thread = time.perf_counter_ns, threading.get_ident
    wait = call.device.synchronize if call.device.kind != "cpu" else None
    at_work = backward.at_work if backward is not None else None

    def enter(place: int, kind: Kind) -> None:
        log = logs[thread()]
        if wait is not None:
            wait()
        log.append(LogEntry(clock(), place, kind))

    def leave() -> None:
        if wait is not None:
            wait()
        logs[thread()].append(LogEntry(clock()))

    with watching_step(call.chains, enter, leave, call.step, at_work) as followed:
        took = wall(call)
    return took, logs, followed


def _hook_ns(call: LabelledCall) -> float:
    """What the hooks cost at one call of a module: calls of one that does nothing, with hooks and without."""
    nothing = torch.nn.Identity()

    def calls(value: None) -> None:
        for _ in range(TRIALS):
            nothing(value)

    empty = replace(call, run=calls, value=None)
    tally = BackwardTally(call.chains) if call.step is not None else None
    turns = [(labelled_call(empty, tally)[0], wall(empty)) for _ in range(TRIAL_TURNS)]
    return max(0, min(turn[0] for turn in turns) - min(turn[1] for turn in turns)) / TRIALS


def _step_ns(chains: Chains) -> float:
    """The same for one step of autograd: backward passes of a chain of steps that do nothing to speak of."""

    def chain() -> Any:
        value = torch.ones(1, requires_grad=True)
        for _ in range(TRIALS):
            value = value * 1.0
        return value

    inside = chains.tree.path(max(range(len(chains.tree)), key=lambda place: len(chains.of[place])))

    def passed(followed: Followed | None) -> int:
        if followed is not None:
            for place in inside:
                followed.entered(place)
        loss = chain()
        start = time.perf_counter_ns()
        if followed is not None:
            followed.follow(loss)
        loss.backward()
        return time.perf_counter_ns() - start

    tally = BackwardTally(chains)
    turns = [(passed(follow_parts(chains, tally.at_work)), passed(None)) for _ in range(TRIAL_TURNS)]
    return max(0, min(turn[0] for turn in turns) - min(turn[1] for turn in turns)) / TRIALS
