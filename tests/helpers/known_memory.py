"""Modules whose live tensors are known by construction, and a program that measures each in a fork of its own.

Run as `python -m tests.helpers.known_memory`: prints {module: figures} as JSON. A process of its own, because one that
has computed on several threads (as a test session may have) cannot be forked safely.
"""

from __future__ import annotations

import faulthandler
import json
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import torch

from profiler.device import Device
from profiler.measure.passes.memory import measure_memory

MB = 1_000_000
LONGEST = 120.0  # seconds of a fork, which takes one


def tensor(megabytes: float) -> torch.Tensor:
    """A tensor of so many MB whose pages are really touched."""
    return torch.ones(int(megabytes * MB / 4))


class Freed(torch.nn.Module):
    """30 MB, freed, then 20 MB: never both at once."""

    peak = 30 * MB

    def forward(self, value: Any) -> Any:
        first = tensor(30)
        del first
        return tensor(20)


class Kept(torch.nn.Module):
    """10 + 20 + 30 MB, all kept until the end."""

    peak = 60 * MB

    def forward(self, value: Any) -> Any:
        return [tensor(10), tensor(20), tensor(30)]


class Nested(torch.nn.Module):
    """Keeps 25 MB while an inner module takes 60 MB and gives it back, then takes 20 MB."""

    peak = 85 * MB

    def __init__(self) -> None:
        super().__init__()
        self.inner = Kept()

    def forward(self, value: Any) -> Any:
        kept = tensor(25)
        self.inner(value)
        return kept, tensor(20)


class InThreads(torch.nn.Module):
    """Two threads at once hold 30 MB each (they wait for each other), while 10 MB are held outside."""

    peak = 70 * MB

    def forward(self, value: Any) -> Any:
        meet = threading.Barrier(2, timeout=60)  # where one fails, the other does not wait for ever

        def work(_: int) -> None:
            held = tensor(30)
            meet.wait()
            del held
            meet.wait()

        kept = tensor(10)
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(work, range(2)))
        return kept


class InOneThread(torch.nn.Module):
    """Allocated in a thread, freed outside of it."""

    peak = 40 * MB

    def forward(self, value: Any) -> Any:
        made: list[torch.Tensor] = []
        thread = threading.Thread(target=lambda: made.append(tensor(40)))
        thread.start()
        thread.join()
        made.clear()
        return tensor(5)


class WithWeights(torch.nn.Module):
    """50 MB of weights that were there before, 50 MB of result."""

    peak = 50 * MB

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(tensor(50), requires_grad=False)

    def forward(self, value: Any) -> Any:
        return self.weight + self.weight


class Spike(torch.nn.Module):
    """100 MB for an instant: a sampling thread would look away."""

    peak = 100 * MB

    def forward(self, value: Any) -> Any:
        tensor(100)


MODULES: dict[str, type[torch.nn.Module]] = {
    module.__name__: module for module in (Freed, Kept, Nested, InThreads, InOneThread, WithWeights, Spike)
}


def measure(module: torch.nn.Module) -> dict[str, Any]:
    module(None)  # the memory pass comes after timed calls, which paid for what is done once
    return measure_memory(module, None, Device("cpu")).model_dump()


def in_fork(work: Callable[[], Any]) -> Any:
    """Do it where a pass does its work: in a fresh fork."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        faulthandler.dump_traceback_later(LONGEST, exit=True)  # one that hangs says where, instead of nothing
        os.write(write, json.dumps(work()).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    return json.loads(text)


if __name__ == "__main__":
    torch.set_num_threads(1)
    made = {name: module() for name, module in MODULES.items()}
    print(json.dumps({name: in_fork(partial(measure, module)) for name, module in made.items()}))
