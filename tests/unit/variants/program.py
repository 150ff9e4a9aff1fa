"""A stand-in for the worker: loads each model on one thread; for each of its variants forks, converts the model there,
and forks again to run it on two threads, as a cell does. Prints a line of JSON for each variant.

    python -m tests.unit.variants.program '[{"request": {...}, "variants": [{...}]}]' [FOLDER of trained weights]
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from profiler.audio import Speech
from profiler.dataset.items import TrainingSpeech
from profiler.dataset.manifest import read_dataset
from profiler.errors import NotSupported
from profiler.models.load import load_model
from profiler.models.model import Model, ModelRequest
from profiler.recipe.schema import Variant
from profiler.variants.convert import convert
from profiler.variants.difference import difference, load_outputs, save_outputs
from tests.helpers import tiny, warm
from tests.helpers.program import ROOT

SECONDS = 1.0
ROWS = 2

Answer = dict[str, Any]

# Kinds of conversion by name, as a recipe would write them.
KINDS: dict[str, dict[str, Any]] = {
    "dynamic": {"quantize": "dynamic"},
    "recurrent": {"quantize": "dynamic", "layers": "linear_and_recurrent"},
    "static": {"quantize": "static"},
    "weight_only": {"quantize": "weight_only"},
    "bfloat16": {"precision": "bfloat16"},
    "float16": {"precision": "float16"},
    "math": {"attention": "math"},
    "eager": {"attention": "eager"},
    "channels_last": {"memory_format": "channels_last"},
    "compile": {"compile": True},
}


def converted(
    jobs: list[dict[str, Any]], trained: Path | None = None, **environment: str
) -> dict[str, dict[str, Answer]]:
    """Source -> variant -> {conversion, difference, ended, tasks} or {not_supported}."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        ran = warm.run(
            ["-m", "tests.unit.variants.program", json.dumps(jobs), str(trained)], ROOT, timeout=900, kind="models"
        )
    answers: dict[str, dict[str, Answer]] = {}
    for line in ran.stdout.splitlines():
        if line.startswith("{"):
            answer = json.loads(line)
            answers.setdefault(answer["source"], {})[answer["variant"]] = answer
    expected = sum(len(job["variants"]) for job in jobs)
    assert sum(map(len, answers.values())) == expected, ran.stderr
    return answers


def main() -> None:
    import torch

    torch.set_num_threads(1)
    for job in json.loads(sys.argv[1]):
        in_fork(partial(try_model, job["request"], job["variants"]))


def try_model(wanted: dict[str, Any], variants: list[dict[str, Any]]) -> None:
    for name in ("folder", "base"):
        wanted[name] = Path(wanted[name]) if wanted.get(name) else None
    model = load_model(ModelRequest(**wanted, trust=True))
    value = model.prepare(Speech(tiny.SPEECH, model.rate).batch(SECONDS, ROWS, seed=0))
    with tempfile.TemporaryDirectory() as folder:
        before = Path(folder) / "before"
        in_fork(lambda: save_outputs(model, value, before))
        for plain in variants:
            in_fork(partial(try_variant, model, wanted["source"], Variant.model_validate(plain), value, before))


def try_variant(model: Model, source: str, variant: Variant, value: Any, before: Path) -> None:
    answer: Answer = {"source": source, "variant": variant.name}
    try:
        speech = None
        if variant.qat is not None:
            speech = TrainingSpeech(read_dataset(Path(variant.qat.source)).utterances, Path(sys.argv[2]))
        answer["conversion"] = convert(model, variant, lambda: [value], speech).model_dump()
    except NotSupported as error:
        answer["not_supported"] = str(error)
    else:
        answer["tasks"] = len(list(Path("/proc/self/task").iterdir()))
        after = before.with_name("after")
        answer["ended"] = in_fork(lambda: run_in_cell(model, value))
        in_fork(lambda: save_on_two_threads(model, value, after))
        answer["difference"] = difference(load_outputs(before), load_outputs(after)).model_dump()
    print(json.dumps(answer), flush=True)


def run_in_cell(model: Model, value: Any) -> None:
    import torch

    torch.set_num_threads(2)
    with torch.no_grad():
        for _ in range(2):
            model.run(value)


def save_on_two_threads(model: Model, value: Any, output: Path) -> None:
    """As in the cell: for another number of threads everything would be compiled anew."""
    import torch

    torch.set_num_threads(2)
    save_outputs(model, value, output)


def in_fork(work: Callable[[], None]) -> int:
    """0 when the work was done; a hang is ended by the time limit of whoever started this program."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    main()
