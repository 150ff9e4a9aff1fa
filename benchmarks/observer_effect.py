"""Does measuring change what is measured? Our timing over a bare loop's, interleaved in one process of the same kind.

    .venv/bin/python -m benchmarks.observer_effect

For each model the ways take turns, block by block, in a fork of a process that holds the loaded model, as in a run: a
bare timing loop, our timing pass, and for comparison a loop under torch.profiler, with memory and with stacks. Each
ratio is the median over turns of (median of a block / median of the bare block of the same turn).
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from profiler.audio import Speech
from profiler.device import Device
from profiler.measure.latency import INPUTS, RoundSize, time_calls
from profiler.models.load import load_model
from profiler.models.model import Model, ModelRequest
from profiler.models.request import model_request
from profiler.recipe.load import load_recipe
from profiler.report.table import Table
from profiler.shipped import shipped_folder

WANTED = 0.02
RECIPES = shipped_folder() / "recipes"


def recipe_request(name: str) -> ModelRequest:
    loaded = load_recipe(RECIPES / f"{name}.yaml", {"pretrained_model.weights": "random"})
    return model_request(loaded.recipe, RECIPES)


# name -> (what to load, seconds, batch size, calls in a block, turns)
CASES: dict[str, tuple[Callable[[], ModelRequest], float, int, int, int]] = {
    "wav2vec2-base, 2 s x 1": (lambda: recipe_request("wav2vec2"), 2.0, 1, 3, 25),
    "CRDNN with beam search, 1 s x 1": (lambda: recipe_request("crdnn"), 1.0, 1, 2, 15),
    "5000 tiny operations": (lambda: ModelRequest("benchmarks.models.TinyOperations", "Module"), 1.0, 1, 10, 25),
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


WAYS = {"ours": ours, "torch.profiler, memory": profiled(False), "torch.profiler, memory and stacks": profiled(True)}


def compare(model: Model, seconds: float, batch: int, calls: int, turns: int, threads: int) -> dict[str, list[float]]:
    """Ratios to the bare loop, a list for each way."""
    import torch

    torch.set_num_threads(threads)
    speech = Speech(shipped_folder() / "samples" / "speech.flac", model.rate)
    inputs = [model.prepare(speech.batch(seconds, batch, seed)) for seed in range(INPUTS)]
    ratios: dict[str, list[float]] = {name: [] for name in ("bare again", *WAYS)}
    with torch.no_grad():
        bare(model.run, inputs, 4)
        for turn in range(turns):
            base = bare(model.run, inputs, calls)
            # Timing under the profiler is slow and only for comparison: every fifth turn is enough.
            ways = {"bare again": bare, "ours": ours} | (WAYS if turn % 5 == 0 else {})
            for name, way in ways.items():
                ratios[name].append(way(model.run, inputs, calls) / base)
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    threads = parser.parse_args().threads
    import torch

    torch.set_num_threads(1)  # see profiler/execution/worker.py: this process is going to be forked
    from profiler.measure.trace import prepare_profiler

    prepare_profiler()
    rows = []
    for name, (request, seconds, batch, calls, turns) in CASES.items():
        model = load_model(request())
        ratios = in_fork(partial(compare, model, seconds, batch, calls, turns, threads))
        found = {way: statistics.median(values) for way, values in ratios.items()}
        verdict = "yes" if abs(found["ours"] - 1) <= WANTED else "NO"
        rows.append([name, *(f"{found[way]:.3f}" for way in found), verdict])
    header = ["time over a bare loop's", "bare again", *WAYS, f"ours within {WANTED:.0%}"]
    print(Table("Observer effect (ratios; 1.000 is no effect)", header, rows).markdown())


if __name__ == "__main__":
    main()
