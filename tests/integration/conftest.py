"""One real run that several files of tests look at: two variants, traces, a data set, a cell that failed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.helpers import program

USER, HOST = "zaphod", "heart-of-gold"

MODEL = '''
import torch


class Encoder(torch.nn.Module):
    """An LSTM that dislikes one length, and says where it looked for something."""

    def __init__(self) -> None:
        super().__init__()
        self.front_end = torch.nn.Linear(80, 32)
        self.layers = torch.nn.LSTM(32, 32, batch_first=True)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        if 38 <= features.shape[1] <= 41:
            raise RuntimeError(f"cannot read {__file__} nor /home/zaphod/weights.pt, see /sys/class/powercap")
        return self.layers(self.front_end(features))[0]
'''
RECIPE = """# Written by zaphod on heart-of-gold.
pretrained_model:
  source: secret_models.Encoder
  weights: random
  type: Module
  input: features
profiling_dimensions:
  audio_mockup_secs: [0.1, 0.2, 0.4]
  batch_sizes: [1, 2]
  example_audio: {speech}
  export_logs: true
variants:
  - name: float32
  - {{name: one-thread, threads: 1}}
measure: {{rounds: 1, budget: 0.1, warmup: 1, watts: 5}}
trace: {{labels: {{the front end: front_end, the layers: layers}}}}
dataset: {{source: lengths.shapes.tsv, batch_size: 2}}
"""
SHAPES = "id\tseconds\ttarget\nzaphod-1\t0.2\t3\nzaphod-2\t0.3\t4\nzaphod-3\t0.25\t3\nzaphod-4\t0.15\t2\n"


class WholeRun(NamedTuple):
    """A finished run, and the private things that it knows."""

    folder: Path
    logdir: Path
    recipe: Path
    stdout: str
    private: tuple[str, ...]


@pytest.fixture(scope="session")
def whole_run(tmp_path_factory: pytest.TempPathFactory) -> WholeRun:
    """In a folder with a space in its name, by a user and on a host with names that occur nowhere else."""
    home = tmp_path_factory.mktemp("home") / USER / "my models"
    home.mkdir(parents=True)
    (home / "secret_models.py").write_text(MODEL)
    (home / "lengths.shapes.tsv").write_text(SHAPES)
    recipe = home / "mine.yaml"
    recipe.write_text(RECIPE.format(speech=program.ROOT / "samples" / "speech.flac"))
    logdir = home / "my logs"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOGNAME", USER)
        done = program.run(recipe, "--trust", "--logdir", logdir, "--quiet")
    assert done.returncode == 1, done.stdout + done.stderr  # the length that it dislikes
    folder = program.run_folder(logdir)
    _rename_host(folder)
    return WholeRun(
        folder, logdir, recipe, done.stdout, (USER, HOST, str(home), str(home.parents[1]), str(program.ROOT))
    )


def _rename_host(folder: Path) -> None:
    """This machine's name may be a word that occurs anywhere; the run is made to come from one with a rare name, and
    its traces are called as those of older versions, which had it in their names."""
    data = json.loads((folder / "results.json").read_text())
    data["environment"]["host"] = HOST
    for trace in folder.rglob("*.pt.trace.json.gz"):
        trace.rename(trace.with_name(f"{HOST}_{trace.name}"))
    for cell in data["cells"]:
        if cell["trace"]:
            place, name = cell["trace"].rsplit("/", 1)
            cell["trace"] = f"{place}/{HOST}_{name}"
    (folder / "results.json").write_text(json.dumps(data, indent=1))
