"""Times of parts: calls with a clock in the hooks, taking turns with bare ones, which tells what the hooks cost."""

from __future__ import annotations

import statistics
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Any

from profiler.measure.autograd import Followed
from profiler.measure.breakdown.labels import Chains, LabelledCall
from profiler.measure.breakdown.watch import BackwardTally, Kind, LogEntry, Tally, follow_parts, wall, watching_step

SECONDS = 0.5
LEAST, MOST = 2, 10  # turns
TRIALS, TRIAL_TURNS = 200, 3


@dataclass(frozen=True)
class Timed:
    """Of `calls` labelled calls together."""

    tally: Tally
    calls: int
    labelled_ns: list[int]  # wall time of each labelled call
    bare_ns: list[int]  # and of each call without hooks
    module_calls: int  # in one call
    hook_ns: float  # what labels add to each of them
    threads: int
    backward: BackwardTally | None = None  # in training
    steps: int = 0  # of autograd, in one call
    step_ns: float = 0.0  # what labels add to each of them
    optimizer_ns: float = 0.0  # the optimizer's phase of one call

    @property
    def overhead(self) -> float:
        """How much longer a labelled call took than a bare one, relative to it; noise of the machine is in it."""
        return statistics.median(self.labelled_ns) / max(1, statistics.median(self.bare_ns)) - 1

    @property
    def known_overhead(self) -> float:
        """The same, as the cost of a hook says it must be."""
        added = self.module_calls * self.hook_ns + self.steps * self.step_ns
        return added / max(1, statistics.median(self.bare_ns))


def time_parts(call: LabelledCall, least: int = LEAST) -> Timed:
    """Calls with labels, at least so many, in turns with bare ones as long as that tells what the labels cost."""
    tally, step = Tally(call.chains), call.step
    wait = call.device.synchronize if call.device.kind != "cpu" else None
    backward = BackwardTally(call.chains, wait) if step is not None else None
    labelled_ns: list[int] = []
    bare_ns: list[int] = []
    optimizer_ns: list[float] = []
    entries = threads = steps = 0
    while True:
        turn = len(bare_ns) < LEAST or (sum(labelled_ns) + sum(bare_ns) < SECONDS * 1e9 and len(bare_ns) < MOST)
        if not turn and len(labelled_ns) >= least:
            break
        if turn and not len(bare_ns) % 2:
            bare_ns.append(wall(call))
            turn = False
        if step is not None:
            step.forget()
        took, logs, followed = labelled_call(call, backward)
        labelled_ns.append(took)
        if turn:
            bare_ns.append(wall(call))
        if step is not None:
            if backward is not None:
                backward.add_up()
            optimizer_ns.append(1e9 * sum(call[-1] for call in (step.times() or [])[:1]))
            steps = followed.steps if followed is not None else 0
        threads = max(threads, len(logs))
        for log in logs.values():
            entries += len(log)
            tally.add(log)
    return Timed(
        tally,
        len(labelled_ns),
        labelled_ns,
        bare_ns,
        entries // 2 // len(labelled_ns),
        _hook_ns(call),
        threads,
        backward,
        steps,
        _step_ns(call.chains) if step is not None else 0.0,
        statistics.fmean(optimizer_ns) if optimizer_ns else 0.0,
    )


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
    import torch

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
    import torch

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
