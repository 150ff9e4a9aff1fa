"""What do labels cost? The profiled pass by a known amount, which a run reports; the timing pass nothing.

    .venv/bin/python -m benchmarks.labels

For each model, in a fork of a process that holds it, as in a run, these take turns: a bare call; another bare call, for
how far two equal things differ here; a call of the timing pass with labels in the recipe; a call with the labels on, as
the breakdown makes it. Each ratio is the median over turns, to the bare call of the same turn. `reported` is what the
breakdown itself says that its labels cost, worked out from the number of calls and the cost of one.
"""

from __future__ import annotations

import argparse
import os
import statistics
from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.observer_effect import bare, in_fork, ours, recipe_request
from profiler.audio import Speech
from profiler.device import Device
from profiler.measure.breakdown import find_parts
from profiler.models.load import load_model
from profiler.models.model import Model, ModelRequest
from profiler.recipe.schema import Training
from profiler.report.table import Table
from profiler.shipped import shipped_folder

SMALL = {"layers": 4, "width": 144, "heads": 4, "feed_forward": 576, "decoder_width": 144, "joiner_width": 144}
Labels = dict[str, str | list[str]]

# name -> (what to load, its labels, seconds, turns, whether it is trained)
CASES: dict[str, tuple[Callable[[], ModelRequest], Labels, float, int, bool]] = {
    "wav2vec2-base, 2 s": (
        lambda: recipe_request("wav2vec2"),
        {"encoder": "encoder", "attention": "*.attention", "feed_forward": "*.feed_forward"},
        2.0,
        25,
        False,
    ),
    "CRDNN with beam search, 1 s": (lambda: recipe_request("crdnn"), {}, 1.0, 15, False),
    "conformer transducer, 4 x 144, a training step of 1 s": (
        lambda: ModelRequest("icefall/conformer-transducer", "ConformerTransducer", overrides=SMALL),
        {"encoder": "encoder", "layer": "encoder.layers.*", "self_attn": "*.self_attn", "loss": "loss"},
        1.0,
        25,
        True,
    ),
}


def compare(
    model: Model, labels: Labels, seconds: float, turns: int, train: bool, threads: int
) -> dict[str, list[float]]:
    import torch
    from torch.nn.modules import module as hooks

    from profiler.measure.breakdown.labels import LabelledCall
    from profiler.measure.breakdown.watch import BackwardTally, labelled_call, time_parts
    from profiler.training.step import begin_training

    torch.set_num_threads(threads)
    device = Device("cpu")
    step = begin_training(model, Training(), device) if train else None
    batch = Speech(shipped_folder() / "samples" / "speech.flac", model.rate).batch(seconds, 1, seed=0)
    value = step.prepare(batch, 0) if step is not None else model.prepare(batch)
    run: Callable[[Any], Any] = step or model.run
    chains = find_parts(model, labels)
    assert chains is not None
    call = LabelledCall(run, value, device, chains, step)
    found: dict[str, list[float]] = {"bare again": [], "timing": [], "labelled": [], "reported": [], "hooks": []}

    def noting(given: Any) -> Any:
        found["hooks"].append(len(hooks._global_forward_hooks) + len(hooks._global_forward_pre_hooks))
        return run(given)

    with torch.set_grad_enabled(train):
        bare(run, [value], 4)
        for _ in range(turns):
            base = bare(run, [value], 1)
            found["bare again"].append(bare(run, [value], 1) / base)
            found["timing"].append(ours(noting, [value, value], 1) / base)
            tally = BackwardTally(chains) if train else None
            took, _, _ = labelled_call(call, tally)
            found["labelled"].append(took / 1e9 / base)
        found["reported"].append(1 + time_parts(call).known_overhead)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--turns", type=int, help="turns of each case, for a quick look")
    arguments = parser.parse_args()
    import torch

    torch.set_num_threads(1)  # see profiler/execution/worker.py: this process is going to be forked
    rows = []
    for name, (request, labels, seconds, turns, train) in CASES.items():
        model = load_model(request())
        work = partial(compare, model, labels, seconds, arguments.turns or turns, train, arguments.threads)
        found = in_fork(work)
        ratios = {way: statistics.median(values) for way, values in found.items() if way != "hooks"}
        rows.append([name, *(f"{ratio:.3f}" for ratio in ratios.values()), f"{max(found['hooks']):g}"])
    header = ["time over a bare call's", "bare again", "timing pass", "with labels", "reported", "hooks while timing"]
    print(Table("Cost of labels (ratios; 1.000 is none)", header, rows).markdown())


if __name__ == "__main__":
    main()
