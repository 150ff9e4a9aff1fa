"""What does a decorator cost that is switched off? One attribute look-up beside the call of its wrapper.

    .venv/bin/python -m benchmarks.switched_off

These take turns in one process, many calls of a function in each, in an order that changes with every turn: the bare
function, twice, for how far two equal things differ here; a wrapper that passes its arguments on and does nothing else;
one that looks at an attribute before; and `@profile(enabled=False)`. Each ratio is the median over turns, to the bare
function of the same turn, with its 95 % CI; the last one is ours over the wrapper with the look-up. With
SPEECH_PROFILE=0 in the environment the decorator gives the function itself back, which is checked and not timed.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

from profiler.decorators import SWITCH, profile
from profiler.report.table import Table
from profiler.results.statistics import median_interval

TURNS = 300
WANTED = 0.05  # more than the wrapper with a look-up, at most
Function = Callable[..., Any]


def does_nothing() -> None: ...


def linear_layer() -> Function:
    """A small real thing: what a call of a network costs at least."""
    import torch

    torch.set_num_threads(1)
    layer, features = torch.nn.Linear(80, 64), torch.randn(100, 80)

    def run() -> Any:
        with torch.inference_mode():
            return layer(features)

    return run


CASES: dict[str, tuple[Callable[[], Function], int]] = {
    "a function that does nothing": (lambda: does_nothing, 2000),
    "a linear layer, 1 s of features": (linear_layer, 100),
}


def wrapped(function: Function) -> Function:
    def wrapper(*arguments: Any, **more: Any) -> Any:
        return function(*arguments, **more)

    return wrapper


class Switch:
    def __init__(self) -> None:
        self.enabled = False


def wrapped_with_a_look_up(function: Function) -> Function:
    held = Switch()

    def wrapper(*arguments: Any, **more: Any) -> Any:
        if not held.enabled:
            return function(*arguments, **more)
        raise AssertionError

    return wrapper


WAYS: dict[str, Callable[[Function], Function]] = {
    "bare": lambda function: function,
    "bare again": lambda function: function,
    "a wrapper": wrapped,
    "a wrapper with a look-up": wrapped_with_a_look_up,
    "switched off": lambda function: profile(enabled=False)(function),  # type: ignore[no-any-return]
}


def seconds_of(function: Function, calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        function()
    return time.perf_counter() - start


def measure(function: Function, calls: int, turns: int) -> list[dict[str, float]]:
    """Seconds by way, for each turn."""
    functions = {name: way(function) for name, way in WAYS.items()}
    for each in functions.values():
        seconds_of(each, calls)
    found, order = [], list(functions)
    for _ in range(turns):
        random.shuffle(order)
        found.append({name: seconds_of(functions[name], calls) for name in order})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=TURNS, help=f"of each case (default: {TURNS})")
    turns = parser.parse_args().turns
    random.seed(0)
    rows = []
    for title, (make, calls) in CASES.items():
        found = measure(make(), calls, turns)
        row = [title, f"{statistics.median(turn['bare'] for turn in found) / calls * 1e9:,.0f} ns"]
        for way in list(WAYS)[1:]:
            row.append(with_interval([turn[way] / turn["bare"] for turn in found]))
        ours = [turn["switched off"] / turn["a wrapper with a look-up"] for turn in found]
        row += [with_interval(ours), "yes" if statistics.median(ours) <= 1 + WANTED else "NO"]
        rows.append(row)
    header = ["time over the bare function's", "bare", *list(WAYS)[1:], "over the look-up's", f"within {WANTED:.0%}"]
    print(Table("A decorator that is switched off (ratios; 1.000 is no cost)", header, rows).markdown())
    os.environ[SWITCH] = "0"
    same = profile(does_nothing) is does_nothing
    print(f"\nWith {SWITCH}=0 the function itself is given back: {'yes' if same else 'NO'}.")


def with_interval(ratios: list[float]) -> str:
    ends = median_interval(sorted(ratios))
    return f"{statistics.median(ratios):.3f}" + (f" [{ends[0]:.3f}, {ends[1]:.3f}]" if ends else "")


if __name__ == "__main__":
    main()
