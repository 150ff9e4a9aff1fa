"""Does measuring change what is measured? Our timing over a bare loop's, interleaved in one process of the same kind.

    .venv/bin/python -m benchmarks.observer_effect [--seconds 90]

For each model, on one thread, in a fork of a process that holds the loaded model, as in a run, these take turns call by
call on the same input, in an order that changes with every turn: a bare timed call, another one, and a call of our
timing pass. Each ratio is the median over turns of (a call / the bare call of the same turn), with its 95 % CI. After
that, for comparison, a few calls under torch.profiler, with memory and with stacks.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from profiler.audio import Speech
from profiler.device import Device
from profiler.measure.latency import RoundSize, time_calls
from profiler.models.load import load_model
from profiler.models.model import Model, ModelRequest, model_request
from profiler.recipe.load import load_recipe
from profiler.report.table import Table
from profiler.results.statistics import median_interval
from profiler.shipped import shipped_folder

WANTED = 0.02
RECIPES = shipped_folder() / "recipes"


def recipe_request(name: str) -> ModelRequest:
    loaded = load_recipe(RECIPES / f"{name}.yaml", {"pretrained_model.weights": "random"})
    return model_request(loaded.recipe, RECIPES)


# name -> (what to load, seconds of audio)
CASES: dict[str, tuple[Callable[[], ModelRequest], float]] = {
    "wav2vec2-base, 0.5 s x 1": (lambda: recipe_request("wav2vec2"), 0.5),
    "CRDNN with beam search, 0.5 s x 1": (lambda: recipe_request("crdnn"), 0.5),
    "5000 tiny operations": (lambda: ModelRequest("benchmarks.models.TinyOperations", "Module", trust=True), 1.0),
}


def bare(run: Callable[[Any], Any], inputs: list[Any], calls: int) -> float:
    samples = []
    for number in range(calls):
        start = time.perf_counter()
        run(inputs[number // 2 % len(inputs)])
        samples.append(time.perf_counter() - start)
    return statistics.median(samples)


def ours(run: Callable[[Any], Any], inputs: list[Any], calls: int) -> float:
    size = RoundSize(warmup=0, min_calls=calls, max_calls=calls)
    return statistics.median(time_calls(run, inputs, Device("cpu"), size).samples)


def profiled(stacks: bool) -> Callable[[Callable[[Any], Any], list[Any], int], float]:
    def loop(run: Callable[[Any], Any], inputs: list[Any], calls: int) -> float:
        from torch.profiler import ProfilerActivity, profile

        with profile(activities=[ProfilerActivity.CPU], profile_memory=True, with_stack=stacks):
            return bare(run, inputs, calls)

    return loop


WAYS = {"bare": bare, "bare again": bare, "ours": ours}
PROFILED = {"torch.profiler, memory": profiled(False), "torch.profiler, memory and stacks": profiled(True)}
PROFILED_TURNS = 5


def compare(model: Model, seconds: float, budget: float) -> dict[str, list[float]]:
    """Ratios to the bare call of the same turn, a list for each way."""
    import torch

    speech = Speech(shipped_folder() / "samples" / "speech.flac", model.rate)
    inputs = [model.prepare(speech.batch(seconds, 1, seed)) for seed in (0, 0)]  # ours begins with the second
    ratios: dict[str, list[float]] = {name: [] for name in (*WAYS, *PROFILED)}
    order = list(WAYS)
    with torch.no_grad():
        bare(model.run, inputs, 4)
        end = time.monotonic() + budget
        while time.monotonic() < end:
            random.shuffle(order)
            took = {name: WAYS[name](model.run, inputs, 1) for name in order}
            for name in WAYS:
                ratios[name].append(took[name] / took["bare"])
        for _ in range(PROFILED_TURNS):
            base = bare(model.run, inputs, 2)
            for name, way in PROFILED.items():
                ratios[name].append(way(model.run, inputs, 2) / base)
    return ratios


def in_fork(work: Callable[[], dict[str, list[float]]]) -> dict[str, list[float]]:
    import json

    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        with os.fdopen(write, "w") as answer:
            json.dump(work(), answer)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    result: dict[str, list[float]] = json.loads(text)
    return result


def with_interval(ratios: list[float]) -> tuple[str, tuple[float, float]]:
    interval = median_interval(sorted(ratios))
    assert interval is not None
    return f"{statistics.median(ratios):.3f} [{interval[0]:.3f}, {interval[1]:.3f}]", interval


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=90.0, help="of turns, for each model (default: %(default)g)")
    budget = parser.parse_args().seconds
    import torch

    torch.set_num_threads(1)  # see profiler/execution/worker.py: this process is going to be forked
    from profiler.measure.passes.trace import prepare_profiler

    prepare_profiler()
    rows = []
    for name, (request, seconds) in CASES.items():
        ratios = in_fork(partial(compare, load_model(request()), seconds, budget))
        again, _ = with_interval(ratios["bare again"])
        found, (low, high) = with_interval(ratios["ours"])
        within = low >= 1 - WANTED and high <= 1 + WANTED
        verdict = "yes" if within else "unclear" if low <= 1 <= high else "NO"
        slow = [f"{statistics.median(ratios[way]):.2f}" for way in PROFILED]
        rows.append([name, str(len(ratios["ours"])), again, found, verdict, *slow])
    header = ["time over a bare call's", "turns", "bare again", "ours", f"ours within {WANTED:.0%}", *PROFILED]
    print(Table("Observer effect (ratios; 1.000 is no effect)", header, rows).markdown())


if __name__ == "__main__":
    main()
